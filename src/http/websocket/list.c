/* SPDX-License-Identifier: Apache-2.0 */
/* The WebSockets of a server: accepting, deadlines, closing all. */
#include <errno.h>

#include "http/websocket/key.h"
#include "http/websocket/state.h"

#define SWEEP_MS 1000

const struct websocket_limits websocket_limits_default = {
	.message_bytes = 1 << 20,
	.watermark_bytes = 262144,
	.queue_bytes = 16 << 20,
	.ping_ms = 15000,
	.silence_ms = 45000,
	.write_ms = 30000,
	.close_ms = 5000,
};

static void expire(struct websocket *ws, int64_t now)
{
	bool silent = ws->state == WEBSOCKET_IS_OPEN && websocket_wants_read(ws) &&
		      now - ws->heard_ms >= ws->limits.silence_ms;

	if (silent || (ws->write_deadline_ms && now >= ws->write_deadline_ms) ||
	    (ws->close_deadline_ms && now >= ws->close_deadline_ms))
		websocket_lose(ws);
	if (ws->state == WEBSOCKET_IS_OPEN && now - ws->pinged_ms >= ws->limits.ping_ms &&
	    buf_len(&ws->out) <= ws->limits.watermark_bytes) {
		struct str none = { "", 0 };

		ws->pinged_ms = now;
		(void)!websocket_send_frame(ws, WEBSOCKET_PING, none, none);
	}
	if (ws->state == WEBSOCKET_IS_DEAD || ws->ready)
		websocket_work(ws);
}

static void on_sweep(void *arg)
{
	struct websocket_list *list = arg;
	int64_t now = loop_now_ms(list->server->loop);
	struct websocket *next;

	for (struct websocket *ws = list->head; ws; ws = next) {
		next = ws->next;
		expire(ws, now);
	}
	if (list->count == 0) {
		loop_timer_clear(list->sweep);
		list->sweep_ms = 0;
	}
}

static int list_get(struct http_server *server, struct websocket_list **ret)
{
	struct websocket_list *list = server->websockets;
	int r;

	if (!list) {
		list = calloc(1, sizeof(*list));
		if (!list)
			return -ENOMEM;
		list->server = server;
		r = loop_timer_new(server->loop, on_sweep, list, &list->sweep);
		if (r < 0) {
			free(list);
			return r;
		}
		server->websockets = list;
	}
	*ret = list;
	return 0;
}

static void list_add(struct websocket_list *list, struct websocket *ws)
{
	const struct websocket_limits *l = &ws->limits;
	int least = MIN(MIN(l->ping_ms, l->silence_ms), MIN(l->write_ms, l->close_ms));
	int sweep_ms = MAX(10, MIN(SWEEP_MS, least / 4));

	ws->next = list->head;
	if (list->head)
		list->head->prev = ws;
	list->head = ws;
	list->count++;
	if (list->sweep_ms && list->sweep_ms <= sweep_ms)
		return;
	list->sweep_ms = sweep_ms;
	loop_timer_set(list->sweep, sweep_ms, sweep_ms);
}

static void discard(struct websocket *ws)
{
	if (!ws)
		return;
	loop_watch_free(ws->watch);
	if (ws->fd >= 0)
		(void)close(ws->fd);
	websocket_reader_done(&ws->reader);
	buf_done(&ws->unread);
	free(ws);
}

static int answer(struct http_req *req, int *ret_fd, struct str *ret_unread)
{
	char value[WEBSOCKET_ANSWER_LEN + 1];
	const struct http_header headers[] = {
		{ STR_LIT("Upgrade"), STR_LIT("websocket") },
		{ STR_LIT("Connection"), STR_LIT("Upgrade") },
		{ STR_LIT("Sec-WebSocket-Accept"), { value, WEBSOCKET_ANSWER_LEN } },
	};

	websocket_key_answer(value, *http_req_header(req, "sec-websocket-key"));
	return http_reply_upgrade(req, 101, headers, ARRAY_LEN(headers), ret_fd, ret_unread);
}

/* The request no longer exists here, so a failure is reported by on_close. */
static void take_connection(struct websocket *ws, struct str unread)
{
	int r = unread.n ? buf_append(&ws->unread, unread.p, unread.n) : 0;

	if (r == 0)
		r = loop_watch_new(ws->list->server->loop, ws->fd, websocket_on_watch, ws,
				   &ws->watch);
	if (r == 0)
		websocket_set_watch(ws);
	else
		websocket_lose(ws);
	websocket_make_ready(ws);
}

int websocket_accept(struct http_req *req, const struct websocket_limits *limits,
		     const struct websocket_hooks *hooks, void *arg, struct websocket **ret)
{
	struct websocket_list *list = NULL;
	struct websocket *ws;
	struct str unread = { "", 0 };
	const char *why;
	int r = websocket_check(req, &why);

	if (r == 0)
		r = list_get(req->server, &list);
	if (r != 0)
		return r;
	ws = calloc(1, sizeof(*ws));
	if (!ws)
		return -ENOMEM;
	ws->list = list;
	ws->limits = limits ? *limits : websocket_limits_default;
	ws->hooks = *hooks;
	ws->arg = arg;
	ws->fd = -1;
	ws->code = WEBSOCKET_ABNORMAL;
	buf_init(&ws->unread, req->server->limits.head_bytes + HTTP_READ_BYTES);
	buf_init(&ws->out, ws->limits.queue_bytes);
	r = websocket_reader_init(&ws->reader, true, ws->limits.message_bytes, websocket_source,
				  ws);
	if (r == 0)
		r = answer(req, &ws->fd, &unread);
	if (r < 0) {
		discard(ws);
		return r;
	}
	ws->heard_ms = ws->pinged_ms = websocket_now_ms(ws);
	list_add(list, ws);
	take_connection(ws, unread);
	*ret = ws;
	return 0;
}

uint32_t websocket_count(const struct http_server *server)
{
	return server->websockets ? server->websockets->count : 0;
}

void websocket_close_all(struct http_server *server)
{
	for (struct websocket *ws = server->websockets ? server->websockets->head : NULL; ws;
	     ws = ws->next)
		websocket_close(ws, WEBSOCKET_GOING_AWAY, "the server is stopping");
}

void websocket_cut_all(struct http_server *server)
{
	for (struct websocket *ws = server->websockets ? server->websockets->head : NULL; ws;
	     ws = ws->next) {
		websocket_lose(ws);
		websocket_make_ready(ws);
	}
}

void websocket_free_all(struct http_server *server)
{
	struct websocket_list *list = server->websockets;

	if (!list)
		return;
	while (list->head) {
		websocket_lose(list->head);
		websocket_release(list->head);
	}
	loop_timer_free(list->sweep);
	free(list);
	server->websockets = NULL;
}
