/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the file tool inside a sandbox, as the daemon sees it: input is sent as far as the
 * tool takes it, and decoded frames are delivered. The frames are checked, but the sandbox's root
 * may have written them: names, texts and numbers are passed on, never trusted.
 *
 * Every call names the link, because it may have been freed before the run is informed: callers
 * pass the link that the sandbox has now, or NULL.
 */
#ifndef CAY_ENGINE_TOOL_H
#define CAY_ENGINE_TOOL_H

#include "base/buf.h"
#include "engine/link.h"
#include "wire/tool.h"

#define TOOL_CREDIT_BYTES (1U << 20)  /* output in flight or held by the consumer */
#define TOOL_UNTAKEN_BYTES (1U << 20) /* input that the tool has not taken yet */

/* One decoded frame. Views live for the call. */
struct tool_said {
	enum tool_type type; /* ENTRY, DETAIL, LINE, MATCH, EVENT, ITEM or PROGRESS */
	union {
		struct tool_entry entry;
		struct tool_detail detail;
		struct tool_line line;
		struct tool_match match;
		struct tool_event event;
		struct tool_item item;
		struct tool_progress progress;
	};
};

/* How a run ended: exactly one is not NULL. error: it was not the tool that ended it. */
struct tool_outcome {
	const struct tool_end *end;
	const struct tool_failed *failed;
	const struct err *error;
};

/* Any of them may call tool_run_cancel(). */
struct tool_hooks {
	void (*on_ready)(void *arg); /* READY arrived */
	void (*on_said)(void *arg, const struct tool_said *said);
	/* Bytes of DATA; they use up credit until tool_run_release(). */
	void (*on_data)(void *arg, struct str bytes);
	/* Half of the input's limit is free again; called after tool_run_feed() returned 0. */
	void (*on_room)(void *arg);
	void (*on_end)(void *arg, const struct tool_outcome *outcome); /* once, the last call */
};

struct tool_run; /* owner: the caller that started it, until on_end or tool_run_cancel() */

/* See wire/tool.h for the arguments. input: the tool reads its standard input. */
struct tool_spec {
	const char *const *argv; /* NULL-terminated: "cay-tools", operation, "key=value"... */
	const char *const *env;
	const char *cwd, *user; /* NULL: the default */
	bool input;
};
int tool_run_start(struct link *link, const struct tool_spec *spec, const struct tool_hooks *hooks,
		   void *arg, struct tool_run **ret, struct err *err) _must_check_;
/* Kills the tool, which leaves no partial result; no hook is called afterwards. */
void tool_run_cancel(struct tool_run *run, struct link *link);

/*
 * Sends one DATA frame. 1: more may follow; 0: wait for on_room; -1: the run has failed and on_end
 * follows. The bytes are always taken.
 */
int tool_run_feed(struct tool_run *run, struct link *link, struct str bytes);
/*
 * Sends frames made with tool_put_...(), piece by piece as the tool takes them. Once, instead of
 * tool_run_feed(). Takes ownership of the buffer's memory.
 */
void tool_run_input(struct tool_run *run, struct link *link, struct buf *frames);
void tool_run_commit(struct tool_run *run, struct link *link);
/*
 * Retries input that did not fit into the link because others filled it. Call it periodically;
 * on_room may be called from inside.
 */
void tool_run_poke(struct tool_run *run, struct link *link);
/* Bytes passed to on_data have been sent. */
void tool_run_release(struct tool_run *run, struct link *link, size_t bytes);

/* While paused no credit is returned, so the tool soon waits. */
void tool_run_pause(struct tool_run *run, struct link *link, bool paused);

/* When the tool last made progress; 0: we are not waiting for it. */
int64_t tool_run_waiting_since_ms(const struct tool_run *run);

#endif
