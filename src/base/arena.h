/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with one end: everything a request needs is allocated here and freed in one stroke. */
#ifndef CAY_BASE_ARENA_H
#define CAY_BASE_ARENA_H

#include <stdarg.h>

#include "base/macro.h"

struct arena_block;

/*
 * Owner: whoever called arena_init(). limit_bytes bounds the sum of all allocations; at the limit
 * arena_alloc() returns NULL (the caller answers payload_too_large or unavailable).
 */
struct arena {
	struct arena_block *head;
	size_t used_bytes;
	size_t limit_bytes;
};

void arena_init(struct arena *arena, size_t limit_bytes);
void arena_done(struct arena *arena);
/* Drops all content but keeps one block for reuse: keep-alive connections stay allocation-free. */
void arena_reset(struct arena *arena);

void *arena_alloc(struct arena *arena, size_t size) _must_check_; /* zeroed, 16-byte aligned */
char *arena_dup(struct arena *arena, const void *p,
		size_t n) _must_check_; /* NUL-terminated copy */
char *arena_strdup(struct arena *arena, const char *s) _must_check_;
char *arena_printf(struct arena *arena, const char *fmt, ...) _printf_(2, 3) _must_check_;

#endif
