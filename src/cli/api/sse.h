/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, taken apart as they come. */
#ifndef CAY_CLI_API_SSE_H
#define CAY_CLI_API_SSE_H

#include "base/buf.h"

#define EVENT_LIMIT_BYTES ((size_t)16 << 20) /* one event; a larger one ends the stream */

/* Non-zero stops; it is returned by event_feed(). */
typedef int (*event_fn)(void *arg, struct str name, struct str id, struct str data);

struct event_reader {
	struct buf line; /* begun, not ended */
	struct buf data; /* of the event at hand */
	char name[64];
	char id[64]; /* stays until another comes */
	event_fn fn;
	void *arg;
};

void event_init(struct event_reader *reader, event_fn fn, void *arg);
void event_done(struct event_reader *reader);
void event_reset(struct event_reader *reader); /* a new stream begins */
/* 0, what fn returned, or -EPROTO. */
int event_feed(struct event_reader *reader, const char *p, size_t n) _must_check_;

#endif
