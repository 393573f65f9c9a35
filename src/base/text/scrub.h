/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds known secret values in streams of bytes and masks them: literally, and in the encodings
 * that programs commonly use (base64 at any offset in a longer text, percent-encoding, hexadecimal,
 * JSON). A mask has the length of the text it hides, so byte cursors and ranges stay correct.
 *
 * The cost is one pass over the bytes, whatever the bytes and values are (Aho-Corasick). A value
 * that arrives in pieces is found, because bytes that may be the start of a value are held back;
 * other bytes are not.
 */
#ifndef CAY_BASE_TEXT_SCRUB_H
#define CAY_BASE_TEXT_SCRUB_H

#include "base/buf.h"

#define SCRUB_VALUE_MIN 8     /* bytes; shorter values would mask ordinary text */
#define SCRUB_VALUE_MAX 16384 /* bytes; each costs about twenty nodes */
#define SCRUB_SHOWN_MAX 3     /* bytes of a value's start that are shown when no more followed */
#define SCRUB_NODES_MAX (4u << 20)
#define SCRUB_MASK '*'

/* A set of values with a reference count; each stream that uses it holds a reference. */
struct scrub;
int scrub_new(struct scrub **ret) _must_check_;
/*
 * Adds a value in all its encodings. A value shorter than SCRUB_VALUE_MIN is ignored. -ENOBUFS: the
 * set is full.
 */
int scrub_add(struct scrub *scrub, struct str value) _must_check_;
/* Call after the last value and before the first use. */
int scrub_finish(struct scrub *scrub) _must_check_;
struct scrub *scrub_ref(struct scrub *scrub);
void scrub_unref(struct scrub *scrub);		 /* NULL is allowed */
size_t scrub_longest(const struct scrub *scrub); /* bytes of the longest encoding */

/*
 * Masks a complete text in place. cut: the text was truncated, so a partial value at its end is
 * masked as well, unless it has at most SCRUB_SHOWN_MAX bytes. Returns true if anything was masked.
 */
bool scrub_text(const struct scrub *scrub, char *p, size_t n, bool cut);

/* Owner: the reader of the stream. */
struct scrub_stream {
	struct scrub *scrub; /* NULL: nothing is masked or held back */
	uint32_t node;
	size_t given;	 /* bytes of held that the last call returned */
	struct buf held; /* at the limit bytes are dropped, and the reader's cursor skips them */
};
void scrub_stream_init(struct scrub_stream *stream, struct scrub *scrub); /* takes a reference */
void scrub_stream_done(struct scrub_stream *stream);
/* Returns the bytes that may be passed on now; valid until the next call. */
struct str scrub_stream_feed(struct scrub_stream *stream, struct str bytes);
/*
 * Returns the bytes that are held back although they may be the start of a value: at the end of the
 * stream, or when an interactive user would wait too long. If more than SCRUB_SHOWN_MAX bytes of a
 * value have matched, they are masked, and so is the rest of that value.
 */
struct str scrub_stream_flush(struct scrub_stream *stream);
size_t scrub_stream_held(const struct scrub_stream *stream);

#endif
