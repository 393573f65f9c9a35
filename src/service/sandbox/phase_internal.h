/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: the phase of a sandbox, and which phase may follow which.
 *
 * The phase is the only record of where a sandbox is in its life. It is finer than the state that
 * callers see; state, kind of pause and transition in progress are columns of its table (phase.c).
 * Only sandbox_set_phase() changes it, and rejects changes that the table does not allow. The store
 * has the state, the kind of pause and the open intent, from which phase_loaded() derives the
 * phase.
 *
 *   made       NEW > (PREPARING >) CREATING > CONNECTING > (INITIALIZING >) RUNNING
 *   pooled     NEW > CREATING > CONNECTING > WARMING > POOLED > HANDOUT > RUNNING
 *                                                      POOLED > HANDOUT_SETUP > INITIALIZING
 *   paused     RUNNING > PAUSING > FROZEN > THAWING > RUNNING
 *   hibernated RUNNING > HIBERNATING > RELEASING > HIBERNATED > RESUMING > RUNNING
 *   copied     RUNNING > SNAPSHOTTING > RUNNING, RUNNING > FORKING > RUNNING; likewise FROZEN
 *   restored   RUNNING | FROZEN | HIBERNATED > RESTORE_CLEARING > RESTORING > RUNNING
 *   died       any living one > DYING > DEAD > ENDED
 *   destroyed  any > ENDING > ENDED
 *
 * A transition that fails returns to the phase in which it began (phase_rest()).
 */
#ifndef CAY_SERVICE_SANDBOX_PHASE_INTERNAL_H
#define CAY_SERVICE_SANDBOX_PHASE_INTERNAL_H

#include "service/sandbox/sandbox.h"

/* A change that a caller requested and that takes a while. Its intent is open on disk meanwhile,
 * and no other transition can begin. */
enum sandbox_transition {
	TRANSITION_NONE,
	TRANSITION_PAUSE,
	TRANSITION_RESUME,
	TRANSITION_HIBERNATE,
	TRANSITION_SNAPSHOT,
	TRANSITION_RESTORE,
	TRANSITION_FORK,
	TRANSITION_COUNT,
};

enum sandbox_phase {
	PHASE_NEW,	     /* an object without a row, or just loaded */
	PHASE_PREPARING,     /* the engine looks for the image, or prepares it */
	PHASE_CREATING,	     /* the engine creates it */
	PHASE_CONNECTING,    /* its agent has not sent HELLO, or its fork hook runs */
	PHASE_WARMING,	     /* a pool member runs its first command */
	PHASE_POOLED,	     /* a pool member is up; it belongs to no key */
	PHASE_HANDOUT,	     /* a former member gets the requested size and network */
	PHASE_HANDOUT_SETUP, /* the same, and initializers follow */
	PHASE_INITIALIZING,  /* its initializers run */
	PHASE_HALF_MADE,     /* found after a start: the daemon ended during its creation */
	PHASE_RUNNING,
	PHASE_PAUSING,
	PHASE_HIBERNATING, /* being frozen and copied; the running part is authoritative */
	PHASE_SNAPSHOTTING,
	PHASE_FORKING,
	PHASE_FROZEN,
	PHASE_THAWING,
	PHASE_FROZEN_HIBERNATING,
	PHASE_FROZEN_SNAPSHOTTING,
	PHASE_FROZEN_FORKING,
	PHASE_RELEASING, /* its snapshot is authoritative; the engine removes the running part */
	PHASE_HIBERNATED,
	PHASE_HIBERNATED_RESIDUE, /* the engine may still hold a running part, and is asked again */
	PHASE_RESUME_CLEARING,	  /* that part is removed first */
	PHASE_RESUMING,		  /* being created from its snapshot, until the agent's HELLO */
	PHASE_RESUME_UNDOING,	  /* that failed: the engine's part is removed */
	PHASE_RESTORE_CLEARING,	  /* these three: the same for a restore */
	PHASE_RESTORING,
	PHASE_RESTORE_UNDOING,
	PHASE_RETAINED, /* its initializer failed, but it runs and can be used */
	PHASE_DYING,	/* it died or its creation failed; the engine still has to remove it */
	PHASE_DEAD,	/* the engine has removed it; it can be inspected */
	PHASE_ENDING,	/* destroyed; the engine still has to remove it */
	PHASE_ENDED,	/* destroyed, and the engine has removed it */
	PHASE_COUNT,
};

const char *phase_name(enum sandbox_phase phase);
enum sandbox_state phase_state(enum sandbox_phase phase);
enum sandbox_transition phase_transition(enum sandbox_phase phase);
/* The phase after its transition was reverted; the phase itself if it is not a transition. */
enum sandbox_phase phase_rest(enum sandbox_phase phase);
bool phase_allowed(enum sandbox_phase from, enum sandbox_phase to);
/* The phase that a transition from this one begins with; PHASE_COUNT: there is none. */
enum sandbox_phase phase_begin(enum sandbox_phase from, enum sandbox_transition transition);
/* Whether its processes can be reached: state running, or retained. */
bool phase_up(enum sandbox_phase phase);

/* The stored part of a phase. intent is an enum store_intent, 0 for none. */
struct phase_row {
	enum sandbox_state state;
	enum pause_kind pause_kind;
	unsigned intent;
	bool pooled;
};
enum sandbox_phase phase_loaded(const struct phase_row *row);

/* ---- of a sandbox ---- */

/* Changes the phase. A change that the table does not allow is logged and ignored. If the public
 * state changes, the reason is stored and the event is published, except while loading (from
 * PHASE_NEW). */
void sandbox_set_phase(struct sandbox *sandbox, enum sandbox_phase phase,
		       enum sandbox_reason reason);
/* Reverts an end that could not be recorded. This is the only way back from an end. */
void sandbox_revert_phase(struct sandbox *sandbox, enum sandbox_phase phase,
			  enum sandbox_reason reason);
enum pause_kind sandbox_pause_kind(const struct sandbox *sandbox); /* of a paused one */
enum sandbox_transition sandbox_transition(const struct sandbox *sandbox);
bool sandbox_lives(const struct sandbox *sandbox); /* running or paused */
bool sandbox_is_hibernated(const struct sandbox *sandbox);

#endif
