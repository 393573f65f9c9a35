/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash map from byte strings to pointers. Keys are hashed with a per-process secret, so a client
 * cannot construct collisions. The map owns copies of the keys; the caller owns the values.
 */
#ifndef CAY_BASE_MAP_H
#define CAY_BASE_MAP_H

#include "base/macro.h"
#include "base/str.h"

struct map_entry {
	char *key; /* owned; NULL if the entry is empty */
	uint32_t key_len;
	uint32_t hash;
	void *value;
};

struct map {
	struct map_entry *entries;
	size_t capacity; /* power of two */
	size_t count;
	uint64_t seed;
};

void map_init(struct map *map);
void map_done(struct map *map); /* does not free the values */
void *map_get(const struct map *map, struct str key);
int map_put(struct map *map, struct str key, void *value) _must_check_; /* -EEXIST when present */
void *map_take(struct map *map, struct str key); /* removes; NULL when absent */
/*
 * Iterates in no particular order; start with *cursor = 0. The map must not change during the
 * iteration.
 */
void *map_next(const struct map *map, size_t *cursor);

#endif
