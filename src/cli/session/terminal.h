/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's terminal while a remote program uses it: it is in raw mode, and restored on every exit
 * of this program except SIGKILL. There is one per process, so that signal handlers find it.
 */
#ifndef CAY_CLI_SESSION_TERMINAL_H
#define CAY_CLI_SESSION_TERMINAL_H

#include "base/err.h"
#include "base/str.h"

/*
 * Sets raw mode. remark is written to standard error if a signal ends us: that the command
 * continues, and how to reattach. It must live until terminal_leave().
 */
int terminal_enter(const char *remark, struct err *err) _must_check_;
/*
 * Restores it and disables modes that the program inside left enabled. Does nothing if it was not
 * entered.
 */
void terminal_leave(void);
/* Sets raw mode again, after we were stopped and the shell had the terminal. */
void terminal_again(void);
/* Tracks output, to know what would have to be reset. */
void terminal_watch(struct str bytes);
/* 80 x 24 if it is unknown. */
void terminal_size(unsigned int *ret_cols, unsigned int *ret_rows);

#endif
