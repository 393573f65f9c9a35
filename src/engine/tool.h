/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the file tool inside a sandbox, seen from the daemon: input goes in as far as the tool
 * takes it, frames come out decoded. What the tool says is checked, but the sandbox's root may have
 * written it: names, texts and figures are told, never trusted.
 *
 * The link is named in every call, because it may be gone before the run knows it: callers give the
 * link that the sandbox has now, or NULL.
 */
#ifndef CAY_ENGINE_TOOL_H
#define CAY_ENGINE_TOOL_H

#include "base/buf.h"
#include "engine/link.h"
#include "wire/tool.h"

#define TOOL_CREDIT_BYTES (1U << 20)  /* of output on the way or held by the consumer */
#define TOOL_UNTAKEN_BYTES (1U << 20) /* of input the tool has not taken yet */

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
	void (*on_ready)(void *arg); /* READY came */
	void (*on_said)(void *arg, const struct tool_said *said);
	/* Bytes of DATA; they use up credit until tool_run_release(). */
	void (*on_data)(void *arg, struct str bytes);
	/* Half of the input's limit is free again; after tool_run_feed() said 0. */
	void (*on_room)(void *arg);
	void (*on_end)(void *arg, const struct tool_outcome *outcome); /* once, the last call */
};

struct tool_run; /* owner: whoever started it, until on_end or tool_run_cancel() */

/* See wire/tool.h for the words. input: the tool reads its standard input. */
struct tool_spec {
	const char *const *argv; /* NULL-terminated: "cay-tools", operation, "key=value"... */
	const char *const *env;
	const char *cwd, *user; /* NULL: the default */
	bool input;
};
int tool_run_start(struct link *link, const struct tool_spec *spec, const struct tool_hooks *hooks,
		   void *arg, struct tool_run **ret, struct err *err) _must_check_;
/* The tool is killed, what it was doing is undone by itself; no hook is called any more. */
void tool_run_cancel(struct tool_run *run, struct link *link);

/* Sends one DATA frame. 1: more may come; 0: enough for now, on_room tells; -1: the run is over and
 * its end is on the way. Bytes are always taken. */
int tool_run_feed(struct tool_run *run, struct link *link, struct str bytes);
/* Sends frames made with tool_put_...(), piece by piece as the tool takes them. Once, instead of
 * tool_run_feed(). Takes over the buffer's memory. */
void tool_run_input(struct tool_run *run, struct link *link, struct buf *frames);
void tool_run_commit(struct tool_run *run, struct link *link);
/* Input that found no room in the link, because others filled it, is tried again. To be called now
 * and then; on_room may come from inside. */
void tool_run_poke(struct tool_run *run, struct link *link);
/* Bytes given to on_data have left. */
void tool_run_release(struct tool_run *run, struct link *link, size_t bytes);

/* While paused no credit is given back, so the tool soon waits. */
void tool_run_pause(struct tool_run *run, struct link *link, bool paused);

/* When the tool last did something we waited for; 0: we wait for nothing of it just now. */
int64_t tool_run_waiting_since_ms(const struct tool_run *run);

#endif
