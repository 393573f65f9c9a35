/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of long-lived objects, addressed by handles that contain a generation number. Callbacks
 * carry the handle. The handle of a removed object finds nothing, so a late callback never touches
 * freed memory. The caller owns the objects.
 */
#ifndef CAY_BASE_SLOT_H
#define CAY_BASE_SLOT_H

#include "base/macro.h"

typedef uint64_t slot_handle; /* 0 is never a valid handle */

struct slot_entry {
	void *object; /* NULL when free */
	uint32_t generation;
	uint32_t next_free;
};

struct slot_table {
	struct slot_entry *entries;
	uint32_t count;
	uint32_t capacity;
	uint32_t free_head; /* index + 1, 0 when none */
	uint32_t limit;
	uint32_t live;
};

void slot_init(struct slot_table *table, uint32_t limit);
void slot_done(struct slot_table *table); /* does not free the objects */
int slot_put(struct slot_table *table, void *object,
	     slot_handle *ret) _must_check_;			    /* -ENOBUFS at the limit */
void *slot_get(const struct slot_table *table, slot_handle handle); /* NULL if it was removed */
void *slot_take(struct slot_table *table, slot_handle handle);	    /* removes; NULL if absent */
/* Iterates over the objects; start with *cursor = 0. Returns NULL at the end. */
void *slot_next(const struct slot_table *table, uint32_t *cursor);

#endif
