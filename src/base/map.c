/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <errno.h>

#include "base/rand.h"

void map_init(struct map *map)
{
	*map = (struct map){ .capacity = 0 };
	rand_bytes(&map->seed, sizeof(map->seed));
}

void map_done(struct map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		free(map->entries[i].key);
	free(map->entries);
	map->entries = NULL;
	map->capacity = map->count = 0;
}

/*
 * A keyed multiply-mix hash. Resistance to collision attacks comes from the secret seed, not from
 * the function.
 */
static uint32_t hash_key(const struct map *map, struct str key)
{
	uint64_t h = map->seed ^ key.n * 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < key.n; i++) {
		h ^= (unsigned char)key.p[i];
		h *= 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	h ^= map->seed >> 7;
	h *= 0xc4ceb9fe1a85ec53u;
	return (uint32_t)(h >> 32);
}

static size_t find(const struct map *map, struct str key, uint32_t hash)
{
	size_t i = hash & (map->capacity - 1);

	while (map->entries[i].key) {
		const struct map_entry *e = &map->entries[i];

		if (e->hash == hash && str_eq((struct str){ e->key, e->key_len }, key))
			break;
		i = (i + 1) & (map->capacity - 1);
	}
	return i;
}

void *map_get(const struct map *map, struct str key)
{
	if (!map->count)
		return NULL;
	return map->entries[find(map, key, hash_key(map, key))].value;
}

static int grow(struct map *map)
{
	size_t capacity = map->capacity ? map->capacity * 2 : 16;
	struct map next = { .capacity = capacity, .count = map->count, .seed = map->seed };

	next.entries = calloc(capacity, sizeof(*next.entries));
	if (!next.entries)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		struct map_entry *e = &map->entries[i];

		if (e->key)
			next.entries[find(&next, (struct str){ e->key, e->key_len }, e->hash)] = *e;
	}
	free(map->entries);
	*map = next;
	return 0;
}

int map_put(struct map *map, struct str key, void *value)
{
	uint32_t hash = hash_key(map, key);
	struct map_entry *e;
	char *copy;

	if (map->count * 4 >= map->capacity * 3) {
		int r = grow(map);

		if (r < 0)
			return r;
	}
	e = &map->entries[find(map, key, hash)];
	if (e->key)
		return -EEXIST;
	copy = malloc(key.n + 1);
	if (!copy)
		return -ENOMEM;
	if (key.n)
		memcpy(copy, key.p, key.n);
	copy[key.n] = '\0';
	*e = (struct map_entry){ copy, (uint32_t)key.n, hash, value };
	map->count++;
	return 0;
}

void *map_take(struct map *map, struct str key)
{
	size_t hole, i;
	void *value;

	if (!map->count)
		return NULL;
	hole = find(map, key, hash_key(map, key));
	if (!map->entries[hole].key)
		return NULL;
	value = map->entries[hole].value;
	free(map->entries[hole].key);
	map->count--;
	/* Close the gap, so that a probe sequence never ends early at a hole. */
	for (i = (hole + 1) & (map->capacity - 1); map->entries[i].key;
	     i = (i + 1) & (map->capacity - 1)) {
		size_t home = map->entries[i].hash & (map->capacity - 1);

		if (((i - home) & (map->capacity - 1)) >= ((i - hole) & (map->capacity - 1))) {
			map->entries[hole] = map->entries[i];
			hole = i;
		}
	}
	map->entries[hole] = (struct map_entry){ .key = NULL };
	return value;
}

void *map_next(const struct map *map, size_t *cursor)
{
	while (*cursor < map->capacity) {
		const struct map_entry *e = &map->entries[(*cursor)++];

		if (e->key)
			return e->value;
	}
	return NULL;
}
