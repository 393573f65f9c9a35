/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a command: its exit status for the shell, and a message for people. */
#ifndef CAY_CLI_SESSION_PROCESS_END_H
#define CAY_CLI_SESSION_PROCESS_END_H

#include "cli/cli.h"

/* From the members exit_code, signal, reason and timed_out of a reply or an exit event. */
int process_end_status(const struct json *end);
/*
 * One line on standard error unless the command ended by itself: the reason, in the API's terms.
 * timeout_sec 0: unknown.
 */
void process_end_print(const struct cli *cli, const struct json *end, uint64_t timeout_sec);
/* 1 to 64, or 0. "TERM", "SIGTERM" or "15". */
int signal_number(struct str text);

#endif
