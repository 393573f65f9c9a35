/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: memory that is allocated in pieces and freed as a whole. Every HTTP request has one;
 * what is allocated in it lives until the request ends.
 */
#ifndef CAY_BASE_ARENA_H
#define CAY_BASE_ARENA_H

#include <stdarg.h>

#include "base/macro.h"

struct arena_block;

/*
 * Owner: the caller of arena_init(). limit_bytes bounds the sum of all allocations. At the limit
 * arena_alloc() returns NULL, and the caller replies payload_too_large or unavailable.
 */
struct arena {
	struct arena_block *head;
	size_t used_bytes;
	size_t limit_bytes;
};

void arena_init(struct arena *arena, size_t limit_bytes);
void arena_done(struct arena *arena);
/*
 * Frees all content but keeps one block, so that a keep-alive connection allocates nothing per
 * request.
 */
void arena_reset(struct arena *arena);

void *arena_alloc(struct arena *arena, size_t size) _must_check_; /* zeroed, 16-byte aligned */
char *arena_dup(struct arena *arena, const void *p,
		size_t n) _must_check_; /* NUL-terminated copy */
char *arena_strdup(struct arena *arena, const char *s) _must_check_;
char *arena_printf(struct arena *arena, const char *fmt, ...) _printf_(2, 3) _must_check_;

#endif
