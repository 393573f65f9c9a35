/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of one process, passed on as it comes: standard output to ours, standard error to
 * ours. A connection that breaks is made again and goes on behind the last byte.
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
	char process[FOLLOW_PROCESS_MAX]; /* empty until it has started */
	bool live;			  /* until the process ends; else what there is */
	char query[API_PATH_MAX];	  /* where to begin, until an event tells where we are */
	bool known;			  /* the cursors are */
	uint64_t out_cursor, err_cursor;
	struct json *end; /* the exit event; NULL: none came */

	int output_error; /* -errno of our own standard output */
	struct err *err;
	bool failed; /* err is set by an event */
	bool lost;   /* there was a gap */
	struct event_reader events;
	struct retry retry;
	struct buf bytes; /* decoded */
};

void follow_init(struct follow *follow, struct cli *cli, const char *sandbox, bool live);
void follow_done(struct follow *follow);
/* The output of follow->process. 0 also when it does not live and all was passed on. */
int follow_run(struct follow *follow, struct err *err) _must_check_;
/* Says on standard error that output is missing. offset: of the first byte that is. */
void follow_lost(const struct cli *cli, const char *process, bool is_err, uint64_t bytes,
		 uint64_t offset);
/* Writes all of it; 0 or -errno. */
int follow_write(int fd, struct str bytes) _must_check_;
/* The bytes of the member name, or name_b64, decoded into dst when they must be. */
int follow_bytes(const struct json *doc, const char *name, const char *name_b64, struct buf *dst,
		 struct str *ret) _must_check_;

#endif
