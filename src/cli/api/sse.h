/* SPDX-License-Identifier: Apache-2.0 */
/* A parser of server-sent events that accepts pieces of any size. */
#ifndef CAY_CLI_API_SSE_H
#define CAY_CLI_API_SSE_H

#include "base/buf.h"

#define EVENT_LIMIT_BYTES ((size_t)16 << 20) /* per event; a larger one ends the stream */

/* A non-zero result stops; event_feed() returns it. */
typedef int (*event_fn)(void *arg, struct str name, struct str id, struct str data);

struct event_reader {
	struct buf line; /* incomplete line */
	struct buf data; /* of the current event */
	char name[64];
	char id[64]; /* kept until the next one */
	event_fn fn;
	void *arg;
};

void event_init(struct event_reader *reader, event_fn fn, void *arg);
void event_done(struct event_reader *reader);
void event_reset(struct event_reader *reader); /* a new stream begins */
/* 0, the result of fn, or -EPROTO. */
int event_feed(struct event_reader *reader, const char *p, size_t n) _must_check_;

#endif
