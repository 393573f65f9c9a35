/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of one stream: bytes addressed by cursors that only grow. Memory is taken when the
 * first byte comes and doubles up to the limit, so a silent program costs nothing.
 */
#ifndef CAY_AGENT_OUTPUT_RING_H
#define CAY_AGENT_OUTPUT_RING_H

#include <sys/uio.h>

#include "base/macro.h"
#include "base/str.h"

/* What happens at the limit; either way every byte is counted, so a gap has a known size. */
enum ring_policy {
	RING_KEEP_LAST,	 /* the oldest bytes give way: logs */
	RING_KEEP_FIRST, /* what comes later is dropped: collected output */
};

/* What all rings together may take. The first page of each is not asked for. */
struct ring_budget {
	size_t used;
	size_t max_bytes;
	/* Called when n more bytes would be too many; true: now they are not. Never frees the ring
	 * that asks. */
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
	uint64_t total; /* bytes ever given; > end only when some were dropped at the limit */
	struct ring_budget *budget; /* NULL: none */
};

void ring_init(struct ring *ring, size_t limit_bytes, enum ring_policy policy,
	       struct ring_budget *budget);
void ring_done(struct ring *ring);
/* Never fails: without memory the ring stays as large as it is and treats that as its limit. */
void ring_put(struct ring *ring, const void *p, size_t n);
/* From now on the newest bytes count; the ring may become as large as limit_bytes. */
void ring_keep_last(struct ring *ring, size_t limit_bytes);

/*
 * For a writer that puts the bytes into place by itself (RING_KEEP_LAST): room for n bytes at most,
 * in one or two pieces, 0 pieces without memory. Where it overlaps old bytes those are lost as the
 * new ones come, which ring_commit() counts.
 */
int ring_room(struct ring *ring, size_t n, struct iovec ret[2]);
void ring_commit(struct ring *ring, size_t n);

/*
 * How many bytes can be put without overwriting those from keep_from on. Takes memory for up to
 * want of them. Without any memory at all it returns want: the bytes are counted and dropped, and
 * no writer waits for memory that may never come.
 */
size_t ring_free(struct ring *ring, uint64_t keep_from, size_t want);

/*
 * The longest contiguous piece at *cursor, empty at the end. A cursor older than what is held is
 * moved forward to the oldest byte: the caller sees the gap by comparing.
 */
struct str ring_peek(const struct ring *ring, uint64_t *cursor);
/* The same across the wrap: n bytes from cursor, all of which are held, in one or two pieces. */
int ring_pieces(const struct ring *ring, uint64_t cursor, size_t n, struct iovec ret[2]);

#endif
