/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that comes into being whole: written without a name (O_TMPFILE, or a hidden one where the
 * file system has no such thing) in the directory of its target, then put there in one step.
 */
#ifndef CAY_TOOLS_CONTENT_TEMP_H
#define CAY_TOOLS_CONTENT_TEMP_H

#include <sys/stat.h>

#include "base/macro.h"

struct temp {
	int dir_fd; /* the caller's */
	int fd;
	char name[32]; /* "": it has none */
};
#define TEMP_INIT ((struct temp){ -1, -1, "" })

/* mode: as far as the umask lets it. */
int temp_open(struct temp *temp, int dir_fd, mode_t mode) _must_check_;
/* A name nobody else has, for a temporary thing in a directory. */
void temp_make_name(char dst[32]);
bool temp_is_name(const char *name); /* one of those */

/* What may be at the target. */
struct temp_target {
	const struct stat *expected; /* only this file, unchanged since; NULL: whatever is there */
	bool must_be_absent;
};
/* Puts it at name. -EEXIST, -ESTALE: the target was not as demanded, and was not touched. */
int temp_publish(struct temp *temp, const char *name, struct temp_target target) _must_check_;
void temp_done(struct temp *temp); /* what was not published goes away */
int temp_sync_dir(int dir_fd) _must_check_;

bool temp_same(const struct stat *a, const struct stat *b); /* the same file, same content */

#endif
