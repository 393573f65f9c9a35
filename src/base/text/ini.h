/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of the settings file: `name = value`, one a line; see docs/reference/config.md. */
#ifndef CAY_BASE_TEXT_INI_H
#define CAY_BASE_TEXT_INI_H

#include "base/str.h"

#define INI_FILE "/etc/cay/cay.conf" /* unless another is named */

/* 1: *ret_name and *ret_value point into the line; 0: nothing stands there; -EINVAL: neither. */
int ini_line(struct str line, struct str *ret_name, struct str *ret_value) _must_check_;
/* The last value of a name in a file; -ENOENT when there is none or no file. */
int ini_find(const char *path, const char *name, char *dst, size_t size) _must_check_;

#endif
