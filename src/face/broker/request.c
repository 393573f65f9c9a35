/* SPDX-License-Identifier: Apache-2.0 */
#include "face/broker/request.h"

#include <errno.h>

#include "service/secret/secret.h"

/* Headers that we write ourselves, or that would make the reply unreadable for the scrubber. */
static bool is_dropped(struct str name, bool upgrade)
{
	static const char *const always[] = {
		"connection",	   "keep-alive", "proxy-connection",
		"accept-encoding", "te",	 "proxy-authorization"
	};

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (str_eq_nocase(name, always[i]))
			return true;
	return !upgrade && str_eq_nocase(name, "upgrade");
}

static int put_value(const struct request *req, const struct sandbox *sandbox,
		     const struct http_header *header, struct buf *out)
{
	struct str host = str_of(req->name), value = header->value;
	size_t before = buf_len(out);
	int r;

	if (str_eq_nocase(header->name, "authorization") && value.n > 6 &&
	    str_eq_nocase((struct str){ value.p, 6 }, "basic ")) {
		struct str credentials = str_trim((struct str){ value.p + 6, value.n - 6 }, " ");

		r = buf_append(out, value.p, 6);
		if (r == 0)
			r = broker_replace_basic(sandbox, host, req->port, credentials, out);
	} else {
		r = broker_replace(sandbox, host, req->port, value, out);
	}
	if (r < 0)
		return r;
	/* A value with a line end would become another header. */
	return http_is_field_value((struct str){ buf_data(out) + before, buf_len(out) - before })
		       ? 0
		       : -EINVAL;
}

int request_write(const struct request *req, const struct sandbox *sandbox, struct buf *out)
{
	const struct http_head *head = &req->head;
	int r = buf_printf(out, "%.*s %.*s HTTP/1.1\r\n", (int)head->method_name.n,
			   head->method_name.p, (int)head->target.n, head->target.p);

	for (size_t i = 0; i < head->header_count && r == 0; i++) {
		const struct http_header *header = &head->headers[i];

		if (is_dropped(header->name, head->upgrade))
			continue;
		r = buf_printf(out, "%.*s: ", (int)header->name.n, header->name.p);
		if (r == 0)
			r = put_value(req, sandbox, header, out);
		if (r == 0)
			r = buf_puts(out, "\r\n");
	}
	if (r == 0)
		r = buf_printf(out, "Accept-Encoding: identity\r\nConnection: %s\r\n\r\n",
			       head->upgrade ? "Upgrade" : "close");
	return r;
}

static bool host_is(const struct request *req, struct str host)
{
	struct str name, port;
	uint64_t number = req->port;

	if (!http_host_split(host, &name) || !str_eq_nocase(name, req->name))
		return false;
	if (name.n == host.n)
		return true;
	port = (struct str){ host.p + name.n + 1, host.n - name.n - 1 };
	return str_to_u64(port, UINT16_MAX, &number) == 0 && number == req->port;
}

static int refuse(struct request *req, const char *status, const char *why)
{
	req->status = status;
	req->why = why;
	return -1;
}

int request_read(struct request *req, const char *p, size_t n)
{
	struct http_head *head = &req->head;
	enum http_verdict v =
		http_head_scan(&req->scan, true, p, n, REQUEST_HEAD_MAX, &req->head_bytes);

	if (v == HTTP_MORE)
		return 0;
	head->why = NULL;
	if (v == HTTP_OK)
		v = http_head_parse_request(head, p, req->head_bytes);
	if (v != HTTP_OK)
		return refuse(req, "400 Bad Request", head->why ? head->why : "malformed request");
	if (!host_is(req, head->host))
		return refuse(req, "421 Misdirected Request",
			      "the Host header is not the host of this connection");
	if (head->target.p[0] != '/')
		return refuse(req, "400 Bad Request", "the request target must start with '/'");
	/* A server that repeats the request in its reply would show the value. */
	if (str_is(head->method_name, "TRACE") || str_is(head->method_name, "CONNECT"))
		return refuse(req, "405 Method Not Allowed", "this method is not passed on");
	return 1;
}

void request_body_init(struct request_body *body, const struct http_head *head)
{
	*body = (struct request_body){
		.chunked = head->chunked,
		.endless = head->upgrade,
		.left = head->content_length > 0 ? (uint64_t)head->content_length : 0,
	};
	http_chunked_init(&body->chunks);
	body->done = !body->chunked && !body->endless && body->left == 0;
}

static ssize_t take_chunked(struct request_body *body, const char *p, size_t n)
{
	size_t all = 0;

	while (all < n && !body->done) {
		struct str data;
		size_t used = 0;
		int r = http_chunked_next(&body->chunks, p + all, n - all, &used, &data);

		if (r < 0)
			return -1;
		all += used;
		body->done = r == 1;
		if (used == 0 && r == 0)
			break;
	}
	return (ssize_t)all;
}

ssize_t request_body_take(struct request_body *body, const char *p, size_t n)
{
	if (body->endless)
		return (ssize_t)n;
	if (body->done)
		return 0;
	if (body->chunked)
		return take_chunked(body, p, n);
	n = (size_t)MIN((uint64_t)n, body->left);
	body->left -= n;
	body->done = body->left == 0;
	return (ssize_t)n;
}
