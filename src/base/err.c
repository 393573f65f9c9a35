/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	bool retryable;
} table[] = {
#define X(sym, name, retry) [ERR_##sym] = { name, retry },
	ERR_TABLE(X)
#undef X
};

static_assert(ARRAY_LEN(table) == ERR_CODE_COUNT, "every code has a row");

const char *err_name(enum err_code code)
{
	return table[code].name;
}

bool err_retryable(enum err_code code)
{
	return table[code].retryable;
}

enum err_code err_from_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return (enum err_code)i;
	return ERR_INTERNAL;
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -1;
	err->code = code;
	err->errno_value = 0;
	err->field = NULL;
	va_start(ap, fmt);
	(void)vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return -1;
}

int err_set_errno(struct err *err, enum err_code code, int error, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!err)
		return -1;
	if (error < 0)
		error = -error;
	err->code = code;
	err->errno_value = error;
	err->field = NULL;
	va_start(ap, fmt);
	(void)vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	n = strlen(err->message);
	if (error)
		(void)snprintf(err->message + n, sizeof(err->message) - n, ": %s", strerror(error));
	return -1;
}

int err_set_limit(struct err *err, const char *field, int64_t limit, int64_t used)
{
	if (err) {
		err->field = field;
		err->limit = limit;
		err->used = used;
	}
	return -1;
}
