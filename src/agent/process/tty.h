/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of the sandbox's own devpts. */
#ifndef CAY_AGENT_PROCESS_TTY_H
#define CAY_AGENT_PROCESS_TTY_H

#include "agent/process/process.h"

/* A master (not blocking) and its slave, which belongs to user; NULL: to who we are. */
int tty_open(const struct user *user, uint16_t cols, uint16_t rows, int *ret_master,
	     int *ret_slave) _must_check_;
/* RESIZE. The same size once more makes the foreground programs draw again. */
void tty_resize(struct agent *agent, struct process *p, uint16_t cols, uint16_t rows, uint32_t tag);
/* SIGINT, SIGQUIT, SIGTSTP: to the programs in the foreground, as the keys would. */
int tty_signal(const struct process *p, int signum) _must_check_;
void tty_keep_newlines(int slave); /* no carriage returns before them */
char tty_end_key(int master);

#endif
