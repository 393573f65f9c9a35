/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "cli/files/files.h"

#define BLOCK 512

static int number(const char *p, size_t n, uint64_t *ret)
{
	uint64_t value = 0;

	if ((unsigned char)p[0] & 0x80) { /* base 256, for sizes of 8 GiB and more */
		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)(i ? p[i] : p[i] & 0x7f);

			if (value >> 55)
				return -EPROTO;
			value = value << 8 | c;
		}
		*ret = value;
		return 0;
	}
	while (n > 0 && *p == ' ') {
		p++;
		n--;
	}
	for (; n > 0 && *p >= '0' && *p <= '7'; p++, n--)
		value = value << 3 | (uint64_t)(*p - '0');
	if (n > 0 && *p != '\0' && *p != ' ')
		return -EPROTO;
	*ret = value;
	return 0;
}

static bool is_zero(const char *block)
{
	for (size_t i = 0; i < BLOCK; i++)
		if (block[i] != '\0')
			return false;
	return true;
}

/*
 * Accepts files, links, directories, and records that extend them: no devices, no fifos, nothing
 * else.
 */
static int take_header(struct tar_filter *f)
{
	uint64_t size;
	char type = f->block[156];

	if (is_zero(f->block)) {
		f->ended = true;
		return 0;
	}
	if (strchr("0125xgLK", type) == NULL && type != '\0')
		return -EPROTO;
	if (number(f->block + 124, 12, &size) < 0 || size > (uint64_t)INT64_MAX - BLOCK)
		return -EPROTO;
	if (type == '1' || type == '2' || type == '5')
		size = 0;
	f->skip = (size + BLOCK - 1) / BLOCK * BLOCK;
	return 0;
}

int tar_filter_feed(struct tar_filter *f, const char *p, size_t n)
{
	while (n > 0 && !f->ended) {
		size_t take;

		if (f->skip > 0) {
			take = (size_t)MIN((uint64_t)n, f->skip);
			f->skip -= take;
		} else {
			take = MIN(n, BLOCK - f->have);
			memcpy(f->block + f->have, p, take);
			f->have += take;
			if (f->have == BLOCK) {
				f->have = 0;
				if (take_header(f) < 0)
					return -EPROTO;
			}
		}
		p += take;
		n -= take;
	}
	return 0;
}
