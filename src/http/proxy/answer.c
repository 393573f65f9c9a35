/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of a server: the head, checked and rewritten, then the body as it arrives. */
#include <errno.h>

#include "http/proxy/state.h"

static const struct str nothing = { "", 0 };

static void on_drain(void *arg)
{
	struct exchange *x = arg;

	x->paused = false;
	upstream_watch(x->up, true);
}

static void end_answer(struct exchange *x, struct http_req *req, bool clean)
{
	struct buf lines;

	buf_init(&lines, PROXY_TRAILERS_MAX * 2);
	if (x->framing == HTTP_FRAME_CHUNKED)
		(void)!proxy_pass_trailers(buf_str(&x->trailers), &lines);
	http_req_on_gone(req, NULL, NULL);
	http_reply_end_with(req, buf_str(&lines));
	buf_done(&lines);
	exchange_finish(x, clean);
}

/* One step of the framing. false: malformed. */
static bool unframe(struct exchange *x, struct str *rest, struct str *ret_piece, bool *ret_over)
{
	size_t used = rest->n;
	int r = 0;

	*ret_piece = *rest;
	if (x->framing == HTTP_FRAME_LENGTH) {
		used = (size_t)MIN((uint64_t)rest->n, x->left);
		ret_piece->n = used;
		x->left -= used;
		*ret_over = x->left == 0;
	} else if (x->framing == HTTP_FRAME_CHUNKED) {
		r = http_chunked_next(&x->decoder, rest->p, rest->n, &used, ret_piece);
		*ret_over = r == 1;
	}
	rest->p += used;
	rest->n -= used;
	return r >= 0;
}

static void on_answer(struct exchange *x, struct http_req *req, struct str rest)
{
	x->deadline_ms = exchange_in_ms(x, x->proxy->limits.body_ms);
	while (rest.n) {
		struct str piece;
		bool over = false;
		int r = 0;

		if (!unframe(x, &rest, &piece, &over)) {
			exchange_fail(x, PROXY_BAD_ANSWER);
			return;
		}
		x->traffic.bytes_out += piece.n;
		if (piece.n)
			r = http_reply_write(req, piece.p, piece.n);
		if (r == -EAGAIN)
			x->paused = true; /* at most one read waits here */
		else if (r < 0)
			return; /* on_gone follows */
		if (over) {
			end_answer(x, req, rest.n == 0);
			return;
		}
	}
}

static bool has_no_body(const struct http_req *req, int status)
{
	return req->method == HTTP_HEAD || status == 204 || status == 304;
}

/* The whole reply is here: one reply, one system call. */
static void answer_whole(struct exchange *x, struct http_req *req, const struct http_head *head,
			 size_t count, struct str body, bool clean)
{
	struct proxy *proxy = x->proxy;

	x->traffic.bytes_out += body.n;
	http_req_on_gone(req, NULL, NULL);
	req->conn->answer.forwarded = true;
	http_reply(req, head->status, proxy->passed, count, body);
	exchange_finish(x, clean);
}

static void answer(struct exchange *x, struct http_req *req, const struct http_head *head,
		   size_t count, struct str rest)
{
	struct proxy *proxy = x->proxy;
	uint64_t length = head->content_length < 0 ? 0 : (uint64_t)head->content_length;

	x->server_keeps = head->keep_alive;
	if (has_no_body(req, head->status) && (head->content_length >= 0 || !head->chunked)) {
		answer_whole(x, req, head, count, nothing, rest.n == 0);
		return;
	}
	if (!head->chunked && head->content_length >= 0 && rest.n >= length &&
	    !has_no_body(req, head->status)) {
		answer_whole(x, req, head, count, (struct str){ rest.p, (size_t)length },
			     rest.n == length);
		return;
	}
	x->framing = head->chunked		 ? HTTP_FRAME_CHUNKED
		     : head->content_length >= 0 ? HTTP_FRAME_LENGTH
						 : HTTP_FRAME_CLOSE;
	x->left = length;
	if (x->framing == HTTP_FRAME_CLOSE)
		x->server_keeps = false;
	http_chunked_init(&x->decoder);
	x->decoder.keep = &x->trailers;
	x->state = EXCHANGE_BODY;
	req->conn->answer.forwarded = true;
	http_reply_patience(req, proxy->limits.patience_ms);
	http_reply_on_drain(req, on_drain, x);
	if (http_reply_start(req, head->status, proxy->passed, count) < 0)
		return; /* on_gone follows */
	if (has_no_body(req, head->status))
		end_answer(x, req, false);
	else
		on_answer(x, req, rest);
}

/* 101: from now on the bytes are not parsed. */
static void answer_upgrade(struct exchange *x, struct http_req *req, size_t count, struct str rest)
{
	struct proxy *proxy = x->proxy;
	struct proxy_hooks hooks = x->hooks;
	void *arg = x->arg;

	http_req_on_gone(req, NULL, NULL);
	req->conn->answer.forwarded = true;
	exchange_tell(x);
	if (tunnel_start(x, req, proxy->passed, count, rest) == 0) {
		exchange_let_go(x);
		return;
	}
	exchange_let_go(x);
	hooks.ended(arg);
}

/* An interim reply. false: x was freed. */
static bool on_interim(struct exchange *x, int status)
{
	if (++x->interims > x->proxy->limits.interim_heads) {
		exchange_fail(x, PROXY_BAD_ANSWER);
		return false;
	}
	if (status == 100 && x->expects) {
		x->deadline_ms = exchange_in_ms(x, x->proxy->limits.head_ms);
		exchange_start_body(x);
	}
	return true;
}

static void on_head(struct exchange *x, const struct http_head *head, struct str rest)
{
	struct proxy *proxy = x->proxy;
	struct http_req *req = exchange_req(x);
	bool upgrade = head->status == 101;
	int count;

	if (!req || (upgrade && (!x->upgrade || head->minor == 0))) {
		exchange_fail(x, PROXY_BAD_ANSWER);
		return;
	}
	count = proxy_pass_response(head, &x->spec, upgrade, req->arena, proxy->passed,
				    proxy->limits.header_count + PASSED_EXTRA);
	if (count < 0)
		exchange_fail(x, PROXY_BUSY);
	else if (upgrade)
		answer_upgrade(x, req, (size_t)count, rest);
	else
		answer(x, req, head, (size_t)count, rest);
}

/* The bytes of a head so far. false: it is incomplete, or x was freed. */
static bool next_head(struct exchange *x, struct str bytes, struct http_head *head, size_t *ret_n)
{
	struct proxy *proxy = x->proxy;
	enum http_verdict v =
		http_head_scan(&x->scan, false, bytes.p, bytes.n, proxy->limits.head_bytes, ret_n);

	if (v == HTTP_MORE)
		return false;
	*head = (struct http_head){ .headers = proxy->headers,
				    .header_max = proxy->limits.header_count };
	if (v == HTTP_OK)
		v = http_head_parse_response(head, bytes.p, *ret_n);
	x->scan = (struct http_scan){ 0 };
	if (v == HTTP_OK)
		return true;
	exchange_fail(x, PROXY_BAD_ANSWER);
	return false;
}

/* Keeps an incomplete head for the next bytes; bytes includes what was kept before. */
static void keep_torn(struct exchange *x, struct str bytes)
{
	struct buf kept;

	buf_init(&kept, x->proxy->limits.head_bytes + PROXY_READ_BYTES);
	if (buf_append(&kept, bytes.p, bytes.n) < 0) {
		buf_done(&kept);
		exchange_fail(x, PROXY_BAD_ANSWER);
		return;
	}
	buf_done(&x->in);
	x->in = kept;
}

static void on_head_bytes(struct exchange *x, struct str bytes)
{
	slot_handle handle = x->handle;
	struct proxy *proxy = x->proxy;
	struct http_head head;
	size_t n;

	while (bytes.n) {
		if (!next_head(x, bytes, &head, &n)) {
			if (slot_get(&proxy->exchanges_by_handle, handle))
				keep_torn(x, bytes);
			return;
		}
		bytes.p += n;
		bytes.n -= n;
		if (head.status == 101 || head.status >= 200) {
			on_head(x, &head, bytes);
			return;
		}
		if (!on_interim(x, head.status) || !slot_get(&proxy->exchanges_by_handle, handle))
			return;
	}
	buf_done(&x->in);
}

void exchange_on_bytes(struct exchange *x, const char *p, size_t n)
{
	struct http_req *req = exchange_req(x);

	if (!req)
		return; /* on_gone follows */
	if (x->state == EXCHANGE_BODY) {
		on_answer(x, req, (struct str){ p, n });
		return;
	}
	if (buf_len(&x->in) == 0) {
		on_head_bytes(x, (struct str){ p, n });
	} else if (buf_append(&x->in, p, n) < 0) {
		exchange_fail(x, PROXY_BAD_ANSWER);
	} else {
		/* Handling the head may free or replace the buffer, so it is held here. */
		struct buf held = x->in;

		buf_init(&x->in, held.limit_bytes);
		on_head_bytes(x, buf_str(&held));
		buf_done(&held);
	}
}

/* A kept connection ended just when it was reused: the server has not seen the request. */
static bool retry(struct exchange *x)
{
	struct http_req *req = exchange_req(x);

	if (x->state != EXCHANGE_HEAD || !x->up->reused || x->retried || x->interims ||
	    buf_len(&x->in) || x->has_body || !req || !exchange_is_idempotent(req))
		return false;
	x->retried = x->fresh_only = true;
	upstream_close(TAKE_PTR(x->up));
	(void)exchange_connect(x, req);
	return true;
}

void exchange_on_end(struct exchange *x, int error)
{
	struct http_req *req = exchange_req(x);

	if (x->state == EXCHANGE_BODY && x->framing == HTTP_FRAME_CLOSE && error == 0 && req)
		end_answer(x, req, false);
	else if (!retry(x))
		exchange_fail(x, buf_len(&x->in) || x->interims ? PROXY_BAD_ANSWER : PROXY_CLOSED);
}
