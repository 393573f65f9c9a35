/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TOOLS_CONTENT_READ_H
#define CAY_TOOLS_CONTENT_READ_H

#include <sys/stat.h>

#include "tools/op.h"

/* Opens a regular file, and nothing else, for reading. */
int read_open(struct op *op, struct str path, int *ret_fd, struct stat *ret_st) _must_check_;

#endif
