/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For targets that decode frames: every frame that is accepted must encode to the same bytes again.
 */
#ifndef CAY_FUZZ_WIRE_AGAIN_H
#define CAY_FUZZ_WIRE_AGAIN_H

#include <stdlib.h>

#include "wire/frame.h"

/* Encodes a frame again. 0, or < 0: the encoder failed, or 1: the decoder rejected the frame. */
typedef int (*wire_put_again)(struct buf *again, const struct frame *frame);

/* Splits the input into frames; aborts if one of them changes. */
static inline void wire_again(const uint8_t *data, size_t size, size_t payload_max,
			      wire_put_again put_again)
{
	struct str rest = { (const char *)data, size };
	struct frame frame;
	struct buf again;
	int r;

	buf_init(&again, FRAME_HEADER_SIZE + payload_max);
	while (frame_next(rest, payload_max, &frame) == 1) {
		r = put_again(&again, &frame);
		if (r < 0 || (r == 0 &&
			      !str_eq(buf_str(&again), (struct str){ rest.p, frame_size(&frame) })))
			abort();
		buf_clear(&again);
		rest.p += frame_size(&frame);
		rest.n -= frame_size(&frame);
	}
	buf_done(&again);
}

#endif
