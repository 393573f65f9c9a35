/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell of a window: the files it reads at its start, the FIFOs it communicates through, its
 * terminal, and the programs in its foreground. It belongs to a user of the sandbox, so its reports
 * are hostile input.
 */
#ifndef CAY_AGENT_WINDOW_SHELL_H
#define CAY_AGENT_WINDOW_SHELL_H

#include "agent/process/process.h"

#define SHELL_REPORT_MAX 8 /* "s 255"; longer reports are invalid */
#define SHELL_TOKEN_SIZE 21
#define SHELL_COLS 120
#define SHELL_ROWS 40

/* Owner: its window. */
struct shell {
	int dir_fd; /* directory of its files; -1: none */
	int report_fd;
	int command_fd; /* -1 unless a command is being sent */
	int slave_fd;	/* the terminal as the shell sees it */
	char name[24];	/* of the directory: several agents may share its parent */
	/* around each command, so that a truncated one is never run */
	char token[SHELL_TOKEN_SIZE];
	size_t report_n;
	char report[SHELL_REPORT_MAX];
};

/* The parameters of a shell to be started; strings as in struct agent_window_run. */
struct shell_wish {
	uint32_t process_id;
	uint32_t ring_bytes;
	uint16_t envc;
	const char *name, *user, *cwd, *args;
};

enum shell_report { SHELL_NOTHING, SHELL_READY, SHELL_BEGINS, SHELL_AT_PROMPT };

/* Returns the process, whose hooks the caller sets, or NULL with *ret_refusal. */
struct process *shell_start(struct agent *agent, struct shell *shell, const struct shell_wish *wish,
			    struct process_refusal *ret_refusal);
/* Closes and removes everything except the process. Also for a shell that was never started. */
void shell_done(struct agent *agent, struct shell *shell);

/* The next report; with READY, the exit status of the previous command. */
enum shell_report shell_read(struct shell *shell, unsigned *ret_status);
/*
 * Sends the command from offset *sent on (including the token before and after it). 0: done;
 * -EAGAIN: continue on EVENT_COMMAND; -ENXIO: no reader yet; otherwise the command is lost.
 */
int shell_send(struct agent *agent, struct shell *shell, const struct process *p,
	       struct str command, size_t *sent) _must_check_;
void shell_send_end(struct agent *agent, struct shell *shell);

/* SIGINT like the key, and to the shell itself, which may be in a loop. */
void shell_interrupt(const struct process *p);
/*
 * Sends a signal to the programs that the shell runs in its foreground since start_ms (boot clock),
 * including children in other sessions, but not to the shell or its background jobs.
 */
void shell_signal_foreground(struct agent *agent, const struct process *p, int64_t start_ms,
			     int signum);
void shell_random_digits(char *dst, size_t n);

#endif
