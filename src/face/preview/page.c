/* SPDX-License-Identifier: Apache-2.0 */
/* What visitors see when there is nothing to see: a page for browsers, JSON for programs. */
#include <stdio.h>

#include "base/json.h"
#include "face/kit/error.h"
#include "face/preview/visit.h"

static bool wants_page(const struct http_req *req)
{
	const struct str *accept = http_req_header(req, "accept");

	return accept && !req->upgrade && memmem(accept->p, accept->n, "text/html", 9);
}

static const struct {
	enum err_code code;
	const char *title;
} titles[] = {
	{ ERR_SANDBOX_NOT_FOUND, "No such sandbox" },
	{ ERR_SANDBOX_GONE, "This sandbox has ended" },
	{ ERR_WRONG_STATE, "This sandbox is paused" },
	{ ERR_PREVIEW_NOT_FOUND, "No preview here" },
	{ ERR_PREVIEW_PRIVATE, "This preview is private" },
	{ ERR_PREVIEW_EXPIRED, "This preview has expired" },
	{ ERR_PORT_REFUSED, "This port has no preview" },
	{ ERR_PORT_CLOSED, "Nothing listens on this port yet" },
	{ ERR_UPSTREAM_FAILED, "The server inside did not answer properly" },
	{ ERR_UPSTREAM_TIMEOUT, "The server inside took too long" },
	{ ERR_RATE_LIMITED, "Too many attempts" },
	{ ERR_UNAVAILABLE, "This sandbox is not ready" },
	{ ERR_PREVIEW_LOOP, "This preview leads to itself" },
};

static const char *title_of(enum err_code code)
{
	for (size_t i = 0; i < ARRAY_LEN(titles); i++)
		if (titles[i].code == code)
			return titles[i].title;
	return "This preview cannot be shown";
}

/* Messages may hold what a client sent. */
static int put_escaped(struct buf *out, const char *text)
{
	int r = 0;

	for (; text && *text && r == 0; text++) {
		if (*text == '<')
			r = buf_puts(out, "&lt;");
		else if (*text == '>')
			r = buf_puts(out, "&gt;");
		else if (*text == '&')
			r = buf_puts(out, "&amp;");
		else if (*text == '"')
			r = buf_puts(out, "&quot;");
		else
			r = buf_putc(out, *text);
	}
	return r;
}

static int write_page(struct buf *out, const struct http_req *req, const struct err *err)
{
	bool wait = err->code == ERR_PORT_CLOSED || err->code == ERR_UNAVAILABLE;
	int r = buf_printf(out,
			   "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
			   "<meta name=\"viewport\" content=\"width=device-width\">%s"
			   "<title>%s</title><style>body{font:16px/1.5 system-ui,sans-serif;"
			   "max-width:38em;margin:15vh auto;padding:0 1em;color:#222;"
			   "background:#faf8f3}code{color:#666}p.h{color:#555}</style></head><body>"
			   "<h1>%s</h1><p>",
			   wait ? "<meta http-equiv=\"refresh\" content=\"3\">" : "",
			   title_of(err->code), title_of(err->code));

	if (r == 0)
		r = put_escaped(out, err->message);
	if (r == 0)
		r = buf_puts(out, "</p><p class=\"h\">");
	if (r == 0)
		r = put_escaped(out, error_hint(err->code));
	if (r == 0)
		r = buf_printf(out, "</p><p><code>%s %s</code></p></body></html>\n",
			       err_name(err->code), req->id);
	return r;
}

static int write_json(struct buf *out, const struct http_req *req, const struct err *err)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "error");
	json_put_text(&w, "code", err_name(err->code));
	json_put_text(&w, "message", err->message);
	json_put_text(&w, "hint", error_hint(err->code));
	json_put_text(&w, "request_id", req->id);
	json_put_bool(&w, "retryable", err_retryable(err->code));
	json_end_object(&w);
	json_end_object(&w);
	return json_writer_end(&w);
}

/* What E2B's proxy would answer; its clients look for these. */
static int e2b_status(enum err_code code)
{
	switch ((int)code) {
	case ERR_PREVIEW_PRIVATE:
	case ERR_PREVIEW_EXPIRED:
	case ERR_PORT_REFUSED:
		return 403;
	case ERR_SANDBOX_NOT_FOUND:
	case ERR_SANDBOX_GONE:
	case ERR_WRONG_STATE:
	case ERR_PORT_CLOSED:
	case ERR_UPSTREAM_FAILED:
		return 502;
	default:
		return error_status(code);
	}
}

static const char *e2b_message(const struct err *err)
{
	switch ((int)err->code) {
	case ERR_SANDBOX_NOT_FOUND:
	case ERR_SANDBOX_GONE:
		return "The sandbox was not found";
	case ERR_PORT_CLOSED:
		return "The sandbox is running but port is not open";
	case ERR_PREVIEW_PRIVATE:
		return "The traffic access token is missing or not valid: send it as "
		       "e2b-traffic-access-token";
	default:
		return err->message;
	}
}

static int write_e2b(struct buf *out, const struct page_subject *of, const struct err *err)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_put_str(&w, "sandboxId", of->id);
	json_put_text(&w, "message", e2b_message(err));
	if (err->code == ERR_PORT_CLOSED)
		json_put_int(&w, "port", of->port);
	json_put_int(&w, "code", e2b_status(err->code));
	json_end_object(&w);
	return json_writer_end(&w);
}

void page_error(struct preview_face *face, struct http_req *req, const struct page_subject *of,
		const struct err *err)
{
	bool page = wants_page(req), e2b = of && of->e2b;
	struct http_header headers[] = {
		{ STR_LIT("Content-Type"),
		  page ? STR_LIT("text/html; charset=utf-8") : STR_LIT("application/json") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Content-Type-Options"), STR_LIT("nosniff") },
		{ STR_LIT("Content-Security-Policy"),
		  STR_LIT("default-src 'none'; style-src 'unsafe-inline'") },
		{ STR_LIT("Vary"), STR_LIT("Accept") },
		{ STR_LIT("Retry-After"), STR_LIT("5") },
	};
	int status = e2b ? e2b_status(err->code) : error_status(err->code);
	size_t count = ARRAY_LEN(headers);
	int r;

	buf_clear(&face->out);
	if (page)
		r = write_page(&face->out, req, err);
	else
		r = e2b ? write_e2b(&face->out, of, err) : write_json(&face->out, req, err);
	if (r < 0)
		buf_clear(&face->out);
	if (status == 429)
		headers[5].value = STR_LIT("60");
	else if (status != 503 && err->code != ERR_PORT_CLOSED)
		count--;
	http_reply(req, status, headers, count, buf_str(&face->out));
}
