/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of the sandbox's own devpts. */
#ifndef CAY_AGENT_PROCESS_TTY_H
#define CAY_AGENT_PROCESS_TTY_H

#include "agent/process/process.h"

/* A non-blocking master and its slave, which belongs to user; NULL: to the agent's user. */
int tty_open(const struct user *user, uint16_t cols, uint16_t rows, int *ret_master,
	     int *ret_slave) _must_check_;
/* RESIZE. Repeating the same size makes foreground programs redraw. */
void tty_resize(struct agent *agent, struct process *p, uint16_t cols, uint16_t rows, uint32_t tag);
/* SIGINT, SIGQUIT, SIGTSTP: to the foreground programs, as the keys would. */
int tty_signal(const struct process *p, int signum) _must_check_;
void tty_keep_newlines(int slave); /* without converting them to CR LF */
char tty_end_key(int master);

#endif
