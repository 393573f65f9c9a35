/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that must not be overwritten: the bytes that foreground readers (follows with HOLD) have
 * not taken and, for a while, those that disconnected readers need. Called by follow.c, stream.c
 * and process.c.
 */
#ifndef CAY_AGENT_OUTPUT_HOLD_H
#define CAY_AGENT_OUTPUT_HOLD_H

#include "agent/output/follow.h"

/* How long a disconnected reader is waited for; see --hold-grace-ms. */
#define HOLD_GRACE_MS AGENT_HOLD_GRACE_MS

bool hold_has(const struct follow *f); /* f is such a reader and not at its end */
bool hold_is_on(const struct process *p);
/*
 * The oldest byte of stream i that a foreground reader may need; the ring's end if there is none.
 */
uint64_t hold_from(const struct process *p, int i);
/* The first byte that f may request again after a lost connection. */
uint64_t hold_needed_from(const struct follow *f, int i);
/* A reader that needs these bytes is not connected, but may arrive within the grace period. */
void hold_expect(struct agent *agent, struct process *p, const uint64_t from[2]);
/* One of the expected readers has arrived. */
void hold_arrived(struct agent *agent, struct process *p);
void hold_on_over(struct agent *agent, struct process *p); /* TIMER_HOLD */

#endif
