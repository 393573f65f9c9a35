/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a tool, which is hostile by assumption: every decoded frame must encode to the same
 * bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/tool.h"
#include "wire_again.h"

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
	wire_again(data, size, TOOL_PAYLOAD_MAX, put_again);
	return 0;
}
