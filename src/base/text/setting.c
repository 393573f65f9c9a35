/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/setting.h"

#include <errno.h>
#include <stdio.h>

static int write_bool(bool *at, struct str value)
{
	static const char *const yes[] = { "true", "yes", "on", "1" };
	static const char *const no[] = { "false", "no", "off", "0" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (str_is(value, yes[i]) || str_is(value, no[i])) {
			*at = str_is(value, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

static int write_int(const struct setting *setting, int64_t *at, struct str value)
{
	uint64_t number = 0;

	if (str_to_u64(value, (uint64_t)setting->max, &number) < 0 ||
	    (int64_t)number < setting->min)
		return -ERANGE;
	*at = (int64_t)number;
	return 0;
}

int setting_write(const struct setting *setting, void *base, struct str value)
{
	void *at = (char *)base + setting->offset;

	switch (setting->type) {
	case SETTING_TEXT:
		return str_copy(at, SETTING_TEXT_MAX, value) < 0 ? -ENAMETOOLONG : 0;
	case SETTING_BOOL:
		return write_bool(at, value);
	case SETTING_INT:
		return write_int(setting, at, value);
	}
	return -EINVAL;
}

void setting_read(const struct setting *setting, const void *base, char *dst, size_t size)
{
	const void *at = (const char *)base + setting->offset;

	switch (setting->type) {
	case SETTING_TEXT:
		(void)snprintf(dst, size, "%s", (const char *)at);
		break;
	case SETTING_BOOL:
		(void)snprintf(dst, size, "%s", *(const bool *)at ? "true" : "false");
		break;
	case SETTING_INT:
		(void)snprintf(dst, size, "%lld", (long long)*(const int64_t *)at);
		break;
	}
}
