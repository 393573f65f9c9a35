/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of one stream: bytes addressed by cursors that only grow. Memory is allocated with the
 * first byte and doubles up to the limit, so a program without output costs nothing.
 */
#ifndef CAY_AGENT_OUTPUT_RING_H
#define CAY_AGENT_OUTPUT_RING_H

#include <sys/uio.h>

#include "base/macro.h"
#include "base/str.h"

/* The policy at the limit. Every byte is counted in both cases, so the size of a gap is known. */
enum ring_policy {
	RING_KEEP_LAST,	 /* drop the oldest bytes: logs */
	RING_KEEP_FIRST, /* drop new bytes: collected output */
};

/* The limit of all rings together. The first page of each ring is not counted. */
struct ring_budget {
	size_t used;
	size_t max_bytes;
	/*
	 * Called if n more bytes exceed the limit; true: they fit now. Never frees the ring that
	 * asks.
	 */
	bool (*make_room)(struct ring_budget *budget, size_t n);
};

struct ring {
	char *data; /* NULL until the first byte */
	size_t capacity;
	size_t limit_bytes;
	enum ring_policy policy;
	uint64_t begin; /* cursor of the oldest byte held */
	uint64_t end;	/* one past the newest byte held; the byte at cursor c is data[c % capacity]
			 */
	uint64_t total; /* bytes ever written; > end only if some were dropped at the limit */
	struct ring_budget *budget; /* NULL: no limit */
};

void ring_init(struct ring *ring, size_t limit_bytes, enum ring_policy policy,
	       struct ring_budget *budget);
void ring_done(struct ring *ring);
/* Never fails: without memory the ring keeps its size and treats that as its limit. */
void ring_put(struct ring *ring, const void *p, size_t n);
/* Switches to RING_KEEP_LAST; the ring may grow to limit_bytes. */
void ring_keep_last(struct ring *ring, size_t limit_bytes);

/*
 * For a writer that stores the bytes itself (RING_KEEP_LAST): returns space for at most n bytes in
 * one or two pieces, 0 pieces without memory. Old bytes in that space are lost as new ones arrive,
 * which ring_commit() counts.
 */
int ring_room(struct ring *ring, size_t n, struct iovec ret[2]);
void ring_commit(struct ring *ring, size_t n);

/*
 * How many bytes can be written without overwriting those from keep_from on. Allocates memory for
 * up to want of them. Without any memory it returns want: the bytes are counted and dropped, so
 * that no writer waits for memory that may never be available.
 */
size_t ring_free(struct ring *ring, uint64_t keep_from, size_t want);

/*
 * The longest contiguous piece at *cursor, empty at the end. A cursor older than the oldest byte is
 * advanced to it; the caller detects the gap by comparing.
 */
struct str ring_peek(const struct ring *ring, uint64_t *cursor);
/*
 * The same across the wrap: n bytes from cursor, all of which the ring must hold, in one or two
 * pieces.
 */
int ring_pieces(const struct ring *ring, uint64_t cursor, size_t n, struct iovec ret[2]);

#endif
