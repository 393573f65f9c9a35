/* SPDX-License-Identifier: Apache-2.0 */
/* Views of bytes that another object owns, and strict parsers of numbers and names. */
#ifndef CAY_BASE_STR_H
#define CAY_BASE_STR_H

#include <string.h>

#include "base/macro.h"

struct str {
	const char *p;
	size_t n;
};

#define STR_LIT(s) ((struct str){ (s), sizeof(s) - 1 })

static inline struct str str_of(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(struct str a, const char *s)
{
	return str_eq(a, str_of(s));
}

bool str_eq_nocase(struct str a, const char *s); /* ASCII only */
bool str_starts(struct str a, const char *prefix);
struct str str_trim(struct str a, const char *chars);
/* Splits at the first sep: *ret_head is the part before it, *rest the part after it. */
bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_rest);

/*
 * Decimal only: no sign, no space, no leading zero (except "0"), no overflow. 0, -EINVAL or
 * -ERANGE.
 */
int str_to_u64(struct str s, uint64_t max, uint64_t *ret) _must_check_;

/* Copies into a fixed buffer and adds a NUL; -ENAMETOOLONG if it does not fit. */
int str_copy(char *dst, size_t size, struct str s) _must_check_;

bool str_is_utf8(const void *p, size_t n);	    /* strict: no overlong forms, no surrogates */
void str_hex(char *dst, const void *src, size_t n); /* dst holds 2n+1 */
int str_unhex(void *dst, size_t n, struct str hex) _must_check_; /* exactly 2n lower-case digits */
/* ^[a-z0-9][a-z0-9._-]{0,max-1}$ : names of templates, sandboxes, users, engines. */
bool str_is_name(struct str s, size_t max);

#endif
