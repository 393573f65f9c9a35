/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/turns.h"

#include <stddef.h>

static struct turn_lane *lane_of(struct turns *turns, const struct turn *turn)
{
	return &turns->lanes[turn->from % TURN_LANES];
}

static void list(struct turns *turns, struct turn_lane *lane)
{
	lane->listed = true;
	lane->next = NULL;
	if (turns->last)
		turns->last->next = lane;
	else
		turns->first = lane;
	turns->last = lane;
}

void turns_put(struct turns *turns, struct turn *turn)
{
	struct turn_lane *lane = lane_of(turns, turn);

	if (turn->queued)
		return;
	turn->queued = true;
	turn->prev = lane->last;
	turn->next = NULL;
	if (lane->last)
		lane->last->next = turn;
	else
		lane->first = turn;
	lane->last = turn;
	turns->waiting++;
	if (!lane->listed)
		list(turns, lane);
}

void turns_remove(struct turns *turns, struct turn *turn)
{
	struct turn_lane *lane = lane_of(turns, turn);

	if (!turn->queued)
		return;
	if (turn->prev)
		turn->prev->next = turn->next;
	else
		lane->first = turn->next;
	if (turn->next)
		turn->next->prev = turn->prev;
	else
		lane->last = turn->prev;
	turn->queued = false;
	turn->prev = turn->next = NULL;
	turns->waiting--;
}

/* A lane whose last member was removed stays listed until it is met here. */
struct turn *turns_take(struct turns *turns)
{
	while (turns->first) {
		struct turn_lane *lane = turns->first;
		struct turn *turn = lane->first;

		turns->first = lane->next;
		if (!turns->first)
			turns->last = NULL;
		lane->listed = false;
		if (!turn)
			continue;
		turns_remove(turns, turn);
		if (lane->first)
			list(turns, lane);
		return turn;
	}
	return NULL;
}
