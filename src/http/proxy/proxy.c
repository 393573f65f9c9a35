/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges: a request is sent and its reply returned, both at the speed of the slower side. */
#include "http/proxy/proxy.h"

#include <errno.h>

#include "http/proxy/state.h"
#include "net/foreign.h"

#define SWEEP_MS 500

static const struct str nothing = { "", 0 };

const struct proxy_limits proxy_limits_default = {
	.idle_per_target = 64,
	.idle_total = 1024,
	.exchanges = 8192,
	.interim_heads = 16,
	.head_bytes = 65536,
	.header_count = 256,
	.idle_ms = 15000,
	.connect_ms = 20000,
	.head_ms = 300000,
	.body_ms = 3600000,
	.patience_ms = 120000,
	.continue_ms = 1000,
	.tunnel_ms = 3600000,
};

void proxy_enter(struct proxy *proxy)
{
	proxy->depth++;
	if (proxy->server)
		http_server_enter(proxy->server);
}

void proxy_leave(struct proxy *proxy)
{
	if (proxy->server)
		http_server_leave(proxy->server);
	if (--proxy->depth > 0)
		return;
	upstream_reap(proxy);
	tunnel_reap(proxy);
}

struct http_req *exchange_req(const struct exchange *x)
{
	return x->proxy->server ? http_req_get(x->proxy->server, x->req) : NULL;
}

int64_t exchange_in_ms(const struct exchange *x, int ms)
{
	return loop_now_ms(x->proxy->loop) + ms;
}

/* ---- the end of an exchange ---- */

void exchange_tell(struct exchange *x)
{
	if (x->traffic.bytes_in || x->traffic.bytes_out)
		x->hooks.moved(x->arg, &x->traffic);
	x->traffic = (struct proxy_traffic){ 0 };
}

void exchange_let_go(struct exchange *x)
{
	struct proxy *proxy = x->proxy;

	if (x->prev)
		x->prev->next = x->next;
	else
		proxy->exchanges = x->next;
	if (x->next)
		x->next->prev = x->prev;
	(void)slot_take(&proxy->exchanges_by_handle, x->handle);
	if (x->up)
		upstream_close(x->up);
	buf_done(&x->in);
	buf_done(&x->trailers);
	buf_done(&x->own_trailers);
	free(x);
}

/* Exactly once; frees x. */
static void end(struct exchange *x)
{
	struct proxy_hooks hooks = x->hooks;
	void *arg = x->arg;

	if (x->state == EXCHANGE_DIALING)
		hooks.undial(arg);
	exchange_tell(x);
	exchange_let_go(x);
	hooks.ended(arg);
}

/* If no reply was started, the face replies. Otherwise the client sees a reset. */
void exchange_fail(struct exchange *x, enum proxy_failure why)
{
	struct http_req *req = exchange_req(x);

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		if (x->state == EXCHANGE_BODY)
			http_reply_abort(req);
		else
			x->hooks.failed(x->arg, req, why);
	}
	end(x);
}

static void on_gone(void *arg)
{
	end(arg);
}

/* The reply is complete. clean: and no bytes followed it. */
void exchange_finish(struct exchange *x, bool clean)
{
	struct upstream *up = x->up;

	if (clean && x->sent && x->server_keeps && !up->deaf && buf_len(&up->out) == 0) {
		x->up = NULL;
		upstream_keep(up);
	}
	end(x);
}

/* ---- the request ---- */

bool exchange_is_idempotent(const struct http_req *req)
{
	return req->method == HTTP_GET || req->method == HTTP_HEAD || req->method == HTTP_OPTIONS ||
	       req->method == HTTP_PUT || req->method == HTTP_DELETE;
}

/* Sends the head; the body follows. false: x was freed. */
static bool send_request(struct exchange *x, struct http_req *req)
{
	struct proxy *proxy = x->proxy;

	x->state = EXCHANGE_HEAD;
	x->deadline_ms = exchange_in_ms(x, proxy->limits.head_ms);
	buf_clear(&proxy->head);
	if (proxy_put_request(&proxy->head, req, &x->spec, x->expects) < 0 ||
	    upstream_send(x->up, buf_str(&proxy->head), nothing, nothing) < 0) {
		exchange_fail(x, PROXY_REFUSED);
		return false;
	}
	x->sent = !x->has_body;
	if (x->expects)
		x->deadline_ms = exchange_in_ms(x, proxy->limits.continue_ms);
	else if (x->has_body)
		exchange_start_body(x);
	return true;
}

/* On a kept connection or a new one. false: x was freed. */
bool exchange_connect(struct exchange *x, struct http_req *req)
{
	struct proxy *proxy = x->proxy;
	struct proxy_hooks hooks = x->hooks;
	void *arg = x->arg;

	x->up = x->fresh_only ? NULL
			      : upstream_take_idle(proxy, &x->spec.target,
						   !exchange_is_idempotent(req) || x->has_body);
	if (x->up) {
		x->up->exchange = x;
		return send_request(x, req);
	}
	x->state = EXCHANGE_DIALING;
	x->deadline_ms = exchange_in_ms(x, proxy->limits.connect_ms);
	if (x->hooks.dial(x->arg) == 0)
		return true;
	x->state = EXCHANGE_OVER;
	http_req_on_gone(req, NULL, NULL);
	exchange_let_go(x);
	hooks.ended(arg);
	return false;
}

void proxy_connected(struct proxy *proxy, slot_handle handle, int fd)
{
	struct exchange *x = slot_get(&proxy->exchanges_by_handle, handle);
	struct http_req *req = x ? exchange_req(x) : NULL;

	if (!req || x->state != EXCHANGE_DIALING) {
		foreign_close(fd);
		return;
	}
	proxy_enter(proxy);
	x->up = upstream_new(proxy, &x->spec.target, fd);
	if (x->up) {
		x->up->exchange = x;
		(void)send_request(x, req);
	} else {
		x->state = EXCHANGE_HEAD; /* the dial has completed */
		exchange_fail(x, PROXY_BUSY);
	}
	proxy_leave(proxy);
}

void proxy_cancel(struct proxy *proxy, slot_handle handle)
{
	struct exchange *x = slot_get(&proxy->exchanges_by_handle, handle);
	struct http_req *req = x ? exchange_req(x) : NULL;

	if (req)
		http_req_on_gone(req, NULL, NULL);
	if (x)
		exchange_let_go(x);
}

static void pause_body(struct exchange *x, struct http_req *req)
{
	bool full = buf_len(&x->up->out) > PROXY_OUT_HIGH;

	if (full == x->body_paused)
		return;
	x->body_paused = full;
	http_req_pause_body(req, full);
}

static void end_body(struct exchange *x)
{
	struct str raw = buf_str(&x->own_trailers);
	struct buf lines;
	int r = 0;

	x->sent = true;
	x->deadline_ms = exchange_in_ms(x, x->proxy->limits.head_ms);
	if (!x->chunked)
		return;
	buf_init(&lines, PROXY_TRAILERS_MAX * 2);
	if (proxy_pass_trailers(raw, &lines) == 0 && buf_len(&lines))
		r = upstream_send(x->up, STR_LIT("0\r\n"), buf_str(&lines), STR_LIT("\r\n\r\n"));
	else
		r = upstream_send(x->up, STR_LIT(HTTP_CHUNK_LAST), nothing, nothing);
	buf_done(&lines);
	if (r < 0)
		exchange_fail(x, PROXY_REFUSED);
}

static void on_body(void *arg, struct http_req *req, int status, const char *p, size_t n)
{
	struct exchange *x = arg;
	char line[HTTP_CHUNK_HEAD_SIZE];
	int r;

	if (status < 0) {
		exchange_fail(x, PROXY_REFUSED);
		return;
	}
	if (n == 0) {
		end_body(x);
		return;
	}
	x->traffic.bytes_in += n;
	x->deadline_ms = exchange_in_ms(x, x->proxy->limits.head_ms);
	if (x->chunked)
		r = upstream_send(x->up, (struct str){ line, http_chunk_head(line, n) },
				  (struct str){ p, n }, STR_LIT("\r\n"));
	else
		r = upstream_send(x->up, (struct str){ p, n }, nothing, nothing);
	if (r < 0)
		exchange_fail(x, PROXY_REFUSED);
	else
		pause_body(x, req);
}

void exchange_start_body(struct exchange *x)
{
	struct http_req *req = exchange_req(x);

	x->expects = false;
	x->reading = true;
	x->deadline_ms = exchange_in_ms(x, x->proxy->limits.head_ms);
	if (!req)
		return;
	if (x->chunked)
		req->conn->body.chunked.keep = &x->own_trailers;
	if (http_req_stream_body(req, on_body, x) < 0)
		exchange_fail(x, PROXY_REFUSED);
}

void exchange_on_writable(struct exchange *x)
{
	struct http_req *req = exchange_req(x);

	if (x->state == EXCHANGE_HEAD && !x->expects)
		x->deadline_ms = exchange_in_ms(x, x->proxy->limits.head_ms);
	if (req && x->reading && !x->sent)
		pause_body(x, req);
}

/* ---- all exchanges ---- */

static void expire(struct exchange *x, int64_t now_ms)
{
	if (x->deadline_ms > now_ms || x->paused)
		return;
	if (x->expects)
		exchange_start_body(x); /* many servers never send it */
	else
		exchange_fail(x,
			      x->state == EXCHANGE_DIALING ? PROXY_NOT_TAKEN : PROXY_LATE_ANSWER);
}

static void on_sweep(void *arg)
{
	struct proxy *proxy = arg;
	int64_t now_ms = loop_now_ms(proxy->loop);
	struct exchange *next;

	proxy_enter(proxy);
	upstream_expire(proxy, now_ms);
	tunnel_sweep(proxy, now_ms);
	for (struct exchange *x = proxy->exchanges; x; x = next) {
		next = x->next;
		exchange_tell(x);
		expire(x, now_ms);
	}
	proxy_leave(proxy);
	if (!proxy->exchanges && !proxy->tunnels && !proxy->oldest) {
		proxy->sweeping = false;
		loop_timer_clear(proxy->sweep);
	}
}

void proxy_sweep_on(struct proxy *proxy)
{
	if (proxy->sweeping)
		return;
	proxy->sweeping = true;
	loop_timer_set(proxy->sweep, SWEEP_MS, SWEEP_MS);
}

static struct exchange *exchange_new(struct proxy *proxy, struct http_req *req,
				     const struct proxy_spec *spec, const struct proxy_hooks *hooks,
				     void *arg)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x || slot_put(&proxy->exchanges_by_handle, x, &x->handle) < 0) {
		free(x);
		return NULL;
	}
	x->proxy = proxy;
	x->req = req->handle;
	x->spec = *spec;
	x->hooks = *hooks;
	x->arg = arg;
	x->has_body = req->has_body;
	x->chunked = req->has_body && req->content_length < 0;
	x->expects = req->has_body && req->conn->expect_continue;
	x->upgrade = proxy_can_upgrade(req);
	buf_init(&x->in, proxy->limits.head_bytes + PROXY_READ_BYTES);
	buf_init(&x->trailers, PROXY_TRAILERS_MAX);
	buf_init(&x->own_trailers, PROXY_TRAILERS_MAX);
	x->next = proxy->exchanges;
	if (x->next)
		x->next->prev = x;
	proxy->exchanges = x;
	proxy_sweep_on(proxy);
	return x;
}

int proxy_start(struct proxy *proxy, struct http_req *req, const struct proxy_spec *spec,
		const struct proxy_hooks *hooks, void *arg, slot_handle *ret)
{
	struct exchange *x = NULL;
	bool alive;

	if (spec->reply_extra_count < PASSED_EXTRA &&
	    proxy->exchanges_by_handle.live + proxy->open_tunnels < proxy->limits.exchanges)
		x = exchange_new(proxy, req, spec, hooks, arg);
	if (!x) {
		hooks->failed(arg, req, PROXY_BUSY);
		return -1;
	}
	*ret = x->handle;
	http_req_on_gone(req, on_gone, x);
	proxy_enter(proxy);
	alive = exchange_connect(x, req);
	proxy_leave(proxy);
	(void)alive; /* ended was called */
	return 0;
}

int proxy_new(struct loop *loop, const struct proxy_limits *limits, struct proxy **ret)
{
	struct proxy *proxy = calloc(1, sizeof(*proxy));

	if (!proxy)
		return -ENOMEM;
	proxy->loop = loop;
	proxy->limits = limits ? *limits : proxy_limits_default;
	slot_init(&proxy->exchanges_by_handle, proxy->limits.exchanges);
	buf_init(&proxy->head, PROXY_OUT_LIMIT);
	proxy->scratch = malloc(PROXY_READ_BYTES);
	proxy->headers = calloc(proxy->limits.header_count + 1, sizeof(*proxy->headers));
	proxy->passed =
		calloc(proxy->limits.header_count + PASSED_EXTRA + 1, sizeof(*proxy->passed));
	if (!proxy->scratch || !proxy->headers || !proxy->passed ||
	    loop_timer_new(loop, on_sweep, proxy, &proxy->sweep) < 0) {
		proxy_free(proxy);
		return -ENOMEM;
	}
	*ret = proxy;
	return 0;
}

void proxy_set_server(struct proxy *proxy, struct http_server *server)
{
	proxy->server = server;
}

void proxy_free(struct proxy *proxy)
{
	if (!proxy)
		return;
	proxy->depth++;
	while (proxy->exchanges)
		end(proxy->exchanges);
	tunnel_close_all(proxy);
	while (proxy->oldest)
		upstream_close(proxy->oldest);
	upstream_reap(proxy);
	tunnel_reap(proxy);
	loop_timer_free(proxy->sweep);
	slot_done(&proxy->exchanges_by_handle);
	buf_done(&proxy->head);
	free(proxy->scratch);
	free(proxy->headers);
	free(proxy->passed);
	free(proxy);
}
