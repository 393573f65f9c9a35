/* SPDX-License-Identifier: Apache-2.0 */
/* The file tool inside a sandbox, played by the test: what it is asked, and what it says. */
#ifndef CAY_TESTS_COMPONENT_PLAYED_TOOL_H
#define CAY_TESTS_COMPONENT_PLAYED_TOOL_H

#include "engine/tool.h"
#include "world.h"

struct tool_run {
	bool used, cancelled, committed, paused;
	struct tool_hooks hooks;
	void *arg;
	char args[2048]; /* with '|' between them */
	char user[65];
	struct buf fed;
	size_t released;
	int64_t waiting_ms;
	bool full;
};

#define PLAYED_MAX 64
extern struct tool_run played[PLAYED_MAX]; /* in the order of their starts */
extern size_t played_count;
extern const char *played_box; /* the sandbox of the test */

struct tool_run *played_last(void);
void played_entry(struct tool_run *run, const char *path, enum tool_kind kind, uint64_t size);
void played_data(struct tool_run *run, const char *text);
void played_end(struct tool_run *run, const struct tool_end *with);
void played_end_well(struct tool_run *run);
void played_end_badly(struct tool_run *run, enum tool_error error);

const char *played_url(const char *rest);
/* Sends, and lets the daemon start the tool. */
struct tool_run *played_begin(struct request *req, const char *method, const char *rest,
			      const char *headers, const char *body);

int played_setup(void **state);
int played_teardown(void **state);

#endif
