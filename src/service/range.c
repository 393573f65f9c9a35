/* SPDX-License-Identifier: Apache-2.0 */
#include "service/range_internal.h"

int range_check(const char *name, int64_t value, int64_t min, int64_t max, struct err *err)
{
	if (value >= min && value <= max)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "%s must be an integer from %lld to %lld", name,
		       (long long)min, (long long)max);
}

int range_check_text(const char *name, struct str text, size_t min, size_t max, struct err *err)
{
	if (!text.p || (text.n >= min && text.n <= max))
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "%s must be a string of %zu to %zu bytes", name,
		       min, max);
}

int range_check_name(const char *name, struct str text, size_t max, struct err *err)
{
	if (!text.p || text.n == 0 || str_is_name(text, max))
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "%s must be 1-%zu characters of [a-z0-9._-], the first a letter or digit",
		       name, max);
}
