/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a tool, which is hostile by assumption: every decoded frame must encode to the same
 * bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define AGAIN(kind)                                            \
	{                                                      \
		struct tool_##kind value;                      \
		if (tool_get_##kind(frame, &value) == 0)       \
			return tool_put_##kind(again, &value); \
	}

/* 1: not a frame of ours. */
static int put_again(struct buf *again, const struct frame *frame)
{
	struct str bytes;

	AGAIN(entry)
	AGAIN(line)
	AGAIN(match)
	AGAIN(event)
	AGAIN(item)
	AGAIN(progress)
	AGAIN(failed)
	AGAIN(end)
	AGAIN(file)
	if (tool_get_bytes(frame, frame->type, &bytes) == 0)
		return tool_put_bytes(again, frame->type, bytes);
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size };
	struct frame frame;
	struct buf again;
	int r;

	buf_init(&again, FRAME_HEADER_SIZE + TOOL_PAYLOAD_MAX);
	while (frame_next(rest, TOOL_PAYLOAD_MAX, &frame) == 1) {
		r = put_again(&again, &frame);
		if (r < 0 || (r == 0 &&
			      !str_eq(buf_str(&again), (struct str){ rest.p, frame_size(&frame) })))
			abort();
		buf_clear(&again);
		rest.p += frame_size(&frame);
		rest.n -= frame_size(&frame);
	}
	buf_done(&again);
	return 0;
}
