/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window's shell: the files it reads at its start, the FIFOs it talks through, its terminal, and
 * what runs in its foreground. It belongs to a user of the sandbox: whatever it reports is hostile.
 */
#ifndef CAY_AGENT_WINDOW_SHELL_H
#define CAY_AGENT_WINDOW_SHELL_H

#include "agent/process/process.h"

#define SHELL_REPORT_MAX 8 /* "s 255" and what is never right */
#define SHELL_TOKEN_SIZE 21
#define SHELL_COLS 120
#define SHELL_ROWS 40

/* Owner: its window. */
struct shell {
	int dir_fd; /* of its files; -1: none */
	int report_fd;
	int command_fd;		      /* -1 unless a command is on its way */
	int slave_fd;		      /* the terminal as the shell sees it */
	char name[24];		      /* of the directory: several agents may share its place */
	char token[SHELL_TOKEN_SIZE]; /* around each command: half a one is never run */
	size_t report_n;
	char report[SHELL_REPORT_MAX];
};

/* What a request says of the shell to be made; strings as in struct agent_window_run. */
struct shell_wish {
	uint32_t process_id;
	uint32_t ring_bytes;
	uint16_t envc;
	const char *name, *user, *cwd, *args;
};

enum shell_report { SHELL_NOTHING, SHELL_READY, SHELL_BEGINS, SHELL_AT_PROMPT };

/* NULL and *ret_refusal, or the process, whose hooks are the caller's to set. */
struct process *shell_start(struct agent *agent, struct shell *shell, const struct shell_wish *wish,
			    struct process_refusal *ret_refusal);
/* Closes and removes everything but the process. Works on one that was never started. */
void shell_done(struct agent *agent, struct shell *shell);

/* The next report that has come; with READY the exit status of the command before. */
enum shell_report shell_read(struct shell *shell, unsigned *ret_status);
/*
 * Hands over the command from offset *sent on (the token before and behind it counts). 0: done;
 * -EAGAIN: more when EVENT_COMMAND says so; -ENXIO: nobody reads yet; otherwise it is lost.
 */
int shell_send(struct agent *agent, struct shell *shell, const struct process *p,
	       struct str command, size_t *sent) _must_check_;
void shell_send_end(struct agent *agent, struct shell *shell);

/* SIGINT as the key would, and to the shell itself, which may be what loops. */
void shell_interrupt(const struct process *p);
/*
 * A signal to what the shell runs in its foreground since start_ms (boot clock), its children of
 * whatever session included; neither to the shell nor to its background jobs.
 */
void shell_signal_foreground(struct agent *agent, const struct process *p, int64_t start_ms,
			     int signum);
void shell_random_digits(char *dst, size_t n);

#endif
