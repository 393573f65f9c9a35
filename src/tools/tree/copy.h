/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TOOLS_TREE_COPY_H
#define CAY_TOOLS_TREE_COPY_H

#include "tools/op.h"

/*
 * Copies from (a file, link or tree, not followed) to the leaf to, atomically. path and to_path are
 * for error messages. Fails op.
 */
int copy_leaf(struct op *op, const struct leaf *from, struct str path, const struct leaf *to,
	      struct str to_path, bool overwrite) _must_check_;

#endif
