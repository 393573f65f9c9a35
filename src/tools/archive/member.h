/* SPDX-License-Identifier: Apache-2.0 */
/* Names in archives: which may be written below a directory, and which would leave it. No I/O. */
#ifndef CAY_TOOLS_ARCHIVE_MEMBER_H
#define CAY_TOOLS_ARCHIVE_MEMBER_H

#include "base/str.h"

/*
 * Normalizes an entry's path: no empty or "." parts, no slash at either end. 0 (ret_n may be 0: the
 * top itself), -EXDEV: absolute, or with "..". -ENAMETOOLONG, -EINVAL: a NUL.
 */
int member_clean(struct str path, char *dst, size_t size, size_t *ret_n) _must_check_;

/* Whether a symbolic link at path (clean) with this target stays below the top. */
bool member_link_stays(struct str path, struct str target);

#endif
