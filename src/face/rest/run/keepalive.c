/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events: how they begin, and how they stay alive while nothing happens. */
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

/* One timer for all. A beat may stop itself, and nobody else. */
static void on_beat(void *arg)
{
	struct rest *rest = arg;
	struct beat *next;

	for (struct beat *beat = rest->beats; beat; beat = next) {
		next = beat->next;
		beat->fn(beat->arg);
	}
}

void beat_start(struct beat *beat, struct rest *rest, void (*fn)(void *arg), void *arg)
{
	struct loop *loop = service_config(rest->service)->loop;
	int ms = rest->config.beat_ms ? rest->config.beat_ms : STREAM_BEAT_MS;

	*beat = (struct beat){ .rest = rest, .fn = fn, .arg = arg, .next = rest->beats };
	if (beat->next)
		beat->next->prev = beat;
	rest->beats = beat;
	if (beat->next)
		return;
	if (!rest->beat && loop_timer_new(loop, on_beat, rest, &rest->beat) < 0)
		return; /* no beats: better than no stream */
	loop_timer_set(rest->beat, ms, ms);
}

void beat_stop(struct beat *beat)
{
	struct rest *rest = TAKE_PTR(beat->rest);

	if (!rest)
		return;
	if (beat->prev)
		beat->prev->next = beat->next;
	else
		rest->beats = beat->next;
	if (beat->next)
		beat->next->prev = beat->prev;
	if (!rest->beats && rest->beat)
		loop_timer_clear(rest->beat);
}

void beats_done(struct rest *rest)
{
	loop_timer_free(TAKE_PTR(rest->beat));
}
