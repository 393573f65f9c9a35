/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/agent/window: a window and the commands that wait for it. */
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
	WINDOW_SENDING, /* until the shell reports that it has the command */
	WINDOW_RUNNING,
	WINDOW_ENDING, /* its status is known, but its output is incomplete */
	WINDOW_GONE,
};

/* A command that waits for its turn, followed by all its strings. */
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
	struct request *now;  /* being sent */
	struct request *next; /* starts when the current one has ended; a newer one replaces it */
	size_t sent;
	bool unsent;	 /* no reader yet: retried soon */
	bool again;	 /* sent, but its reader may have died */
	bool doomed;	 /* its shell is being ended and gets no more commands */
	bool lost;	 /* the shell returned to its prompt: our loop has ended */
	bool interrupts; /* a cancel is in progress, since cancel_us */
	bool overtaken;	 /* its status arrived before the effect of the interrupt */
	bool cancelled;	 /* the current command was cancelled */
	int64_t cancel_us;
	int64_t retry_us;
	int64_t status_us; /* when the status came */
	int64_t active_us; /* time of the last command, input or output */
	int64_t due_us;	   /* deadline of the current state */

	uint32_t count; /* number of commands so far */
	uint32_t run;	/* the current run, or the last one */
	uint32_t run_code;
	enum agent_end run_end;
	uint64_t run_cursor, run_end_cursor;
	uint64_t run_kills;
	int64_t run_us, run_boot_ms;
	struct agent_status run_status;

	char mark[MARK_SIZE]; /* written to the terminal after a command's output */
	size_t mark_written;
	size_t held; /* bytes of output that may be the start of the mark */
	bool mark_due;
};

extern const struct process_hooks window_hooks; /* window.c */

static inline struct window *window_of(const struct process *p)
{
	return p->hooks == &window_hooks ? p->window : NULL;
}

/* window.c */
void window_wait(struct agent *agent, struct process *p, int64_t in_us); /* TIMER_WINDOW */
/* starts w->next if idle */
void window_begin(struct agent *agent, struct process *p);
void window_cancel(struct agent *agent, struct process *p);

/* request.c */
void request_refuse(struct agent *agent, struct request *r, enum agent_refusal code, int error);
/* Replies with the run number and creates the follow; both start at the next byte. */
struct follow *request_answer(struct agent *agent, struct process *p, const struct request *r,
			      uint32_t run);
/* Creates a window for the request, which starts when its shell is ready. */
void request_make_window(struct agent *agent, struct request *r);

#endif
