/* SPDX-License-Identifier: Apache-2.0 */
/* What a failure is to the shell that called us: one table from error codes to exit statuses. */
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
 * Of the commands that end with the status of a program inside a sandbox (struct command,
 * own_status): what is not the program's own. As timeout(1), env(1) and docker-run(1) have it.
 */
#define EXIT_STATUS_TIMED_OUT 124
#define EXIT_STATUS_CAY_FAILED 125
#define EXIT_STATUS_CANNOT_RUN 126
#define EXIT_STATUS_NO_COMMAND 127

enum exit_status exit_of_code(enum err_code code);
/* For answers whose code this version does not know: the HTTP status decides. */
enum exit_status exit_of_http(int http_status);
/* The public name decides when it is known, the HTTP status otherwise. */
enum exit_status exit_of_answer(const char *name, int http_status);
/* The message of sandbox_gone says that the sandbox's own time is over. */
bool exit_is_end_of_life(struct str message);
/* 124 to 127. */
int exit_of_run(const struct err *err);
const char *exit_meaning(enum exit_status status);

#endif
