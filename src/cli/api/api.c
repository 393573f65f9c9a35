/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/api.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <strings.h>

#include "cli/api/advice.h"
#include "cli/api/exit.h"
#include "cli/api/resolve.h"

#define PROBE_MS 2000 /* for the probe whether the other protocol is spoken */

const struct json *field(const struct json *object, const char *name)
{
	const struct json *value;
	const char *key;
	void *it = NULL;

	if (object == NULL || json_type(object) != JSON_OBJECT)
		return NULL;
	while (json_next(object, &it, &key, &value))
		if (strcmp(key, name) == 0)
			return json_type(value) == JSON_NULL ? NULL : value;
	return NULL;
}

struct str field_str(const struct json *object, const char *name)
{
	const struct json *value = field(object, name);

	if (value == NULL || json_type(value) != JSON_STRING)
		return (struct str){ "", 0 };
	return json_str(value);
}

int64_t field_int(const struct json *object, const char *name, int64_t otherwise)
{
	const struct json *value = field(object, name);

	if (value == NULL || json_type(value) != JSON_INT)
		return otherwise;
	return json_int(value);
}

bool field_bool(const struct json *object, const char *name)
{
	const struct json *value = field(object, name);

	return value != NULL && json_type(value) == JSON_BOOL && json_bool(value);
}

/* Whether a server at this address replies in that protocol. It gets no key. */
static bool speaks(const char *url)
{
	struct http_client *other = NULL;
	struct http_response res;
	int r;

	if (http_client_new(url, &other) < 0)
		return false;
	http_client_set_timeout(other, PROBE_MS, PROBE_MS);
	http_response_init(&res, API_BODY_LIMIT_BYTES);
	r = http_client_call(other, "GET", "/healthz", (struct str){ "", 0 }, (struct str){ "", 0 },
			     &res);
	http_response_done(&res);
	http_client_free(other);
	return r == 0 || (r == -EKEYREJECTED && str_starts(str_of(url), "https://"));
}

/* https:// to a plain port, or the reverse: 1 if that is the reason, with err set. */
static int wrong_scheme(struct cli *cli, int error, struct err *err)
{
	bool secure = str_starts(str_of(cli->url), "https://");
	const char *host = strstr(cli->url, "://");
	char other[CLI_URL_MAX + 8];

	if (host == NULL || (error != -EPROTO && error != -ECONNRESET && error != -EPIPE))
		return 0;
	(void)snprintf(other, sizeof(other), "%s%s", secure ? "http" : "https", host);
	if (!speaks(other))
		return 0;
	(void)cli_hint(cli, "Use %s (--url or CAY_URL).", other);
	(void)err_set(err, ERR_INVALID_REQUEST, "%s does not speak %s: it speaks %s", host + 3,
		      secure ? "https" : "http", secure ? "http" : "https");
	return 1;
}

int api_lost(struct cli *cli, int error, struct err *err)
{
	if (wrong_scheme(cli, error, err))
		return -1;
	cli->lost = error != -EFBIG && error != -ENOBUFS && error != -ENOMEM && error != -ECANCELED;
	cli->lost_error = error;
	if (error == -ECONNREFUSED || error == -ENOENT) {
		if (cli->url_flag != NULL || !cli->state_given)
			(void)cli_hint(cli, "Start it with: cay up");
		else
			(void)cli_hint(cli, "Start it with: cay up --state %s", cli->state);
		return err_set(err, ERR_UNAVAILABLE, "the daemon is not running (%s)", cli->url);
	}
	if (error == -ECANCELED)
		return err_set(err, ERR_UNAVAILABLE, "interrupted");
	if (error == -ETIMEDOUT)
		return err_set(err, ERR_TIMEOUT, "the daemon at %s did not reply in time",
			       cli->url);
	if (error == -EPROTO)
		return err_set(err, ERR_UNAVAILABLE,
			       "the server at %s is not a cay daemon: it does not speak HTTP",
			       cli->url);
	if (error == -EKEYREJECTED) {
		(void)cli_hint(cli, "SSL_CERT_FILE=FILE names the certificates to trust");
		return err_set(err, ERR_UNAVAILABLE, "the certificate of %s is not trusted",
			       cli->url);
	}
	if (error == -EFBIG || error == -ENOBUFS)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE,
			       "the reply is larger than this program accepts");
	return err_set_errno(err, ERR_UNAVAILABLE, -error, "%s", cli->url);
}

/* A code that this version does not know has the daemon's hint, or none. */
static void note_hint(struct cli *cli, const char *name, struct str theirs)
{
	enum err_code code = err_from_name(name);

	if (strcmp(err_name(code), name) == 0)
		advice_hint(cli->hint, cli, code, theirs);
	else if (str_copy(cli->hint, sizeof(cli->hint), theirs) < 0)
		cli->hint[0] = '\0';
}

/* Turns an answer that is not 2xx into err, keeping its bytes for --json. */
int api_refused(struct cli *cli, const struct http_response *res, struct err *err)
{
	struct err parse_err;
	_cleanup_json_ struct json *doc = NULL;
	const struct json *error;
	char name[64], message[ERR_MESSAGE_MAX];
	struct str code;

	cli->http_status = res->status;
	cli->lost = res->status == 503;
	doc = json_parse(buf_str(&res->body), &parse_err);
	error = field(doc, "error");
	code = field_str(error, "code");
	if (error == NULL || str_copy(name, sizeof(name), code) < 0 || code.n == 0) {
		cli->exit_status = exit_of_http(res->status);
		return err_set(err, res->status >= 500 ? ERR_INTERNAL : ERR_INVALID_REQUEST,
			       "%s replied with status %d and no error message", cli->url,
			       res->status);
	}
	cli->error_body = strndup(buf_data(&res->body), buf_len(&res->body));
	cli->exit_status = exit_of_answer(name, res->status);
	note_hint(cli, name, field_str(error, "hint"));
	advice_message(message, cli, field_str(error, "message"));
	return err_set(err, err_from_name(name), "%s", message);
}

void api_forget(struct cli *cli)
{
	cli->http_status = 0;
	cli->exit_status = 0;
	cli->lost = false;
	cli->lost_error = 0;
	cli->hint[0] = '\0';
	free(cli->error_body);
	cli->error_body = NULL;
}

static int begin(struct cli *cli, struct err *err)
{
	api_forget(cli);
	if (cli_connect(cli, err) == 0)
		return 0;
	cli->lost = err->code == ERR_UNAVAILABLE;
	cli->lost_error = -ECONNREFUSED;
	return -1;
}

static int call_once(struct cli *cli, const char *method, const char *path, const struct buf *body,
		     struct json **ret, struct err *err)
{
	struct http_response res;
	struct str type = body != NULL ? STR_LIT("application/json") : (struct str){ "", 0 };
	struct str bytes = body != NULL ? buf_str(body) : (struct str){ "", 0 };
	struct json *doc = NULL;
	int r;

	if (begin(cli, err) < 0)
		return -1;
	http_response_init(&res, API_BODY_LIMIT_BYTES);
	r = http_client_call(cli->http, method, path, type, bytes, &res);
	if (r < 0) {
		r = api_lost(cli, r, err);
	} else if (res.status < 200 || res.status > 299) {
		r = api_refused(cli, &res, err);
	} else if (ret != NULL && buf_len(&res.body) > 0) {
		doc = json_parse(buf_str(&res.body), err);
		r = doc != NULL ? 0 : -1;
	}
	http_response_done(&res);
	if (r < 0)
		return -1;
	if (ret != NULL)
		*ret = doc;
	return 0;
}

int api_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct json **ret, struct err *err)
{
	struct buf whole;
	int r;

	buf_init(&whole, API_URL_MAX);
	r = call_once(cli, method, resolve_path(cli, path, &whole), body, ret, err);
	if (r < 0 && resolve_again(cli, path, err))
		r = call_once(cli, method, resolve_path(cli, path, &whole), body, ret, err);
	buf_done(&whole);
	return r;
}

struct json_writer api_body_begin(struct buf *body, size_t max_bytes)
{
	struct json_writer w;

	buf_init(body, max_bytes);
	json_writer_init(&w, body);
	json_begin_object(&w, NULL);
	return w;
}

int api_body_send(struct cli *cli, const char *method, const char *path, struct json_writer *w,
		  struct buf *body, struct json **ret, struct err *err)
{
	int r;

	json_end_object(w);
	if (json_writer_end(w) < 0)
		r = err_set(err, ERR_PAYLOAD_TOO_LARGE, "the request is too large");
	else
		r = api_call(cli, method, path, body, ret, err);
	buf_done(body);
	return r;
}

struct piece_sink {
	http_client_data_fn data;
	void *arg;
	int result;
};

static int take_piece(void *arg, const char *p, size_t n)
{
	struct piece_sink *sink = arg;

	sink->result = sink->data(sink->arg, p, n);
	return sink->result;
}

static int stream_once(struct cli *cli, const char *method, const char *path,
		       const struct buf *body, http_client_data_fn data, void *arg, struct err *err)
{
	struct piece_sink sink = { .data = data, .arg = arg };
	struct str type = body != NULL ? STR_LIT("application/json") : (struct str){ "", 0 };
	struct str bytes = body != NULL ? buf_str(body) : (struct str){ "", 0 };
	const struct http_client_sink pieces = { take_piece, &sink };
	struct http_response res;
	int r;

	if (begin(cli, err) < 0)
		return -1;
	http_response_init(&res, API_BODY_LIMIT_BYTES);
	r = http_client_stream(cli->http, method, path, type, bytes, &res, &pieces);
	if (sink.result < 0)
		r = sink.result;
	else if (r < 0)
		r = api_lost(cli, r, err);
	else if (res.status < 200 || res.status > 299)
		r = api_refused(cli, &res, err);
	cli->left_out = strncasecmp(res.trailer, "Cay-Failed: ", 12) == 0
				? strtoull(res.trailer + 12, NULL, 10)
				: 0;
	http_response_done(&res);
	return r;
}

int api_stream(struct cli *cli, const char *method, const char *path, const struct buf *body,
	       http_client_data_fn data, void *arg, struct err *err)
{
	struct buf whole;
	int r;

	buf_init(&whole, API_URL_MAX);
	r = stream_once(cli, method, resolve_path(cli, path, &whole), body, data, arg, err);
	if (r < 0 && resolve_again(cli, path, err))
		r = stream_once(cli, method, resolve_path(cli, path, &whole), body, data, arg, err);
	buf_done(&whole);
	return r;
}

int api_print(struct cli *cli, const struct json *doc, struct err *err)
{
	struct json_writer w;
	struct buf out;
	int r;

	buf_init(&out, API_BODY_LIMIT_BYTES);
	json_writer_init(&w, &out);
	json_put_value(&w, NULL, doc);
	r = json_writer_end(&w);
	if (r == 0)
		r = buf_putc(&out, '\n');
	if (r == 0 && fwrite(buf_data(&out), 1, buf_len(&out), stdout) != buf_len(&out))
		r = -EIO;
	buf_done(&out);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, -r, "cannot print");
	return 0;
}

/* Unreserved characters stay, all others become %XX, so a name can never change the path. */
static int encode(char *dst, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (n + 4 > size)
			return -ENAMETOOLONG;
		if (isalnum(c) || strchr("-._~", c) != NULL)
			dst[n++] = (char)c;
		else
			n += (size_t)snprintf(dst + n, 4, "%%%02X", c);
	}
	dst[n] = '\0';
	return (int)n;
}

int api_path(char dst[API_PATH_MAX], struct err *err, const char *fmt, ...)
{
	size_t n = 0;
	int r = 0;
	va_list ap;

	va_start(ap, fmt);
	for (; *fmt != '\0' && r >= 0; fmt++) {
		if (n + 1 >= API_PATH_MAX) {
			r = -ENAMETOOLONG;
		} else if (fmt[0] == '%' && fmt[1] == 's') {
			const char *part = va_arg(ap, const char *);

			/* Dots alone would be interpreted as steps up the path. */
			r = part[0] == '\0' || strcmp(part, ".") == 0 || strcmp(part, "..") == 0
				    ? -EINVAL
				    : encode(dst + n, API_PATH_MAX - n, part);
			n += r > 0 ? (size_t)r : 0;
			fmt++;
		} else {
			dst[n++] = *fmt;
		}
	}
	va_end(ap);
	if (r < 0)
		return err_set(err, ERR_INVALID_REQUEST, "not a valid name or id");
	dst[n] = '\0';
	return 0;
}

int api_query(char dst[API_PATH_MAX], const char *name, const char *value, struct err *err)
{
	size_t n = strlen(dst);
	int r;

	r = n + 2 < API_PATH_MAX ? 0 : -ENAMETOOLONG;
	if (r == 0 && n > 0)
		dst[n++] = '&';
	if (r == 0)
		r = encode(dst + n, API_PATH_MAX - n, name);
	if (r >= 0) {
		n += (size_t)r;
		r = n + 2 < API_PATH_MAX ? 0 : -ENAMETOOLONG;
	}
	if (r == 0) {
		dst[n++] = '=';
		r = encode(dst + n, API_PATH_MAX - n, value);
	}
	if (r < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the filter is too long");
	return 0;
}

int api_list(struct cli *cli, const char *path, const char *query, api_each_fn each, void *arg,
	     struct err *err)
{
	char cursor[256] = "", full[API_PATH_MAX * 2], params[API_PATH_MAX];

	for (;;) {
		_cleanup_json_ struct json *doc = NULL;
		const struct json *data;
		struct str next;

		(void)snprintf(params, sizeof(params), "%s", query != NULL ? query : "");
		if (cursor[0] != '\0' && api_query(params, "cursor", cursor, err) < 0)
			return -1;
		(void)snprintf(full, sizeof(full), "%s%s%s", path, params[0] != '\0' ? "?" : "",
			       params);
		if (api_call(cli, "GET", full, NULL, &doc, err) < 0)
			return -1;
		data = field(doc, "data");
		if (data == NULL || json_type(data) != JSON_ARRAY)
			return err_set(err, ERR_INTERNAL,
				       "the daemon returned a list without data");
		for (size_t i = 0; i < json_size(data); i++)
			if (each(arg, json_at(data, i)) != 0)
				return 0;
		next = field_str(doc, "next_cursor");
		/* The same cursor again would never end. */
		if (next.n == 0 || str_is(next, cursor))
			return 0;
		if (str_copy(cursor, sizeof(cursor), next) < 0)
			return err_set(err, ERR_INTERNAL, "the daemon's cursor is too long");
	}
}

struct printing {
	struct json_writer *w;
	api_keep_fn keep;
};

static int put_item(void *arg, const struct json *item)
{
	const struct printing *printing = arg;

	if (printing->keep == NULL || printing->keep(item))
		json_put_value(printing->w, NULL, item);
	return 0;
}

int api_print_list(struct cli *cli, const char *path, const char *query, api_keep_fn keep,
		   struct err *err)
{
	struct json_writer w;
	struct printing printing = { .w = &w, .keep = keep };
	struct buf out;
	int r, error;

	buf_init(&out, API_BODY_LIMIT_BYTES);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_begin_array(&w, "data");
	r = api_list(cli, path, query, put_item, &printing, err);
	json_end_array(&w);
	json_put_null(&w, "next_cursor");
	json_end_object(&w);
	error = json_writer_end(&w);
	if (r == 0 && error < 0)
		r = err_set_errno(err, ERR_PAYLOAD_TOO_LARGE, -error,
				  "the list is too long to print");
	if (r == 0)
		(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
	return r;
}

int api_delete_each(struct cli *cli, const struct args *args, const char *collection,
		    struct err *err)
{
	int worst = 0;

	for (size_t i = 0; i < args->operand_count; i++) {
		char path[2 * API_PATH_MAX], id[API_PATH_MAX];

		if (api_path(id, err, "%s", args->operands[i]) == 0) {
			(void)snprintf(path, sizeof(path), "%s/%s", collection, id);
			if (api_call(cli, "DELETE", path, NULL, NULL, err) == 0) {
				if (!cli->quiet && !cli->json)
					(void)printf("%s\n", args->operands[i]);
				continue;
			}
		}
		worst = cli_report(cli, err);
		if (cli->http_status == 0)
			break;
	}
	return worst;
}
