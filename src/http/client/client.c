/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "http/message/chunked.h"
#include "http/client/state.h"
#include "net/dial.h"
#include "net/tls.h"

static int parse_url(struct http_client *client, const char *url)
{
	struct str rest = str_of(url), host;
	uint64_t port;

	if (str_starts(rest, "unix:")) {
		(void)snprintf(client->host_header, sizeof(client->host_header), "localhost");
		return url[5] && str_copy(client->path, sizeof(client->path), str_of(url + 5)) == 0
			       ? 0
			       : -EINVAL;
	}
	client->secure = str_starts(rest, "https://");
	if (!client->secure && !str_starts(rest, "http://"))
		return -EINVAL;
	port = client->secure ? 443 : 80;
	rest = (struct str){ strchr(rest.p, ':') + 3, rest.n - (client->secure ? 8 : 7) };
	if (rest.n && rest.p[rest.n - 1] == '/')
		rest.n--;
	if (!http_host_split(rest, &host))
		return -EINVAL;
	if (host.n < rest.n && str_to_u64((struct str){ rest.p + host.n + 1, rest.n - host.n - 1 },
					  UINT16_MAX, &port) < 0)
		return -EINVAL;
	client->port = (uint16_t)port;
	if (str_copy(client->host_header, sizeof(client->host_header), rest) < 0)
		return -EINVAL;
	if (host.p[0] == '[')
		host = (struct str){ host.p + 1, host.n - 2 };
	return str_copy(client->host, sizeof(client->host), host) < 0 ? -EINVAL : 0;
}

int http_client_new(const char *url, struct http_client **ret)
{
	struct http_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->fd = client->wake_fd = -1;
	client->connect_ms = 5000;
	buf_init(&client->in, HEAD_BYTES + READ_BYTES);
	r = parse_url(client, url);
	if (r < 0) {
		http_client_free(client);
		return r;
	}
	*ret = client;
	return 0;
}

static void disconnect(struct http_client *client)
{
	if (client->fd >= 0)
		(void)close(TAKE_FD(client->fd));
	buf_clear(&client->in);
}

void http_client_free(struct http_client *client)
{
	if (!client)
		return;
	disconnect(client);
	buf_done(&client->in);
	for (size_t i = 0; i < client->header_count; i++) {
		free(client->headers[i].name);
		free(client->headers[i].value);
	}
	free(client);
}

void http_client_set_header(struct http_client *client, const char *name, const char *value)
{
	struct own_header *h = NULL;
	char *copy;

	if (!http_is_token(str_of(name)) || !http_is_field_value(str_of(value)))
		return;
	for (size_t i = 0; i < client->header_count; i++)
		if (str_eq_nocase(str_of(client->headers[i].name), name))
			h = &client->headers[i];
	copy = strdup(value);
	if (!copy)
		return;
	if (h) {
		free(h->value);
		h->value = copy;
		return;
	}
	if (client->header_count == OWN_HEADERS_MAX) {
		free(copy);
		return;
	}
	h = &client->headers[client->header_count];
	h->name = strdup(name);
	h->value = copy;
	if (h->name)
		client->header_count++;
	else
		free(copy);
}

void http_client_set_timeout(struct http_client *client, int connect_ms, int idle_ms)
{
	client->connect_ms = connect_ms;
	client->idle_ms = idle_ms;
}

void http_client_set_wake(struct http_client *client, int fd, int (*fn)(void *arg), void *arg)
{
	client->wake_fd = fd;
	client->wake = fn;
	client->wake_arg = arg;
}

void http_response_init(struct http_response *res, size_t body_limit_bytes)
{
	res->status = 0;
	res->trailer[0] = '\0';
	buf_init(&res->head, HEAD_BYTES);
	buf_init(&res->body, body_limit_bytes);
}

void http_response_done(struct http_response *res)
{
	buf_done(&res->head);
	buf_done(&res->body);
}

struct str http_response_header(const struct http_response *res, const char *name)
{
	struct str rest = buf_str(&res->head), line, key, value;

	while (str_cut(rest, '\n', &line, &rest))
		if (str_cut(line, ':', &key, &value) && str_eq_nocase(key, name))
			return str_trim(value, " \t\r");
	return (struct str){ "", 0 };
}

/* An idle connection becomes readable only at its end, or if the server violates the protocol. */
static bool is_stale(struct http_client *client)
{
	struct pollfd pfd = { .fd = client->fd, .events = POLLIN | POLLRDHUP };

	return poll(&pfd, 1, 0) != 0;
}

static int connect_secure(struct http_client *client)
{
	struct tls_ctx *ctx;
	int fd = TAKE_FD(client->fd), r = tls_client_new(NULL, &ctx);

	if (r < 0) {
		(void)close(fd);
		return r;
	}
	r = tls_dial(ctx, fd, client->host, &client->fd);
	tls_ctx_unref(ctx);
	return r;
}

static int connect_now(struct http_client *client)
{
	int r;

	buf_clear(&client->in);
	if (!client->host[0])
		return dial_unix(client->path, &client->fd);
	r = dial_tcp(client->host, client->port, client->connect_ms > 0 ? client->connect_ms : -1,
		     &client->fd);
	return r == 0 && client->secure ? connect_secure(client) : r;
}

/* 1: bytes arrived; 0: end; -errno. */
static int read_more(struct client_call *call)
{
	struct http_client *client = call->client;
	char *p;
	int r = buf_reserve(&client->in, READ_BYTES, &p);

	if (r < 0)
		return -EPROTO;
	for (;;) {
		ssize_t n = read(client->fd, p, READ_BYTES);
		short events = 0;

		if (n > 0) {
			buf_commit(&client->in, (size_t)n);
			call->answered = true;
			return 1;
		}
		if (n == 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		r = client_wait(client, POLLIN, &events);
		if (r < 0)
			return r;
	}
}

static int read_one_head(struct client_call *call)
{
	struct http_client *client = call->client;
	struct http_response *res = call->res;
	struct http_scan scan = { 0 };
	enum http_verdict v;
	size_t n;
	int r;

	while ((v = http_head_scan(&scan, false, buf_data(&client->in), buf_len(&client->in),
				   HEAD_BYTES, &n)) == HTTP_MORE) {
		r = read_more(call);
		if (r <= 0)
			return r < 0 ? r : call->answered ? -EPROTO : -ECONNRESET;
	}
	if (v != HTTP_OK)
		return -EPROTO;
	buf_clear(&res->head);
	r = buf_append(&res->head, buf_data(&client->in), n);
	if (r < 0)
		return r;
	buf_consume(&client->in, n);
	call->parsed.headers = call->fields;
	call->parsed.header_max = HEADERS_MAX;
	if (http_head_parse_response(&call->parsed, buf_data(&res->head), n) != HTTP_OK)
		return -EPROTO;
	res->status = call->parsed.status;
	return 0;
}

static int read_head(struct client_call *call)
{
	for (int i = 0; i < INTERIM_MAX; i++) {
		int r = read_one_head(call);

		if (r < 0)
			return r;
		if (call->parsed.status >= 200 || (call->upgrade && call->parsed.status == 101))
			return 0;
		if (call->parsed.chunked || call->parsed.content_length > 0 ||
		    call->parsed.status == 101)
			return -EPROTO;
	}
	return -EPROTO;
}

static int take_piece(struct client_call *call, struct str piece)
{
	int r;

	if (piece.n == 0)
		return 0;
	if (!call->data || call->res->status >= 400) {
		r = buf_append(&call->res->body, piece.p, piece.n);
		return r == -ENOBUFS ? -EFBIG : r;
	}
	r = call->data(call->arg, piece.p, piece.n);
	call->stopped = r != 0;
	return MIN(r, 0);
}

static void keep_trailer(struct http_response *res, const struct http_chunked *chunked)
{
	size_t n = MIN((size_t)chunked->trailer_bytes, sizeof(chunked->trailer) - 1);
	const char *end = memchr(chunked->trailer, '\r', n);

	if (end)
		(void)!str_copy(res->trailer, sizeof(res->trailer),
				(struct str){ chunked->trailer, (size_t)(end - chunked->trailer) });
}

/* One step over the buffered bytes. 1 when the body has ended. */
static int body_step(struct client_call *call, struct http_chunked *chunked, uint64_t *left)
{
	struct buf *in = &call->client->in;
	struct str piece = buf_str(in);
	size_t used = piece.n;
	int r, end = 0;

	if (call->parsed.chunked) {
		end = http_chunked_next(chunked, piece.p, piece.n, &used, &piece);
		if (end < 0)
			return -EPROTO;
		if (end)
			keep_trailer(call->res, chunked);
	} else if (call->parsed.content_length >= 0) {
		used = piece.n = (size_t)MIN((uint64_t)piece.n, *left);
		*left -= used;
		end = *left == 0;
	}
	r = take_piece(call, piece);
	buf_consume(in, used);
	return r < 0 ? r : end;
}

static int read_body(struct client_call *call)
{
	struct http_client *client = call->client;
	bool until_close = !call->parsed.chunked && call->parsed.content_length < 0;
	uint64_t left = (uint64_t)MAX(call->parsed.content_length, 0);
	struct http_chunked chunked;
	int r;

	if (strcmp(call->method, "HEAD") == 0 || call->res->status == 304)
		return 0;
	if (call->res->status == 204) /* some parsers would read a body here as the next reply */
		return call->parsed.chunked || call->parsed.content_length > 0 ? -EPROTO : 0;
	http_chunked_init(&chunked);
	if (call->parsed.content_length == 0)
		return 0;
	for (;;) {
		while (buf_len(&client->in)) {
			r = body_step(call, &chunked, &left);
			if (r != 0 || call->stopped)
				return MIN(r, 0);
		}
		r = read_more(call);
		if (r < 0)
			return r;
		if (r == 0)
			return until_close ? 0 : -EPROTO;
	}
}

static int exchange(struct client_call *call)
{
	struct http_client *client = call->client;
	bool complete = false, reusable;
	int r;

	r = client_send(call, &complete);
	if (r == 0)
		r = read_head(call);
	if (r == 0)
		r = read_body(call);
	/* Bytes after the reply belong to no request. */
	reusable = r == 0 && complete && !call->stopped && call->parsed.keep_alive &&
		   buf_len(&client->in) == 0 &&
		   (call->parsed.chunked || call->parsed.content_length >= 0 ||
		    strcmp(call->method, "HEAD") == 0 || call->res->status == 204 ||
		    call->res->status == 304);
	if (!reusable)
		disconnect(client);
	return r;
}

static bool is_idempotent(const char *method)
{
	return strcmp(method, "POST") != 0 && strcmp(method, "PATCH") != 0;
}

int http_client_stream(struct http_client *client, const char *method, const char *path,
		       struct str content_type, struct str body, struct http_response *res,
		       const struct http_client_sink *sink)
{
	struct client_call call = { .client = client,
				    .method = method,
				    .body = body,
				    .res = res,
				    .data = sink->data,
				    .arg = sink->arg };
	struct buf head;
	bool reused;
	int r;

	buf_init(&head, HEAD_BYTES);
	r = client_head(client, &call, path, content_type, STR_LIT(""), &head);
	call.head = buf_str(&head);
	if (client->fd >= 0 && is_stale(client))
		disconnect(client);
	for (int attempt = 0; r == 0 && attempt < 2; attempt++) {
		reused = client->fd >= 0;
		if (!reused)
			r = connect_now(client);
		if (r == 0)
			r = exchange(&call);
		/* The server may close an idle connection while our request is in flight. */
		if (r != -ECONNRESET || !reused || call.answered || !is_idempotent(method))
			break;
		r = 0;
	}
	buf_done(&head);
	return r;
}

int http_client_call(struct http_client *client, const char *method, const char *path,
		     struct str content_type, struct str body, struct http_response *res)
{
	const struct http_client_sink none = { 0 };

	return http_client_stream(client, method, path, content_type, body, res, &none);
}

int http_client_upload(struct http_client *client, const char *method, const char *path,
		       const struct http_client_source *source, struct http_response *res)
{
	struct client_call call = {
		.client = client, .method = method, .res = res, .source = source
	};
	struct buf head;
	int r;

	buf_init(&head, HEAD_BYTES);
	r = client_head(client, &call, path, STR_LIT("application/octet-stream"), STR_LIT(""),
			&head);
	call.head = buf_str(&head);
	disconnect(client); /* bytes read from the source cannot be sent again */
	if (r == 0)
		r = connect_now(client);
	if (r == 0)
		r = exchange(&call);
	buf_done(&head);
	return r;
}

static int switch_protocols(struct client_call *call, int *ret_fd, struct buf *ret_unread)
{
	struct http_client *client = call->client;
	bool complete = false;
	int r = client_send(call, &complete);

	if (r == 0)
		r = read_head(call);
	if (r < 0)
		return r;
	if (call->res->status != 101) {
		r = read_body(call);
		return r < 0 ? r : 1;
	}
	r = buf_append(ret_unread, buf_data(&client->in), buf_len(&client->in));
	if (r == 0)
		*ret_fd = TAKE_FD(client->fd);
	return r;
}

int http_client_upgrade(struct http_client *client, const char *path, struct str lines,
			struct http_response *res, int *ret_fd, struct buf *ret_unread)
{
	struct str none = STR_LIT("");
	struct client_call call = {
		.client = client, .method = "GET", .body = none, .res = res, .upgrade = true
	};
	struct buf head;
	int r;

	buf_init(&head, HEAD_BYTES);
	r = client_head(client, &call, path, none, lines, &head);
	call.head = buf_str(&head);
	disconnect(client); /* an idle connection may end now, and this GET is not repeated */
	if (r == 0)
		r = connect_now(client);
	if (r == 0)
		r = switch_protocols(&call, ret_fd, ret_unread);
	disconnect(client);
	buf_done(&head);
	return r;
}
