/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slot.h"

#include <errno.h>

void slot_init(struct slot_table *table, uint32_t limit)
{
	*table = (struct slot_table){ .limit = limit };
}

void slot_done(struct slot_table *table)
{
	free(table->entries);
	*table = (struct slot_table){ .limit = table->limit };
}

static int grow(struct slot_table *table)
{
	uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
	struct slot_entry *entries;

	if (capacity > table->limit)
		capacity = table->limit;
	if (capacity <= table->capacity)
		return -ENOBUFS;
	entries = realloc(table->entries, capacity * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	table->capacity = capacity;
	return 0;
}

int slot_put(struct slot_table *table, void *object, slot_handle *ret)
{
	uint32_t index;

	if (table->free_head) {
		index = table->free_head - 1;
		table->free_head = table->entries[index].next_free;
	} else {
		if (table->count == table->capacity) {
			int r = grow(table);

			if (r < 0)
				return r;
		}
		index = table->count++;
		table->entries[index].generation = 1;
	}
	table->entries[index].object = object;
	table->live++;
	*ret = (uint64_t)table->entries[index].generation << 32 | (index + 1);
	return 0;
}

static struct slot_entry *find(const struct slot_table *table, slot_handle handle)
{
	uint32_t index = (uint32_t)handle - 1;

	if ((uint32_t)handle == 0 || index >= table->count)
		return NULL;
	if (!table->entries[index].object || table->entries[index].generation != handle >> 32)
		return NULL;
	return &table->entries[index];
}

void *slot_get(const struct slot_table *table, slot_handle handle)
{
	struct slot_entry *entry = find(table, handle);

	return entry ? entry->object : NULL;
}

void *slot_take(struct slot_table *table, slot_handle handle)
{
	struct slot_entry *entry = find(table, handle);
	void *object;

	if (!entry)
		return NULL;
	object = entry->object;
	entry->object = NULL;
	entry->generation++;
	entry->next_free = table->free_head;
	table->free_head = (uint32_t)handle;
	table->live--;
	return object;
}

void *slot_next(const struct slot_table *table, uint32_t *cursor)
{
	while (*cursor < table->count) {
		void *object = table->entries[(*cursor)++].object;

		if (object)
			return object;
	}
	return NULL;
}
