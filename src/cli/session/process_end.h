/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended: the exit status a shell sees, and words for people. */
#ifndef CAY_CLI_SESSION_PROCESS_END_H
#define CAY_CLI_SESSION_PROCESS_END_H

#include "cli/cli.h"

/* From the members exit_code, signal, reason and timed_out of an answer or an exit event. */
int process_end_status(const struct json *end);
/*
 * One line on standard error unless the command ended by itself: what ended it, in the API's words.
 * timeout_sec 0: not known.
 */
void process_end_print(const struct cli *cli, const struct json *end, uint64_t timeout_sec);
/* 1 to 64, or 0. "TERM", "SIGTERM" or "15". */
int signal_number(struct str text);

#endif
