/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the file tool: its frames (tool.c) and its input (tool_input.c). */
#ifndef CAY_ENGINE_TOOL_RUN_H
#define CAY_ENGINE_TOOL_RUN_H

#include "engine/tool.h"

/* Owner: its references: the starter's, one for the start, one for the follow, one for each piece
 * of input under way. */
struct tool_run {
	struct link *link; /* good inside its callbacks; elsewhere only to be compared */
	struct tool_hooks hooks;
	void *arg;
	uint32_t refs;
	uint32_t follow_id, process_id;
	bool over;     /* nothing more is told */
	bool followed; /* the link may still call: where it was gone before the run knew, it will */
	bool takes_input, ready, committed;
	bool paused;
	bool full; /* somebody waits for on_room */
	size_t untaken;
	struct buf input; /* frames still to be sent */
	/* The decoder: a frame that came in pieces, or the rest of a DATA. */
	struct buf partial;
	size_t data_left;
	size_t held; /* by the consumer */
	size_t owed; /* credit to give back */
	int64_t moved_ms;
};

void tool_run_unref(struct tool_run *run);
void tool_run_moved(struct tool_run *run); /* it is not stuck */
void tool_run_pump(struct tool_run *run);

#endif
