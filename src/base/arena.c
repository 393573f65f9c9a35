/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_MIN 4096
#define ALIGN 16

struct arena_block {
	struct arena_block *next;
	size_t size; /* usable bytes after the header */
	size_t used;
	size_t pad_;
};

static_assert(sizeof(struct arena_block) % ALIGN == 0, "payload stays aligned");

void arena_init(struct arena *arena, size_t limit_bytes)
{
	arena->head = NULL;
	arena->used_bytes = 0;
	arena->limit_bytes = limit_bytes;
}

void arena_done(struct arena *arena)
{
	struct arena_block *block = arena->head;

	while (block) {
		struct arena_block *next = block->next;

		free(block);
		block = next;
	}
	arena->head = NULL;
	arena->used_bytes = 0;
}

void arena_reset(struct arena *arena)
{
	struct arena_block *keep = arena->head;

	if (!keep)
		return;
	/* The newest block may be huge: keep the oldest, which has the common size. */
	while (keep->next) {
		struct arena_block *next = keep->next;

		free(keep);
		keep = next;
	}
	keep->used = 0;
	arena->head = keep;
	arena->used_bytes = 0;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->head;
	size_t need;
	void *p;

	if (size > arena->limit_bytes)
		return NULL;
	need = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (arena->used_bytes + need > arena->limit_bytes)
		return NULL;
	if (!block || block->size - block->used < need) {
		size_t want = MAX(need, (size_t)BLOCK_MIN - sizeof(*block));

		block = malloc(sizeof(*block) + want);
		if (!block)
			return NULL;
		block->size = want;
		block->used = 0;
		block->next = arena->head;
		arena->head = block;
	}
	p = (char *)(block + 1) + block->used;
	block->used += need;
	arena->used_bytes += need;
	memset(p, 0, need);
	return p;
}

char *arena_dup(struct arena *arena, const void *src, size_t n)
{
	char *p = arena_alloc(arena, n + 1);

	if (p && n)
		memcpy(p, src, n);
	return p;
}

char *arena_strdup(struct arena *arena, const char *s)
{
	return arena_dup(arena, s, strlen(s));
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	p = arena_alloc(arena, (size_t)n + 1);
	if (!p)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return p;
}
