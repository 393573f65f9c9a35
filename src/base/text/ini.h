/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of the settings file: one `name = value` per line; see docs/reference/config.md. */
#ifndef CAY_BASE_TEXT_INI_H
#define CAY_BASE_TEXT_INI_H

#include "base/str.h"

#define INI_FILE "/etc/cay/cay.conf" /* default path */

/*
 * Returns 1 with *ret_name and *ret_value pointing into the line, 0 for an empty line or a comment,
 * -EINVAL otherwise.
 */
int ini_line(struct str line, struct str *ret_name, struct str *ret_value) _must_check_;
/* The last value of a name in a file; -ENOENT if there is no such name or no file. */
int ini_find(const char *path, const char *name, char *dst, size_t size) _must_check_;

#endif
