/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the output of one process: its standard output to ours, its standard error to ours. A
 * broken connection is reestablished and continues after the last byte.
 */
#ifndef CAY_CLI_SESSION_FOLLOW_H
#define CAY_CLI_SESSION_FOLLOW_H

#include "cli/api/api.h"
#include "cli/api/sse.h"
#include "cli/api/retry.h"

#define FOLLOW_PROCESS_MAX 72 /* an id or a name */

/* Owner: the command. */
struct follow {
	struct cli *cli;
	const char *sandbox;
	char process[FOLLOW_PROCESS_MAX]; /* empty until it was started */
	/* until the process ends; otherwise only existing output */
	bool live;
	char query[API_PATH_MAX]; /* where to start, until an event has a position */
	bool known;		  /* the cursors are known */
	uint64_t out_cursor, err_cursor;
	struct json *end; /* the exit event; NULL: none arrived */

	int output_error; /* -errno of our own standard output */
	struct err *err;
	bool failed; /* an event set err */
	bool lost;   /* a gap occurred */
	struct event_reader events;
	struct retry retry;
	struct buf bytes; /* decoded */
};

void follow_init(struct follow *follow, struct cli *cli, const char *sandbox, bool live);
void follow_done(struct follow *follow);
/* Prints the output of follow->process. 0 also if it is not live and all was printed. */
int follow_run(struct follow *follow, struct err *err) _must_check_;
/* Reports lost output on standard error. offset: of the first lost byte. */
void follow_lost(const struct cli *cli, const char *process, bool is_err, uint64_t bytes,
		 uint64_t offset);
/* Writes all of it; 0 or -errno. */
int follow_write(int fd, struct str bytes) _must_check_;
/* The bytes of the member name, or of name_b64, decoded into dst if necessary. */
int follow_bytes(const struct json *doc, const char *name, const char *name_b64, struct buf *dst,
		 struct str *ret) _must_check_;

#endif
