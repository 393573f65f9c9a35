/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is created atomically: written without a name (O_TMPFILE, or a hidden name where the
 * file system lacks it) in the directory of its target, then put in place in one step.
 */
#ifndef CAY_TOOLS_CONTENT_TEMP_H
#define CAY_TOOLS_CONTENT_TEMP_H

#include <sys/stat.h>

#include "base/macro.h"

struct temp {
	int dir_fd; /* owned by the caller */
	int fd;
	char name[32]; /* "": it has no name */
};
#define TEMP_INIT ((struct temp){ -1, -1, "" })

/* mode: reduced by the umask. */
int temp_open(struct temp *temp, int dir_fd, mode_t mode) _must_check_;
/* A unique name for a temporary entry in a directory. */
void temp_make_name(char dst[32]);
bool temp_is_name(const char *name); /* created by temp_make_name() */

/* What the target may be. */
struct temp_target {
	const struct stat *expected; /* only this file, unchanged since; NULL: anything */
	bool must_be_absent;
};
/* Puts it at name. -EEXIST, -ESTALE: the target was not as required, and was not changed. */
int temp_publish(struct temp *temp, const char *name, struct temp_target target) _must_check_;
void temp_done(struct temp *temp); /* removes it if it was not published */
int temp_sync_dir(int dir_fd) _must_check_;

bool temp_same(const struct stat *a, const struct stat *b); /* the same file, same content */

#endif
