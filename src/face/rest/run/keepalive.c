/* SPDX-License-Identifier: Apache-2.0 */
/* Event streams: their start, and heartbeats while they are idle. */
#include "face/rest/run/stream.h"
#include "net/loop.h"

int events_begin(struct rest *rest, struct http_req *req)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("text/event-stream") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Content-Type-Options"), STR_LIT("nosniff") },
		{ STR_LIT("X-Accel-Buffering"), STR_LIT("no") },
	};

	rest->counters.requests++;
	rest->counters.by_class[2]++;
	return http_reply_start(req, 200, headers, ARRAY_LEN(headers));
}

/* One timer for all. A heartbeat may stop itself, but no other. */
static void on_heartbeat(void *arg)
{
	struct rest *rest = arg;
	struct heartbeat *next;

	for (struct heartbeat *heartbeat = rest->heartbeats; heartbeat; heartbeat = next) {
		next = heartbeat->next;
		heartbeat->fn(heartbeat->arg);
	}
}

void heartbeat_start(struct heartbeat *heartbeat, struct rest *rest, void (*fn)(void *arg),
		     void *arg)
{
	struct loop *loop = service_config(rest->service)->loop;
	int ms = rest->config.heartbeat_ms ? rest->config.heartbeat_ms : STREAM_HEARTBEAT_MS;

	*heartbeat =
		(struct heartbeat){ .rest = rest, .fn = fn, .arg = arg, .next = rest->heartbeats };
	if (heartbeat->next)
		heartbeat->next->prev = heartbeat;
	rest->heartbeats = heartbeat;
	if (heartbeat->next)
		return;
	if (!rest->heartbeat_timer &&
	    loop_timer_new(loop, on_heartbeat, rest, &rest->heartbeat_timer) < 0)
		return; /* without heartbeats, but the stream works */
	loop_timer_set(rest->heartbeat_timer, ms, ms);
}

void heartbeat_stop(struct heartbeat *heartbeat)
{
	struct rest *rest = TAKE_PTR(heartbeat->rest);

	if (!rest)
		return;
	if (heartbeat->prev)
		heartbeat->prev->next = heartbeat->next;
	else
		rest->heartbeats = heartbeat->next;
	if (heartbeat->next)
		heartbeat->next->prev = heartbeat->prev;
	if (!rest->heartbeats && rest->heartbeat_timer)
		loop_timer_clear(rest->heartbeat_timer);
}

void heartbeats_done(struct rest *rest)
{
	loop_timer_free(TAKE_PTR(rest->heartbeat_timer));
}
