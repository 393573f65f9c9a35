/* SPDX-License-Identifier: Apache-2.0 */
/* What a failure is to the shell that called us: one table from error codes to exit statuses. */
#ifndef CAY_CLI_EXIT_H
#define CAY_CLI_EXIT_H

#include "base/err.h"

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

/* A command inside a sandbox that was stopped by its time limit, as timeout(1) reports it. */
#define EXIT_STATUS_TIMED_OUT 124

enum exit_status exit_of_code(enum err_code code);
/* For answers whose code this version does not know: the HTTP status decides. */
enum exit_status exit_of_http(int http_status);
/* The public name decides when it is known, the HTTP status otherwise. */
enum exit_status exit_of_answer(const char *name, int http_status);
const char *exit_meaning(enum exit_status status);

#endif
