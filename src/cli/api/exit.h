/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses: one table from error codes to the status that the shell sees. */
#ifndef CAY_CLI_API_EXIT_H
#define CAY_CLI_API_EXIT_H

#include "base/err.h"
#include "base/str.h"

enum exit_status {
	EXIT_STATUS_OK = 0,
	EXIT_STATUS_GENERIC = 1,
	EXIT_STATUS_USAGE = 2,
	EXIT_STATUS_NOT_FOUND = 3,
	EXIT_STATUS_UNAUTHENTICATED = 4,
	EXIT_STATUS_PERMISSION = 5,
	EXIT_STATUS_QUOTA = 6,
	EXIT_STATUS_CONFLICT = 7,
	EXIT_STATUS_RUNTIME = 8,
};

/*
 * For commands that end with the status of a program inside a sandbox (struct command, own_status):
 * statuses that are not the program's. The same as for timeout(1), env(1) and docker-run(1).
 */
#define EXIT_STATUS_TIMED_OUT 124
#define EXIT_STATUS_CAY_FAILED 125
#define EXIT_STATUS_CANNOT_RUN 126
#define EXIT_STATUS_NO_COMMAND 127

enum exit_status exit_of_code(enum err_code code);
/* For replies whose code this version does not know: by HTTP status. */
enum exit_status exit_of_http(int http_status);
/* By the error name if it is known, otherwise by HTTP status. */
enum exit_status exit_of_answer(const char *name, int http_status);
/* Whether the message of sandbox_gone says that the sandbox reached the end of its lifetime. */
bool exit_is_end_of_life(struct str message);
/* 124 to 127. */
int exit_of_run(const struct err *err);
const char *exit_meaning(enum exit_status status);

#endif
