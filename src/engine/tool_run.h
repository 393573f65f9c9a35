/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tool.c (frames) and tool_input.c (input): one run of the file tool. */
#ifndef CAY_ENGINE_TOOL_RUN_H
#define CAY_ENGINE_TOOL_RUN_H

#include "engine/tool.h"

/*
 * Owner: its references: the starter's, one for the start, one for the follow, one for each piece
 * of input in progress.
 */
struct tool_run {
	struct link *link; /* valid inside its callbacks; elsewhere only for comparison */
	struct tool_hooks hooks;
	void *arg;
	uint32_t refs;
	uint32_t follow_id, process_id;
	bool over; /* no hook is called any more */
	/* the link may still call, and will if it was freed before the run was informed */
	bool followed;
	bool takes_input, ready, committed;
	bool paused;
	bool full; /* a caller waits for on_room */
	size_t untaken;
	struct buf input; /* frames still to be sent */
	/* The decoder: an incomplete frame, or the rest of a DATA. */
	struct buf partial;
	size_t data_left;
	size_t held; /* by the consumer */
	size_t owed; /* credit to return */
	int64_t moved_ms;
};

void tool_run_unref(struct tool_run *run);
void tool_run_moved(struct tool_run *run); /* records progress */
void tool_run_pump(struct tool_run *run);

#endif
