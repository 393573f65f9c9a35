/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/page.h"

#include <errno.h>
#include <stdio.h>

int page_limit_parse(struct str text, int64_t *ret)
{
	uint64_t number;

	if (text.n == 0)
		return 0;
	if (str_to_u64(text, PAGE_LIMIT_MAX, &number) < 0 || number == 0)
		return -ERANGE;
	*ret = (int64_t)number;
	return 0;
}

int page_cursor_parse(struct str text, int64_t *ret)
{
	uint64_t number;

	if (text.n == 0)
		return 0;
	if (str_to_u64(text, INT64_MAX, &number) < 0)
		return -ERANGE;
	*ret = (int64_t)number;
	return 0;
}

const char *page_number(char dst[PAGE_NUMBER_SIZE], int64_t next)
{
	(void)snprintf(dst, PAGE_NUMBER_SIZE, "%lld", (long long)next);
	return dst;
}
