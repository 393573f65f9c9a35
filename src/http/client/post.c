/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client/post.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/slot.h"
#include "http/message/head.h"
#include "http/message/target.h"
#include "net/reach.h"
#include "net/tls.h"

#define REQUEST_MAX (256 * 1024)
#define ANSWER_MAX (64 * 1024) /* only the status matters: no more than this is read */
#define HEAD_MAX (16 * 1024)
#define HEADERS_MAX 64
#define READ_BYTES 4096

struct http_poster {
	struct poster poster;
	struct http_poster_config config;
	struct tls *tls;
	struct tls_ctx *ctx; /* created on first use */
	struct slot_table posts;
};

/* Owner: poster->posts until it has ended. */
struct post {
	struct http_poster *poster;
	slot_handle handle;
	struct reach *reach; /* while connecting */
	slot_handle tls;     /* during the handshake */
	int fd;
	struct loop_watch *watch;
	struct loop_timer *timer;
	struct buf out, in;
	struct http_scan scan;
	int status;   /* known when the head has arrived */
	int64_t left; /* of the body; -1: until the end */
	poster_fn done;
	void *arg;
	bool secure;
	char host[HTTP_TARGET_HOST_MAX + 1];
};

static void post_free(struct post *post)
{
	struct http_poster *poster = post->poster;

	(void)slot_take(&poster->posts, post->handle);
	if (post->reach)
		reach_cancel(post->reach);
	if (post->tls)
		tls_cancel(poster->tls, post->tls);
	loop_watch_free(post->watch);
	loop_timer_free(post->timer);
	if (post->fd >= 0)
		(void)close(post->fd);
	buf_done(&post->out);
	buf_done(&post->in);
	free(post);
}

static void finish(struct post *post, int error)
{
	poster_fn done = post->done;
	void *arg = post->arg;
	int status = post->status;

	post_free(post);
	done(arg, status, status ? 0 : error);
}

/* ---- the reply ---- */

/* 1: all required bytes have arrived. */
static int read_head(struct post *post)
{
	struct http_header fields[HEADERS_MAX];
	struct http_head head = { .headers = fields, .header_max = HEADERS_MAX };
	enum http_verdict v;
	size_t n = 0;

	while ((v = http_head_scan(&post->scan, false, buf_data(&post->in), buf_len(&post->in),
				   HEAD_MAX, &n)) == HTTP_OK) {
		if (http_head_parse_response(&head, buf_data(&post->in), n) != HTTP_OK ||
		    head.status == 101)
			return -EPROTO;
		buf_consume(&post->in, n);
		post->scan = (struct http_scan){ 0 };
		if (head.status < 200)
			continue; /* the final reply follows */
		post->status = head.status;
		post->left = head.chunked ? -1 : head.content_length;
		if (head.status == 204 || head.status == 304)
			post->left = 0;
		return 0;
	}
	return v == HTTP_MORE ? 0 : -EPROTO;
}

/* The body is read only so that the sender is not interrupted. */
static bool is_all(const struct post *post)
{
	size_t n = buf_len(&post->in);

	return post->status && post->left >= 0 && n >= (size_t)post->left;
}

static int take_bytes(struct post *post)
{
	char *p;
	ssize_t n;

	if (buf_reserve(&post->in, READ_BYTES, &p) < 0)
		return post->status ? 1 : -EPROTO;
	n = read(post->fd, p, READ_BYTES);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return post->status ? 1 : -ECONNRESET;
	buf_commit(&post->in, (size_t)n);
	if (!post->status) {
		int r = read_head(post);

		if (r < 0)
			return r;
	}
	return is_all(post) ? 1 : 0;
}

static int send_bytes(struct post *post)
{
	while (buf_len(&post->out)) {
		ssize_t n = write(post->fd, buf_data(&post->out), buf_len(&post->out));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&post->out, (size_t)n);
	}
	return loop_watch_set(post->watch, LOOP_READ);
}

static void on_ready(void *arg, int events, int error)
{
	struct post *post = arg;
	int r = error;

	if (r == 0 && (events & LOOP_READ))
		r = take_bytes(post);
	if (r == 0 && (events & LOOP_WRITE)) {
		r = send_bytes(post);
		/* A server may reply and close before it has read everything: its reply counts. */
		if (r == -EPIPE || r == -ECONNRESET)
			r = loop_watch_set(post->watch, LOOP_READ);
	}
	if (r != 0)
		finish(post, MIN(r, 0));
}

static void on_timer(void *arg)
{
	finish(arg, -ETIMEDOUT);
}

/* ---- the connection ---- */

static void talk(struct post *post, int fd)
{
	int r;

	post->fd = fd;
	r = loop_watch_new(post->poster->config.loop, fd, on_ready, post, &post->watch);
	if (r == 0)
		r = loop_watch_set(post->watch, LOOP_READ | LOOP_WRITE);
	if (r < 0)
		finish(post, r);
}

static void on_secure(void *arg, int status, int fd)
{
	struct post *post = arg;

	post->tls = 0;
	if (status < 0)
		finish(post, status);
	else
		talk(post, fd);
}

static int secure(struct post *post, int fd)
{
	struct http_poster *poster = post->poster;
	int r = poster->ctx ? 0 : tls_client_new(poster->config.ca_path, &poster->ctx);

	if (r < 0) {
		(void)close(fd);
		return r;
	}
	return tls_connect(poster->tls, poster->ctx, fd, post->host, on_secure, post, &post->tls);
}

static void on_reached(void *arg, int status, int fd)
{
	struct post *post = arg;

	post->reach = NULL;
	if (status == 0 && post->secure)
		status = secure(post, fd);
	else if (status == 0)
		talk(post, fd);
	if (status < 0)
		finish(post, status);
}

/* ---- the request ---- */

static int put_request(struct post *post, const struct http_target *target,
		       const struct poster_request *request)
{
	struct buf *out = &post->out;
	int r = buf_printf(out,
			   "POST %.*s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: %s\r\n"
			   "Connection: close\r\nContent-Type: application/json\r\n"
			   "Content-Length: %zu\r\n",
			   (int)target->path.n, target->path.p, (int)target->authority.n,
			   target->authority.p, post->poster->config.user_agent, request->body.n);

	for (size_t i = 0; r == 0 && i < request->header_count; i++) {
		if (!http_is_token(str_of(request->headers[i].name)) ||
		    !http_is_field_value(str_of(request->headers[i].value)))
			return -EINVAL;
		r = buf_printf(out, "%s: %s\r\n", request->headers[i].name,
			       request->headers[i].value);
	}
	if (r == 0)
		r = buf_puts(out, "\r\n");
	return r == 0 ? buf_append(out, request->body.p, request->body.n) : r;
}

static int post_new(struct http_poster *poster, const struct http_target *target, poster_fn done,
		    void *arg, struct post **ret)
{
	struct post *post = calloc(1, sizeof(*post));
	int r;

	if (!post)
		return -ENOMEM;
	*post = (struct post){
		.poster = poster, .fd = -1, .done = done, .arg = arg, .secure = target->secure
	};
	memcpy(post->host, target->host, sizeof(post->host));
	buf_init(&post->out, REQUEST_MAX);
	buf_init(&post->in, ANSWER_MAX);
	r = slot_put(&poster->posts, post, &post->handle);
	if (r < 0) {
		free(post);
		return r;
	}
	r = loop_timer_new(poster->config.loop, on_timer, post, &post->timer);
	if (r < 0) {
		post_free(post);
		return r;
	}
	*ret = post;
	return 0;
}

static int start(struct poster *base, const struct poster_request *request, poster_fn done,
		 void *arg, uint64_t *ret)
{
	struct http_poster *poster = CONTAINER_OF(base, struct http_poster, poster);
	struct http_target target;
	struct post *post = NULL;
	int r = http_target_parse(str_of(request->url), &target);

	if (r == 0)
		r = post_new(poster, &target, done, arg, &post);
	if (r < 0)
		return r;
	r = put_request(post, &target, request);
	if (r == 0)
		r = reach_start(poster->config.loop, target.host, target.port,
				poster->config.private_ok, on_reached, post, &post->reach);
	if (r < 0) {
		post_free(post);
		return r;
	}
	loop_timer_set(post->timer, request->timeout_ms, 0);
	*ret = post->handle;
	return 0;
}

static void cancel(struct poster *base, uint64_t handle)
{
	struct http_poster *poster = CONTAINER_OF(base, struct http_poster, poster);
	struct post *post = slot_get(&poster->posts, handle);

	if (post)
		post_free(post);
}

static int check(struct poster *poster, struct str url)
{
	struct http_target target;

	(void)poster;
	return http_target_parse(url, &target);
}

int http_poster_new(const struct http_poster_config *config, uint32_t limit, struct poster **ret)
{
	struct http_poster *poster = calloc(1, sizeof(*poster));
	int r;

	if (!poster)
		return -ENOMEM;
	poster->config = *config;
	poster->poster = (struct poster){ check, start, cancel };
	slot_init(&poster->posts, limit);
	r = tls_new(config->loop, limit, &poster->tls);
	if (r < 0) {
		free(poster);
		return r;
	}
	*ret = &poster->poster;
	return 0;
}

void http_poster_free(struct poster *base)
{
	struct http_poster *poster;
	struct post *post;
	uint32_t cursor = 0;

	if (!base)
		return;
	poster = CONTAINER_OF(base, struct http_poster, poster);
	while ((post = slot_next(&poster->posts, &cursor)))
		post_free(post);
	slot_done(&poster->posts);
	tls_free(poster->tls);
	tls_ctx_unref(poster->ctx);
	free(poster);
}
