/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/agent/window only: a window and the commands that wait for it. */
#ifndef CAY_AGENT_WINDOW_STATE_H
#define CAY_AGENT_WINDOW_STATE_H

#include <signal.h>

#include "agent/agent.h"
#include "agent/output/follow.h"
#include "agent/window/window.h"
#include "agent/window/shell.h"

#define MARK_SIZE 20
#define INTERRUPTED (128 + SIGINT) /* the exit code of a cancelled command */

enum window_state {
	WINDOW_STARTING,
	WINDOW_IDLE,
	WINDOW_SENDING, /* until the shell says that it has the command */
	WINDOW_RUNNING,
	WINDOW_ENDING, /* its status is known, its output not all read */
	WINDOW_GONE,
};

/* A command that waits for its turn; all strings in one piece behind it. */
struct request {
	struct shell_wish wish;
	uint32_t connection;
	uint32_t tag, follow_id, credit;
	bool made, cancelled;
	struct str command;
	char text[];
};

/* Owner: its process, until that is freed. */
struct window {
	struct shell shell;
	enum window_state state;
	struct request *now; /* being sent */
	struct request
		*next; /* begins when the one under way has ended; one more takes its place */
	size_t sent;
	bool unsent;	 /* nobody reads yet: once more in a moment */
	bool again;	 /* sent, and whoever took it may be lost */
	bool doomed;	 /* its shell is being ended: no more commands for it */
	bool lost;	 /* the shell came to its prompt: our loop is over */
	bool interrupts; /* a cancel is under way, since cancel_us */
	bool overtaken;	 /* its status came and the interrupt has not been seen yet */
	bool cancelled;	 /* the command under way was */
	int64_t cancel_us;
	int64_t retry_us;
	int64_t status_us; /* when the status came */
	int64_t active_us; /* the last command, input or output */
	int64_t due_us;	   /* what the state waits for */

	uint32_t count; /* numbers given to commands */
	uint32_t run;	/* the one under way, or the last */
	uint32_t run_code;
	enum agent_end run_end;
	uint64_t run_cursor, run_end_cursor;
	uint64_t run_kills;
	int64_t run_us, run_boot_ms;
	struct agent_status run_status;

	char mark[MARK_SIZE]; /* written into the terminal behind a command's output */
	size_t mark_written;
	size_t held; /* bytes of output that may be the beginning of the mark */
	bool mark_due;
};

extern const struct process_hooks window_hooks; /* window.c */

static inline struct window *window_of(const struct process *p)
{
	return p->hooks == &window_hooks ? p->window : NULL;
}

/* window.c */
void window_wait(struct agent *agent, struct process *p, int64_t in_us); /* TIMER_WINDOW */
void window_begin(struct agent *agent, struct process *p);		 /* w->next, when idle */
void window_cancel(struct agent *agent, struct process *p);

/* request.c */
void request_refuse(struct agent *agent, struct request *r, enum agent_refusal code, int error);
/* Tells the request's run number and makes its follow; both from the next byte on. */
struct follow *request_answer(struct agent *agent, struct process *p, const struct request *r,
			      uint32_t run);
/* A new window for the request; it begins when its shell has come up. */
void request_make_window(struct agent *agent, struct request *r);

#endif
