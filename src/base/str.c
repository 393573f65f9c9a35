/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <errno.h>

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_eq_nocase(struct str a, const char *s)
{
	size_t n = strlen(s);

	if (a.n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (lower(a.p[i]) != lower(s[i]))
			return false;
	return true;
}

bool str_starts(struct str a, const char *prefix)
{
	size_t n = strlen(prefix);

	return a.n >= n && memcmp(a.p, prefix, n) == 0;
}

struct str str_trim(struct str a, const char *chars)
{
	while (a.n && strchr(chars, a.p[0]) && a.p[0]) {
		a.p++;
		a.n--;
	}
	while (a.n && a.p[a.n - 1] && strchr(chars, a.p[a.n - 1]))
		a.n--;
	return a;
}

bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_rest)
{
	const char *at = s.n ? memchr(s.p, sep, s.n) : NULL;

	if (!at)
		return false;
	*ret_head = (struct str){ s.p, (size_t)(at - s.p) };
	*ret_rest = (struct str){ at + 1, s.n - (size_t)(at - s.p) - 1 };
	return true;
}

int str_to_u64(struct str s, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (s.n == 0 || (s.n > 1 && s.p[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < s.n; i++) {
		unsigned digit = (unsigned char)s.p[i] - '0';

		if (digit > 9)
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	if (value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int str_copy(char *dst, size_t size, struct str s)
{
	if (s.n >= size)
		return -ENAMETOOLONG;
	if (s.n)
		memcpy(dst, s.p, s.n);
	dst[s.n] = '\0';
	return 0;
}

/* Length of the UTF-8 sequence at p, or 0 when it is not one. */
static size_t utf8_sequence(const unsigned char *p, size_t n)
{
	uint32_t cp;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2, cp = p[0] & 0x1f;
	else if ((p[0] & 0xf0) == 0xe0)
		len = 3, cp = p[0] & 0x0f;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4, cp = p[0] & 0x07;
	else
		return 0;
	if (n < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if (len == 3 && (cp < 0x800 || (cp >= 0xd800 && cp <= 0xdfff)))
		return 0;
	if (len == 4 && (cp < 0x10000 || cp > 0x10ffff))
		return 0;
	return len;
}

bool str_is_utf8(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n;) {
		size_t len = utf8_sequence(p + i, n - i);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

void str_hex(char *dst, const void *src, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = src;

	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = digits[p[i] >> 4];
		dst[2 * i + 1] = digits[p[i] & 15];
	}
	dst[2 * n] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int str_unhex(void *dst, size_t n, struct str hex)
{
	unsigned char *out = dst;

	if (hex.n != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int hi = hex_digit(hex.p[2 * i]);
		int lo = hex_digit(hex.p[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -EINVAL;
		out[i] = (unsigned char)(hi << 4 | lo);
	}
	return 0;
}

bool str_is_name(struct str s, size_t max)
{
	if (s.n == 0 || s.n > max)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (!word && (i == 0 || (c != '.' && c != '_' && c != '-')))
			return false;
	}
	return true;
}
