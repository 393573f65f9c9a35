/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TOOLS_TREE_REMOVE_H
#define CAY_TOOLS_TREE_REMOVE_H

#include "base/macro.h"

/*
 * Removes name in dir_fd with everything below it, however deep, without following links. Returns 0
 * or -errno; ret_name is then the entry that could not be removed. count is incremented for every
 * removed entry.
 */
int remove_tree(int dir_fd, const char *name, uint64_t *count, char ret_name[256]) _must_check_;

#endif
