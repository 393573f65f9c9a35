/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/sandbox only: the state of the theme. */
#ifndef CAY_SERVICE_SANDBOX_SANDBOX_PRIVATE_H
#define CAY_SERVICE_SANDBOX_SANDBOX_PRIVATE_H

#include "service/sandbox/sandbox_internal.h"

#define TOMBSTONES \
	256 /* recently ended sandboxes, for the message of a 404; the oldest is dropped */
#define DELETED_MAX 128 /* rows waiting for deletion; at the limit they are deleted at once */

/* Owner: the service. */
struct sandboxes {
	struct slot_table table;
	struct map by_id;
	struct map by_name;		 /* "owner/name" */
	struct sandbox *oldest, *newest; /* visible ones by seq */
	int64_t last_row;
	struct op_list batches;
	uint32_t wait_count; /* at most READY_WAITS_MAX */
	struct tombstone tombstones[TOMBSTONES];
	uint32_t tombstone_next;
	uint32_t history_count;

	char boot_id[TIME_BOOT_ID_SIZE];
	int64_t wall_distance_ms; /* from the boot clock to the wall clock, see clock.c */
	int64_t alive_ms;	  /* when the engines last confirmed their sandboxes */
	bool rebooted; /* since the last start of the daemon; until every engine was queried */
	bool boot_saved;
	uint32_t wakes; /* sandboxes to resume */

	struct loop_timer *deadline_timer;
	int64_t deadline_ms; /* the next deadline, on the boot clock; 0: none */

	struct loop_timer *delete_timer; /* delete_rows.c */
	bool delete_armed;
	uint32_t deleted_count;
	int64_t deleted[DELETED_MAX];

	void (*drained)(void *arg, const struct err *err);
	void *drained_arg;
	int64_t drain_limit_ms;
};

#endif
