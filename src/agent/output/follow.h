/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A follow is a reader of one process: it gets OUTPUT from its cursors on, as far as its credit
 * allows, and at the end one FOLLOWED. Follows belong to the connection and end with it.
 */
#ifndef CAY_AGENT_OUTPUT_FOLLOW_H
#define CAY_AGENT_OUTPUT_FOLLOW_H

#include "agent/process/process.h"

struct follow {
	uint32_t id;
	uint32_t credit;
	uint32_t window; /* the largest credit so far; the difference to credit was not taken yet */
	uint32_t run;
	uint8_t flags;
	uint8_t turn;	 /* the stream that is served next */
	bool queued;	 /* in the ready list */
	bool over;	 /* ends at end[] with status, whatever the process does */
	bool lagging[2]; /* fell behind: not waited for until it has caught up */
	uint64_t cursor[2];
	uint64_t end[2]; /* limits of what is sent */
	struct agent_status status;
	struct process *process;
	struct follow *next, *prev; /* of the same process */
	struct follow *hash_next;
	struct follow *ready_next, *ready_prev;
};

/* FOLLOW of the daemon; replies FOLLOWED if it is refused. */
void follow_on_request(struct agent *agent, const struct agent_follow *request);
/* Starts at the first byte of a new process, or at cursor for a window. */
struct follow *follow_add(struct agent *agent, struct process *p, uint32_t id, uint32_t credit,
			  uint8_t flags, uint64_t out_cursor, uint64_t err_cursor);
bool follow_reads(const struct follow *f, int i); /* it reads stream i */
bool follow_exists(const struct agent *agent, uint32_t id);
void follow_on_credit(struct agent *agent, uint32_t id, uint32_t bytes);
void follow_on_unfollow(struct agent *agent, uint32_t id);
/* Ends at the cursor of stream OUT with this status: the run of a window has ended. */
void follow_end_at(struct agent *agent, struct follow *f, uint64_t out_cursor,
		   const struct agent_status *status);
/* Ends all follows with RUN of this run. */
void follow_end_run(struct agent *agent, struct process *p, uint32_t run, uint64_t out_cursor,
		    const struct agent_status *status);
/* p has new bytes or has ended. */
void follow_wake_all(struct agent *agent, struct process *p);
/* p is removed: sends FOLLOWED with NO_PROCESS to all of them. */
void follow_refuse_all(struct agent *agent, struct process *p);
/* The connection was lost. Bytes that follows with HOLD had not taken are kept for a while. */
void follow_lose_all(struct agent *agent);
/*
 * The cursor of the fastest live follow without HOLD that keeps up; the ring's end if there is
 * none.
 */
uint64_t follow_wanted_from(const struct process *p, int i);
/*
 * The pause has ended: a follow that still has to read more than half the ring counts as lagging.
 */
void follow_mark_lagging(struct process *p, int i);
/* Sends one frame of the next follow. false: none is ready, or the socket is full. */
bool follow_pump(struct agent *agent);

#endif
