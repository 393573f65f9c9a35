/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "engine/link_state.h"

#define CAPACITY_MIN 8

static struct link_node **bucket(const struct link_table *table, uint32_t id)
{
	return &table->buckets[id & (table->capacity - 1)];
}

static int grow(struct link_table *table)
{
	struct link_table larger = { .capacity = MAX(table->capacity * 2, CAPACITY_MIN),
				     .count = table->count };
	struct link_node *node, *next;

	larger.buckets = calloc(larger.capacity, sizeof(struct link_node *));
	if (!larger.buckets)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->capacity; i++) {
		for (node = table->buckets[i]; node; node = next) {
			next = node->next;
			node->next = *bucket(&larger, node->id);
			*bucket(&larger, node->id) = node;
		}
	}
	free(table->buckets);
	*table = larger;
	return 0;
}

int link_table_add(struct link_table *table, struct link_node *node)
{
	if (table->count == table->capacity && grow(table) < 0)
		return -ENOMEM;
	node->next = *bucket(table, node->id);
	*bucket(table, node->id) = node;
	table->count++;
	return 0;
}

struct link_node *link_table_find(const struct link_table *table, uint32_t id)
{
	struct link_node *node = table->count ? *bucket(table, id) : NULL;

	while (node && node->id != id)
		node = node->next;
	return node;
}

void link_table_remove(struct link_table *table, const struct link_node *node)
{
	struct link_node **at = bucket(table, node->id);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	if (--table->count == 0) { /* an idle link holds no memory */
		free(table->buckets);
		*table = (struct link_table){ 0 };
	}
}

struct link_node *link_table_any(const struct link_table *table, uint32_t *cursor)
{
	for (; *cursor < table->capacity; (*cursor)++)
		if (table->buckets[*cursor])
			return table->buckets[*cursor];
	return NULL;
}
