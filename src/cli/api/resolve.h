/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An id may be typed as its beginning, when only one id begins so. A name always wins, because the
 * word is looked up only after the daemon has answered that there is nothing of that name or id.
 * What was found is kept for the run, so that later calls use the whole id at once.
 */
#ifndef CAY_CLI_API_RESOLVE_H
#define CAY_CLI_API_RESOLVE_H

#include "cli/cli.h"

#define RESOLVE_LEAST 3 /* characters; fewer would hit by accident */

/* The path with a beginning that is known by now made whole; buf is the caller's, done by it. */
const char *resolve_path(const struct cli *cli, const char *path, struct buf *buf);
/*
 * After a refusal (err): true when the path named something by the beginning of its id, and a
 * second try will find it. When several ids begin so, err lists them.
 */
bool resolve_again(struct cli *cli, const char *path, struct err *err);
/* The whole id of something that goes into a body: collection is "snapshots" or "sandboxes". */
int resolve_id(struct cli *cli, const char *collection, const char *typed, char dst[64],
	       struct err *err) _must_check_;

#endif
