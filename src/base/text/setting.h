/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A setting of the configuration. One row has its name, type, range and default; its value is in a
 * struct of the owner. The daemon's own settings and the sections of engines are tables of such
 * rows.
 */
#ifndef CAY_BASE_SETTING_H
#define CAY_BASE_SETTING_H

#include <stddef.h>

#include "base/macro.h"
#include "base/str.h"

#define SETTING_TEXT_MAX 1024 /* bytes of a text in the struct, including its NUL */

enum setting_type {
	SETTING_TEXT, /* char[SETTING_TEXT_MAX] */
	SETTING_BOOL, /* bool */
	SETTING_INT,  /* int64_t */
};

struct setting {
	const char *name; /* in the file; CAY_NAME in the environment, --na-me as a flag */
	enum setting_type type;
	size_t offset; /* offset of the value in the owner's struct */
	const char *fallback;
	int64_t min, max; /* range of a SETTING_INT */
	const char *doc;
};

#define SETTING_ROW_TEXT(type, member, fallback, doc)                                     \
	{                                                                                 \
#member, SETTING_TEXT, offsetof(struct type, member), fallback, 0, 0, doc \
	}
#define SETTING_ROW_BOOL(type, member, fallback, doc)                                     \
	{                                                                                 \
#member, SETTING_BOOL, offsetof(struct type, member), fallback, 0, 0, doc \
	}
#define SETTING_ROW_INT(type, member, fallback, min, max, doc)                               \
	{                                                                                    \
#member, SETTING_INT, offsetof(struct type, member), fallback, min, max, doc \
	}

/*
 * Writes the value into the struct at base. Returns 0, -EINVAL (wrong type), -ERANGE (out of range)
 * or -ENAMETOOLONG.
 */
int setting_write(const struct setting *setting, void *base, struct str value) _must_check_;
/* Formats the value as setting_write() accepts it, truncated to size. */
void setting_read(const struct setting *setting, const void *base, char *dst, size_t size);

#endif
