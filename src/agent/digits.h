/* SPDX-License-Identifier: Apache-2.0 */
/* Formats numbers in names without printf, which would be a quarter of the program. */
#ifndef CAY_AGENT_DIGITS_H
#define CAY_AGENT_DIGITS_H

#include "base/str.h"

#define DIGITS_MAX 20

/* Writes the number and a NUL to dst (DIGITS_MAX + 1 bytes); returns the position of the NUL. */
static inline char *digits_put(char *dst, uint64_t number)
{
	char reversed[DIGITS_MAX];
	size_t n = 0;

	do
		reversed[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n)
		*dst++ = reversed[--n];
	*dst = '\0';
	return dst;
}

/* Writes a constant and a NUL to dst; returns the position of the NUL. */
static inline char *digits_text(char *dst, const char *text)
{
	size_t n = strlen(text);

	memcpy(dst, text, n + 1);
	return dst + n;
}

#endif
