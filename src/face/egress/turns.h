/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who relays next: sandboxes take turns, and within a sandbox its connections do. A sandbox with a
 * thousand connections therefore gets as many turns as one with a single connection. There is a
 * fixed number of lanes; sandboxes whose links fall into one lane share its turns. The relays call
 * it, and own what is queued.
 */
#ifndef CAY_FACE_EGRESS_TURNS_H
#define CAY_FACE_EGRESS_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define TURN_LANES 1024

/* Embedded in what waits. */
struct turn {
	struct turn *prev, *next;
	uint32_t from; /* address of the link */
	bool queued;
};

struct turn_lane {
	struct turn *first, *last;
	struct turn_lane *next; /* of those that have something waiting */
	bool listed;
};

struct turns {
	struct turn_lane lanes[TURN_LANES];
	struct turn_lane *first, *last;
	uint32_t waiting;
};

/* turn->from is set. Nothing happens to one that is queued. */
void turns_put(struct turns *turns, struct turn *turn);
/* The next one, which is not queued any more; NULL: none. */
struct turn *turns_take(struct turns *turns);
void turns_remove(struct turns *turns, struct turn *turn); /* queued or not */

#endif
