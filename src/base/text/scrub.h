/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds known values in streams of bytes and masks them: as they are, and in the forms programs
 * usually give them (base64 at any place in a longer text, percent-encoding, hexadecimal, JSON).
 * A mask has the length of what it hides, so that byte cursors and ranges stay true.
 *
 * One pass over the bytes whatever they and the values are (Aho-Corasick); a value that comes in
 * pieces is found, because what may still become one is held back, and nothing else is.
 */
#ifndef CAY_BASE_TEXT_SCRUB_H
#define CAY_BASE_TEXT_SCRUB_H

#include "base/buf.h"

#define SCRUB_VALUE_MIN 8     /* bytes; shorter ones would mask what is no secret */
#define SCRUB_VALUE_MAX 16384 /* bytes; each costs some twenty nodes */
#define SCRUB_SHOWN_MAX 3     /* bytes of a start that are shown when more did not come */
#define SCRUB_NODES_MAX (4u << 20)
#define SCRUB_MASK '*'

/* A set of values, counted: everybody who masks with it keeps it. */
struct scrub;
int scrub_new(struct scrub **ret) _must_check_;
/* Adds a value in all its forms; shorter than SCRUB_VALUE_MIN: nothing. -ENOBUFS: too much. */
int scrub_add(struct scrub *scrub, struct str value) _must_check_;
/* After the last value, before the first use. */
int scrub_finish(struct scrub *scrub) _must_check_;
struct scrub *scrub_ref(struct scrub *scrub);
void scrub_unref(struct scrub *scrub);		 /* NULL is fine */
size_t scrub_longest(const struct scrub *scrub); /* of all forms, in bytes */

/* All of a text at once, in place. cut: more followed that was dropped, so the start of a value at
 * the end is masked too, unless it has SCRUB_SHOWN_MAX bytes at most. True when something was. */
bool scrub_text(const struct scrub *scrub, char *p, size_t n, bool cut);

/* Owner: who reads the stream. */
struct scrub_stream {
	struct scrub *scrub; /* NULL: nothing is masked and nothing held */
	uint32_t node;
	size_t given;	 /* of held: was handed out by the last call */
	struct buf held; /* at its limit bytes are dropped: the reader's cursors jump */
};
void scrub_stream_init(struct scrub_stream *stream, struct scrub *scrub); /* takes a reference */
void scrub_stream_done(struct scrub_stream *stream);
/* What may be passed on now, good until the next call. */
struct str scrub_stream_feed(struct scrub_stream *stream, struct str bytes);
/* What is held back, although it may be the start of a value: at the end, or when waiting longer
 * would keep a person waiting. A start of more than SCRUB_SHOWN_MAX bytes is masked, and the rest
 * of such a value still is. */
struct str scrub_stream_flush(struct scrub_stream *stream);
size_t scrub_stream_held(const struct scrub_stream *stream);

#endif
