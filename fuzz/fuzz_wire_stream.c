/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of streams: every decoded frame must encode to the same bytes again, and in any order the
 * flow of a stream never allows more than its window.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/stream.h"

#define WINDOW 4096U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

static void check_same(const struct frame *frame, const struct stream_frame *decoded)
{
	struct buf again;

	buf_init(&again, 1U << 20);
	check(stream_put(&again, decoded) == 0);
	check(buf_len(&again) == frame_size(frame));
	check(memcmp(buf_data(&again), frame->payload.p - FRAME_HEADER_SIZE, buf_len(&again)) == 0);
	buf_done(&again);
}

static void step(struct stream_flow *flow, const struct stream_frame *f, uint64_t *held)
{
	if (f->type == STREAM_OPENED && !f->errno_value)
		(void)!stream_flow_on_opened(flow, f->credit);
	else if (f->type == STREAM_CREDIT)
		(void)!stream_flow_on_credit(flow, f->credit);
	else if (f->type == STREAM_END)
		(void)!stream_flow_on_end(flow);
	else if (f->type == STREAM_DATA && stream_flow_on_data(flow, f->bytes.n) == 0)
		*held += f->bytes.n;
	check(flow->may_send <= STREAM_WINDOW_MAX);
	check(flow->may_come + flow->owed + *held <= WINDOW);
	if (f->type == STREAM_RESET) { /* here the reader takes everything it holds */
		(void)stream_flow_taken(flow, (size_t)*held, WINDOW);
		*held = 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream_flow flow = { .may_come = WINDOW };
	struct str rest = { (const char *)data, size };
	struct stream_frame decoded;
	uint64_t held = 0;
	struct frame frame;

	while (frame_next(rest, 1U << 18, &frame) == 1) {
		if (stream_get(&frame, &decoded) == 0) {
			check_same(&frame, &decoded);
			step(&flow, &decoded, &held);
		}
		rest.p += frame_size(&frame);
		rest.n -= frame_size(&frame);
	}
	return 0;
}
