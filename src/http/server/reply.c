/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: heads, whole bodies, streams, and rejections by the server itself. */
#include "http/server/conn.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "base/err.h"

static const struct str nothing = { "", 0 };

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 203, "Non-Authoritative Information" },
	{ 205, "Reset Content" },
	{ 206, "Partial Content" },
	{ 207, "Multi-Status" },
	{ 300, "Multiple Choices" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 402, "Payment Required" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 418, "I'm a teapot" },
	{ 422, "Unprocessable Content" },
	{ 423, "Locked" },
	{ 424, "Failed Dependency" },
	{ 425, "Too Early" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 451, "Unavailable For Legal Reasons" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
	{ 508, "Loop Detected" },
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Status";
}

/* Formatting a date is slow: once a second is enough. */
static struct str date_line(struct http_server *server)
{
	int64_t second = loop_now_ms(server->loop) / 1000;

	if (second != server->date_second || !server->date[0]) {
		time_t now = time(NULL);
		struct tm tm;

		gmtime_r(&now, &tm);
		(void)strftime(server->date, sizeof(server->date),
			       "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
		server->date_second = second;
	}
	return str_of(server->date);
}

static int put(struct buf *out, struct str s)
{
	return buf_append(out, s.p, s.n);
}

static int put_header(struct buf *out, struct str name, struct str value)
{
	int r = http_field_put(out, name, value);

	return r == -EINVAL ? 0 : r; /* would split the reply: dropped */
}

static int put_length(struct buf *out, uint64_t n)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return put_header(out, STR_LIT("Content-Length"),
			  (struct str){ digits + at, sizeof(digits) - at });
}

/* Headers that the handler cannot set, because the server does the framing. */
static bool is_framing(struct str name)
{
	return (name.n == 14 && str_eq_nocase(name, "content-length")) ||
	       (name.n == 17 && str_eq_nocase(name, "transfer-encoding")) ||
	       (name.n == 10 && str_eq_nocase(name, "connection"));
}

struct head_shape {
	int status;
	enum http_framing framing;
	uint64_t length;
	bool upgrade;
};

static int put_framing(struct http_conn *conn, struct buf *out, const struct head_shape *shape)
{
	int r = 0;

	if (shape->upgrade)
		return 0;
	if (shape->framing == HTTP_FRAME_LENGTH)
		r = put_length(out, shape->length);
	else if (shape->framing == HTTP_FRAME_CHUNKED)
		r = put(out, STR_LIT("Transfer-Encoding: chunked\r\n"));
	if (r < 0)
		return r;
	if (!conn->keep)
		return put(out, STR_LIT("Connection: close\r\n"));
	return conn->minor_zero ? put(out, STR_LIT("Connection: keep-alive\r\n")) : 0;
}

/* Builds the head in the server's scratch buffer, which is consumed before the next use. */
static int put_head(struct http_conn *conn, const struct head_shape *shape,
		    const struct http_header *headers, size_t count, struct str *ret)
{
	struct buf *out = &conn->server->head_scratch;
	struct str id = { conn->req.id, sizeof(conn->req.id) - 1 };
	char line[] = "HTTP/1.1 000 ";
	int r;

	buf_clear(out);
	line[9] = (char)('0' + shape->status / 100 % 10);
	line[10] = (char)('0' + shape->status / 10 % 10);
	line[11] = (char)('0' + shape->status % 10);
	r = buf_append(out, line, sizeof(line) - 1);
	if (r == 0)
		r = put(out, str_of(reason_of(shape->status)));
	if (r == 0)
		r = put(out, STR_LIT("\r\n"));
	if (r == 0 && !conn->answer.forwarded)
		r = put(out, date_line(conn->server));
	if (r == 0 && !conn->answer.forwarded)
		r = put_header(out, STR_LIT("X-Request-Id"), id);
	for (size_t i = 0; i < count && r == 0; i++) {
		bool ours = is_framing(headers[i].name);

		if (ours && shape->upgrade && str_eq_nocase(headers[i].name, "connection"))
			ours = false;
		if (!ours)
			r = put_header(out, headers[i].name, headers[i].value);
	}
	for (size_t i = 0; i < conn->req.added_count && r == 0; i++)
		r = put_header(out, conn->req.added[i].name, conn->req.added[i].value);
	if (r == 0)
		r = put_framing(conn, out, shape);
	if (r == 0)
		r = put(out, STR_LIT("\r\n"));
	if (r == 0)
		*ret = buf_str(out);
	return r;
}

void http_req_add(struct http_req *req, struct str name, struct str value)
{
	if (req->added_count < HTTP_ADDED_MAX)
		req->added[req->added_count++] = (struct http_header){ name, value };
}

static bool has_no_body(const struct http_conn *conn, int status)
{
	return conn->req.method == HTTP_HEAD || status == 204 || status == 304 || status < 200;
}

static const struct http_header *find(const struct http_header *headers, size_t count,
				      const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq_nocase(headers[i].name, name))
			return &headers[i];
	return NULL;
}

/* The head contains whether another request may follow, so this is decided first. */
static void decide_keep(struct http_conn *conn, const struct http_header *headers, size_t count,
			bool reading_on)
{
	const struct http_header *connection = find(headers, count, "connection");

	if (connection && str_eq_nocase(connection->value, "close"))
		conn->keep = false;
	if (conn->server->draining)
		conn->keep = false;
	if (conn->keep && !(reading_on && !conn->body.error) && !http_body_skip(conn))
		conn->keep = false;
}

static bool answerable(const struct http_conn *conn)
{
	return !conn->dead && conn->state == HTTP_CONN_REQUEST && !conn->answer.started;
}

void http_reply(struct http_req *req, int status, const struct http_header *headers, size_t count,
		struct str body)
{
	struct http_conn *conn = req->conn;
	struct head_shape shape = { .status = status, .framing = HTTP_FRAME_LENGTH };
	const struct http_header *length;
	struct str head = nothing;

	if (!answerable(conn))
		return;
	decide_keep(conn, headers, count, false);
	conn->answer.started = true;
	shape.length = body.n;
	if (status == 204 || status == 304 || status < 200)
		shape.framing = HTTP_FRAME_NONE;
	length = req->method == HTTP_HEAD && body.n == 0 ? find(headers, count, "content-length")
							 : NULL;
	if (length && str_to_u64(length->value, INT64_MAX, &shape.length) < 0)
		shape.length = 0;
	if (has_no_body(conn, status))
		body = nothing;
	if (put_head(conn, &shape, headers, count, &head) < 0)
		conn->broken = true;
	else
		(void)!http_conn_send(conn, head, body, nothing);
	http_conn_end_request(conn);
}

int http_reply_start(struct http_req *req, int status, const struct http_header *headers,
		     size_t count)
{
	struct http_conn *conn = req->conn;
	struct http_answer *answer = &conn->answer;
	const struct http_header *length = find(headers, count, "content-length");
	struct head_shape shape = { .status = status, .framing = HTTP_FRAME_CHUNKED };
	struct str head = nothing;

	if (!answerable(conn))
		return -EPIPE;
	answer->bodyless = has_no_body(conn, status);
	if (status == 204 || status == 304 || status < 200)
		shape.framing = HTTP_FRAME_NONE;
	else if (length && str_to_u64(length->value, INT64_MAX, &shape.length) == 0)
		shape.framing = HTTP_FRAME_LENGTH;
	else if (conn->minor_zero)
		shape.framing = HTTP_FRAME_CLOSE;
	if (shape.framing == HTTP_FRAME_CLOSE)
		conn->keep = false;
	decide_keep(conn, headers, count, conn->body.reader != HTTP_READ_NONE);
	answer->started = true;
	answer->framing = shape.framing;
	answer->left = shape.length;
	if (put_head(conn, &shape, headers, count, &head) < 0)
		return -ENOMEM;
	return http_conn_queue(conn, head, nothing, nothing);
}

int http_reply_write(struct http_req *req, const void *p, size_t n)
{
	struct http_conn *conn = req->conn;
	struct http_answer *answer = &conn->answer;
	char line[HTTP_CHUNK_HEAD_SIZE];
	struct str head = nothing, tail = nothing;
	int r;

	if (conn->dead || conn->broken || conn->state != HTTP_CONN_REQUEST || !answer->started)
		return -EPIPE;
	if (n == 0 || answer->bodyless)
		return 0;
	if (answer->framing == HTTP_FRAME_CHUNKED) {
		head = (struct str){ line, http_chunk_head(line, n) };
		tail = STR_LIT("\r\n");
	} else if (answer->framing == HTTP_FRAME_LENGTH) {
		if (n > answer->left) {
			conn->broken = true; /* a longer body would be read as the next reply */
			http_server_ready(conn);
			return -EPIPE;
		}
		answer->left -= n;
	}
	r = http_conn_queue(conn, head, (struct str){ p, n }, tail);
	if (r < 0)
		return r;
	if (buf_len(&conn->out) <= conn->server->limits.write_watermark_bytes)
		return 0;
	answer->above = true;
	return -EAGAIN;
}

void http_reply_on_drain(struct http_req *req, void (*fn)(void *arg), void *arg)
{
	req->conn->answer.on_drain = fn;
	req->conn->answer.drain_arg = arg;
}

void http_reply_patience(struct http_req *req, int timeout_ms)
{
	req->conn->answer.patience_ms = timeout_ms;
}

void http_reply_end(struct http_req *req)
{
	http_reply_end_with(req, nothing);
}

void http_reply_end_with(struct http_req *req, struct str trailer)
{
	struct http_conn *conn = req->conn;
	struct http_answer *answer = &conn->answer;

	if (conn->dead || conn->state != HTTP_CONN_REQUEST)
		return;
	if (!answer->started ||
	    (answer->framing == HTTP_FRAME_LENGTH && !answer->bodyless && answer->left)) {
		http_reply_abort(req);
		return;
	}
	if (answer->framing != HTTP_FRAME_CHUNKED || answer->bodyless)
		;
	else if (trailer.n)
		(void)!http_conn_queue(conn, STR_LIT("0\r\n"), trailer, STR_LIT("\r\n\r\n"));
	else
		(void)!http_conn_queue(conn, STR_LIT(HTTP_CHUNK_LAST), nothing, nothing);
	http_conn_end_request(conn);
}

void http_reply_abort(struct http_req *req)
{
	struct http_conn *conn = req->conn;

	if (conn->dead || conn->state != HTTP_CONN_REQUEST)
		return;
	if (conn->answer.framing == HTTP_FRAME_CLOSE) {
		/*
		 * Without framing, the end of the connection ends the body: only a reset shows that
		 * it is incomplete.
		 */
		struct linger reset = { .l_onoff = 1 };

		(void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	conn->broken = true;
	http_conn_end_request(conn);
}

int http_reply_upgrade(struct http_req *req, int status, const struct http_header *headers,
		       size_t count, int *ret_fd, struct str *ret_unread)
{
	struct http_conn *conn = req->conn;
	struct head_shape shape = { .status = status, .upgrade = true };
	struct str head = nothing;
	int r;

	if (!answerable(conn))
		return -EPIPE;
	if (!conn->body.complete)
		return -EINVAL;
	r = put_head(conn, &shape, headers, count, &head);
	if (r < 0)
		return r;
	r = http_conn_send(conn, head, nothing, nothing);
	if (r < 0)
		return r;
	if (buf_len(&conn->out)) {
		/* A client that does not even take this is of no use to the new owner. */
		conn->broken = true;
		return -EPIPE;
	}
	*ret_unread = buf_str(&conn->in);
	*ret_fd = http_conn_detach(conn);
	return 0;
}

static enum err_code code_of(int status)
{
	if (status == 431)
		return ERR_HEADERS_TOO_LARGE;
	if (status == 408)
		return ERR_REQUEST_TIMEOUT;
	return status == 503 ? ERR_CAPACITY_EXCEEDED : ERR_INVALID_REQUEST;
}

static int refusal_body(char *dst, size_t size, int status, const char *why, const char *id)
{
	enum err_code code = code_of(status);

	return snprintf(dst, size,
			"{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":null,"
			"\"request_id\":\"%s\",\"retryable\":%s}}",
			err_name(code), why, id, err_retryable(code) ? "true" : "false");
}

void http_reply_refuse(struct http_conn *conn, int status, const char *why)
{
	struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/json") },
		{ STR_LIT("Retry-After"), STR_LIT("1") },
	};
	struct head_shape shape = { .status = status, .framing = HTTP_FRAME_LENGTH };
	char body[512];
	struct str head = nothing;
	int n;

	http_server_label(conn->server, conn->req.id);
	n = refusal_body(body, sizeof(body), status, why, conn->req.id);
	shape.length = (uint64_t)n;
	conn->keep = false;
	conn->linger = true;
	conn->read_deadline_ms = 0;
	conn->state = HTTP_CONN_FLUSHING;
	buf_clear(&conn->in); /* nothing after a malformed head is parsed */
	if (put_head(conn, &shape, headers, status == 503 ? 2 : 1, &head) < 0)
		conn->broken = true;
	else
		(void)!http_conn_send(conn, head, (struct str){ body, (size_t)n }, nothing);
}

size_t http_reply_busy(char *dst, size_t size, const char *id)
{
	char body[384];
	int n = refusal_body(body, sizeof(body), 503, "Too many connections.", id);

	n = snprintf(dst, size,
		     "HTTP/1.1 503 Service Unavailable\r\nX-Request-Id: %s\r\n"
		     "Content-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n"
		     "Connection: close\r\n\r\n%s",
		     id, n, body);
	return (size_t)n;
}
