/* SPDX-License-Identifier: Apache-2.0 */
/* One request: read strictly, its header rewritten. Only header values are ever replaced: not the
 * target, not the body. */
#include <errno.h>

#include "face/broker/conn.h"

/* What is ours to say, or would make the answer unreadable for the scrubber. */
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

static int put_value(struct broker_conn *conn, const struct sandbox *sandbox,
		     const struct http_header *header)
{
	struct str host = str_of(conn->name), value = header->value;
	size_t before = buf_len(&conn->up);
	int r;

	if (str_eq_nocase(header->name, "authorization") && value.n > 6 &&
	    str_eq_nocase((struct str){ value.p, 6 }, "basic ")) {
		struct str credentials = str_trim((struct str){ value.p + 6, value.n - 6 }, " ");

		r = buf_append(&conn->up, value.p, 6);
		if (r == 0)
			r = broker_replace_basic(sandbox, host, conn->port, credentials, &conn->up);
	} else {
		r = broker_replace(sandbox, host, conn->port, value, &conn->up);
	}
	if (r < 0)
		return r;
	/* A value with a line end would be a header of its own. */
	return http_is_field_value(
		       (struct str){ buf_data(&conn->up) + before, buf_len(&conn->up) - before })
		       ? 0
		       : -EINVAL;
}

static int write_head(struct broker_conn *conn, const struct sandbox *sandbox,
		      const struct http_head *head)
{
	int r = buf_printf(&conn->up, "%.*s %.*s HTTP/1.1\r\n", (int)head->method_name.n,
			   head->method_name.p, (int)head->target.n, head->target.p);

	for (size_t i = 0; i < head->header_count && r == 0; i++) {
		const struct http_header *header = &head->headers[i];

		if (is_dropped(header->name, head->upgrade))
			continue;
		r = buf_printf(&conn->up, "%.*s: ", (int)header->name.n, header->name.p);
		if (r == 0)
			r = put_value(conn, sandbox, header);
		if (r == 0)
			r = buf_puts(&conn->up, "\r\n");
	}
	if (r == 0)
		r = buf_printf(&conn->up, "Accept-Encoding: identity\r\nConnection: %s\r\n\r\n",
			       head->upgrade ? "Upgrade" : "close");
	return r;
}

static bool host_is(const struct broker_conn *conn, struct str host)
{
	struct str name, port;
	uint64_t number = conn->port;

	if (!http_host_split(host, &name) || !str_eq_nocase(name, conn->name))
		return false;
	if (name.n == host.n)
		return true;
	port = (struct str){ host.p + name.n + 1, host.n - name.n - 1 };
	return str_to_u64(port, UINT16_MAX, &number) == 0 && number == conn->port;
}

static int refuse(struct broker_conn *conn, const char *status, const char *message)
{
	conn_refuse(conn, status, "broker_refused", message);
	return -1;
}

static int check(struct broker_conn *conn, const struct http_head *head)
{
	if (!host_is(conn, head->host))
		return refuse(conn, "421 Misdirected Request",
			      "the Host header is not the host of this connection");
	if (head->target.p[0] != '/')
		return refuse(conn, "400 Bad Request", "the request target must start with '/'");
	/* A server that answers with the request would show the value. */
	if (str_is(head->method_name, "TRACE") || str_is(head->method_name, "CONNECT"))
		return refuse(conn, "405 Method Not Allowed", "this method is not passed on");
	return 0;
}

int request_rewrite(struct broker_conn *conn)
{
	struct broker *broker = conn->broker;
	struct http_head head = { .headers = broker->headers, .header_max = HEADERS_MAX };
	const struct sandbox *sandbox = sandbox_get(broker->service, conn->sandbox);
	enum http_verdict v;
	size_t n;

	v = http_head_scan(&conn->scan, true, buf_data(&conn->in), buf_len(&conn->in), HEAD_MAX,
			   &n);
	if (v == HTTP_MORE)
		return 0;
	if (v == HTTP_OK)
		v = http_head_parse_request(&head, buf_data(&conn->in), n);
	if (v != HTTP_OK)
		return refuse(conn, "400 Bad Request", head.why ? head.why : "malformed request");
	if (check(conn, &head) < 0)
		return -1;
	if (!sandbox || write_head(conn, sandbox, &head) < 0)
		return refuse(conn, "502 Bad Gateway",
			      "the secret cannot be put into this request's header");
	conn->chunked = head.chunked;
	conn->endless = head.upgrade;
	conn->left = head.content_length > 0 ? (uint64_t)head.content_length : 0;
	http_chunked_init(&conn->chunks);
	conn->body_done = !conn->chunked && !conn->endless && conn->left == 0;
	buf_consume(&conn->in, n);
	return 1;
}

static ssize_t chunked_body(struct broker_conn *conn, const char *p, size_t n)
{
	size_t all = 0;

	while (all < n && !conn->body_done) {
		struct str data;
		size_t used = 0;
		int r = http_chunked_next(&conn->chunks, p + all, n - all, &used, &data);

		if (r < 0)
			return -1;
		all += used;
		conn->body_done = r == 1;
		if (used == 0 && r == 0)
			break;
	}
	return (ssize_t)all;
}

ssize_t request_body(struct broker_conn *conn, const char *p, size_t n)
{
	if (conn->endless)
		return (ssize_t)n;
	if (conn->body_done)
		return 0;
	if (conn->chunked)
		return chunked_body(conn, p, n);
	n = (size_t)MIN((uint64_t)n, conn->left);
	conn->left -= n;
	conn->body_done = conn->left == 0;
	return (ssize_t)n;
}
