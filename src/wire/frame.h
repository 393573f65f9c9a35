/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame that all our stream protocols use, and strict little-endian readers of its payload.
 * Used by both ends of the link and by cay-tools. Works on bytes in memory, without I/O.
 *
 * u32 length of the payload | u8 type | u8 flags | u16 zero | u32 process id | payload
 */
#ifndef CAY_WIRE_FRAME_H
#define CAY_WIRE_FRAME_H

#include "base/buf.h"
#include "base/macro.h"
#include "base/str.h"

#define FRAME_HEADER_SIZE 12

struct frame {
	uint8_t type;
	uint8_t flags;
	uint32_t process_id;
	struct str payload; /* a view into the buffer it was read from */
};

static inline void frame_store16(char *p, uint16_t v)
{
	p[0] = (char)(v & 0xff);
	p[1] = (char)(v >> 8);
}

static inline void frame_store32(char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (char)(v >> (8 * i) & 0xff);
}

static inline void frame_store64(char *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (char)(v >> (8 * i) & 0xff);
}

static inline void frame_store_header(char *p, size_t length, uint8_t type, uint8_t flags,
				      uint32_t process_id)
{
	frame_store32(p, (uint32_t)length);
	p[4] = (char)type;
	p[5] = (char)flags;
	frame_store16(p + 6, 0);
	frame_store32(p + 8, process_id);
}

/*
 * Inspects the start of the bytes received so far. 1: *ret is a complete frame (consume
 * frame_size(ret) bytes when done with it). 0: more bytes are needed. -EPROTO: not a frame. This is
 * detected as soon as the header is complete, so a hostile length never causes buffering.
 */
int frame_next(struct str bytes, size_t payload_max, struct frame *ret) _must_check_;

static inline size_t frame_size(const struct frame *frame)
{
	return FRAME_HEADER_SIZE + frame->payload.n;
}

/* How many bytes are missing for the first frame (first the header, then the rest). */
size_t frame_missing(struct str bytes);

/*
 * Appends a header and space for the payload. The caller fills exactly length bytes at
 * *ret_payload. -ENOBUFS if the buffer's limit is reached.
 */
int frame_put(struct buf *out, uint8_t type, uint8_t flags, uint32_t process_id, size_t length,
	      char **ret_payload) _must_check_;

/*
 * Reads a payload from front to back. After the first short read, later reads return zeroes and
 * frame_reader_end() fails.
 */
struct frame_reader {
	const unsigned char *p;
	size_t n;
	bool failed;
};

static inline struct frame_reader frame_reader_of(struct str payload)
{
	return (struct frame_reader){ (const unsigned char *)payload.p, payload.n, false };
}

uint8_t frame_u8(struct frame_reader *r);
uint16_t frame_u16(struct frame_reader *r);
uint32_t frame_u32(struct frame_reader *r);
uint64_t frame_u64(struct frame_reader *r);
struct str frame_bytes(struct frame_reader *r, size_t n);
struct str frame_rest(struct frame_reader *r);
/* 0 if all reads succeeded and nothing is left over, otherwise -EPROTO. */
int frame_reader_end(const struct frame_reader *r) _must_check_;

#endif
