/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviated ids: the start of an id is accepted if it is unique. A name has precedence, because
 * the word is looked up only after the daemon replied that it has no such name or id. The result is
 * kept for this run, so that later calls use the whole id at once.
 */
#ifndef CAY_CLI_API_RESOLVE_H
#define CAY_CLI_API_RESOLVE_H

#include "cli/cli.h"

#define RESOLVE_LEAST 3 /* characters; shorter prefixes match by accident */

/* The path with a known prefix replaced by the whole id; the caller owns buf. */
const char *resolve_path(const struct cli *cli, const char *path, struct buf *buf);
/*
 * After an error reply (err): true if the path named an object by the start of its id and a second
 * attempt will find it. If several ids match, err lists them.
 */
bool resolve_again(struct cli *cli, const char *path, struct err *err);
/* The whole id of an object that is named in a body: collection is "snapshots" or "sandboxes". */
int resolve_id(struct cli *cli, const char *collection, const char *typed, char dst[64],
	       struct err *err) _must_check_;

#endif
