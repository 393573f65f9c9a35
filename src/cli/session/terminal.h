/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's terminal while a program far away has it: raw, and given back as it was on every way
 * out of this program but SIGKILL. One at a time: signal handlers must find it.
 */
#ifndef CAY_CLI_SESSION_TERMINAL_H
#define CAY_CLI_SESSION_TERMINAL_H

#include "base/err.h"
#include "base/str.h"

/*
 * Makes it raw. remark is written to standard error when a signal ends us: that the command runs
 * on, and how to come back to it. It must live until terminal_leave().
 */
int terminal_enter(const char *remark, struct err *err) _must_check_;
/* Gives it back, with the modes off that the program inside left on. Nothing when it was not taken.
 */
void terminal_leave(void);
/* Made raw again, after we were stopped and the shell had it. */
void terminal_again(void);
/* Bytes on their way to the screen, to know what would have to be undone. */
void terminal_watch(struct str bytes);
/* 80 x 24 when it does not tell. */
void terminal_size(unsigned int *ret_cols, unsigned int *ret_rows);

#endif
