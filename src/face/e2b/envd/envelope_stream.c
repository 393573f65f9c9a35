/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/envd/envelope_stream.h"

#include <errno.h>

#include "base/log.h"
#include "net/loop.h"
#include "service/run/process.h"

#define BEAT_MS 1000
#define PATIENCE_MS (5 * 60 * 1000)
#define KEEPALIVE_MAX_SEC 3600

static struct http_req *flow_req(const struct flow *flow)
{
	struct e2b *e2b = flow->e2b;

	return e2b->server && flow->req ? http_req_get(e2b->server, flow->req) : NULL;
}

static int64_t now_ms(const struct e2b *e2b)
{
	return loop_now_ms(service_config(e2b->service)->loop);
}

static void send_bytes(struct flow *flow, struct str bytes)
{
	struct http_req *req = flow_req(flow);

	flow->sent_ms = now_ms(flow->e2b);
	if (req && http_reply_write(req, bytes.p, bytes.n) == -EAGAIN)
		flow->blocked = true; /* if it is lost, on_gone is called */
}

/* ---- lifetime ---- */

static void unlink_free(struct flow *flow)
{
	struct e2b *e2b = flow->e2b;

	if (flow->prev)
		flow->prev->next = flow->next;
	else
		e2b->flows = flow->next;
	if (flow->next)
		flow->next->prev = flow->prev;
	if (!e2b->flows && e2b->beat)
		loop_timer_clear(e2b->beat);
	watch_free(flow);
	free(flow);
}

void flow_free(struct flow *flow)
{
	if (flow->req)
		stream_end(flow->e2b->service, flow->key_id);
	unlink_free(flow);
}

/* The service was closed before: its streams are no longer counted. */
void flows_done(struct e2b *e2b)
{
	while (e2b->flows)
		unlink_free(e2b->flows);
	loop_timer_free(TAKE_PTR(e2b->beat));
}

/* One timer serves all streams: a stream that was idle for its keep-alive interval gets a
 * message. */
static void on_beat(void *arg)
{
	struct e2b *e2b = arg;
	struct json_writer w;

	for (struct flow *flow = e2b->flows; flow; flow = flow->next) {
		if (!flow->begun || flow->blocked ||
		    now_ms(e2b) - flow->sent_ms < flow->keepalive_ms)
			continue;
		w = flow_message(flow);
		json_put_raw(&w, NULL, str_of(flow->keepalive));
		flow_send(flow, &w);
	}
}

static void arm(struct e2b *e2b)
{
	struct loop *loop = service_config(e2b->service)->loop;

	if (!e2b->beat && loop_timer_new(loop, on_beat, e2b, &e2b->beat) < 0)
		return; /* without keep-alives, but the stream works */
	loop_timer_set(e2b->beat, BEAT_MS, BEAT_MS);
}

static void on_gone(void *arg)
{
	struct flow *flow = arg;

	flow->req = 0;
	stream_end(flow->e2b->service, flow->key_id);
	flow->on_gone(flow);
}

static void on_drain(void *arg)
{
	struct flow *flow = arg;

	flow->blocked = false;
	flow->on_drain(flow);
}

static int64_t keepalive_ms(const struct http_req *req)
{
	const struct str *header = http_req_header(req, "keepalive-ping-interval");
	uint64_t sec = 0;

	if (!header || str_to_u64(*header, KEEPALIVE_MAX_SEC, &sec) < 0 || sec == 0)
		sec = E2B_KEEPALIVE_SEC;
	return (int64_t)sec * 1000;
}

struct flow *flow_new(struct e2b_call *call, const char *keepalive, struct err *err)
{
	struct e2b *e2b = call->e2b;
	struct flow *flow;

	if (stream_admit(e2b->service, call->key, err) < 0)
		return NULL;
	flow = calloc(1, sizeof(*flow));
	if (!flow) {
		stream_end(e2b->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	flow->e2b = e2b;
	flow->req = call->req->handle;
	flow->sandbox = call->sandbox_handle;
	flow->keepalive = keepalive;
	flow->keepalive_ms = keepalive_ms(call->req);
	memcpy(flow->key_id, call->key->id, sizeof(flow->key_id));
	memcpy(flow->user, call->user, sizeof(flow->user));
	if (!e2b->flows)
		arm(e2b);
	flow->next = e2b->flows;
	if (flow->next)
		flow->next->prev = flow;
	e2b->flows = flow;
	http_req_on_gone(call->req, on_gone, flow);
	http_reply_on_drain(call->req, on_drain, flow);
	http_reply_patience(call->req, PATIENCE_MS);
	return flow;
}

/* ---- sending ---- */

void flow_begin(struct flow *flow)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/connect+json") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Accel-Buffering"), STR_LIT("no") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
	};
	struct http_req *req = flow_req(flow);

	flow->begun = true;
	flow->sent_ms = now_ms(flow->e2b);
	if (req && http_reply_start(req, 200, headers, ARRAY_LEN(headers)) < 0)
		log_debug("%s: the client disconnected", req->id);
}

struct json_writer flow_message(struct flow *flow)
{
	struct buf *out = &flow->e2b->out;
	struct json_writer w;
	int r;

	buf_clear(out);
	r = envelope_begin(out);
	json_writer_init(&w, out);
	w.error = r;
	return w;
}

void flow_send(struct flow *flow, struct json_writer *w)
{
	if (json_writer_end(w) < 0) {
		log_warn("a message could not be written");
		return;
	}
	envelope_close(w->out, 0);
	send_bytes(flow, buf_str(w->out));
}

static struct http_req *leave(struct flow *flow)
{
	struct http_req *req = flow_req(flow);

	flow_free(flow);
	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
	}
	return req;
}

void flow_end(struct flow *flow, const struct err *err)
{
	struct buf *out = &flow->e2b->out;
	char message[ERR_MESSAGE_MAX + 128] = "";
	struct http_req *req;
	int r;

	if (!flow->begun)
		flow_begin(flow);
	if (err)
		e2b_error_message(err, flow->user[0] ? flow->user : NULL, message, sizeof(message));
	buf_clear(out);
	r = envelope_end(out, err ? e2b_error_rpc_code(err) : NULL, message);
	if (r == 0)
		send_bytes(flow, buf_str(out));
	req = leave(flow);
	if (req && r == 0)
		http_reply_end(req);
	else if (req)
		http_reply_abort(req);
}

void flow_cut(struct flow *flow)
{
	struct http_req *req = leave(flow);

	if (req)
		http_reply_abort(req);
}
