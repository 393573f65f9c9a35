/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: the phase of a sandbox, and which phase may follow which.
 *
 * The phase is the only record of where a sandbox is in its life. It is finer than the state that
 * callers see; state, kind of pause and transition under way are columns of its table (phase.c).
 * It is changed by sandbox_set_phase() alone, which refuses what the table does not allow. On disk
 * are the state, the kind of pause and the open intent; phase_loaded() makes a phase of them.
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
 * A transition that fails leads back to the phase that it began in (phase_rest()).
 */
#ifndef CAY_SERVICE_SANDBOX_PHASE_INTERNAL_H
#define CAY_SERVICE_SANDBOX_PHASE_INTERNAL_H

#include "service/sandbox/sandbox.h"

/* A change that a caller asked for and that takes a while. While it is under way its intent is open
 * on disk, and no other one begins. */
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
	PHASE_PREPARING,     /* the engine looks for the image, or gets it */
	PHASE_CREATING,	     /* the engine makes it */
	PHASE_CONNECTING,    /* its agent has not said hello, or its fork hook runs */
	PHASE_WARMING,	     /* a pool member runs its first command */
	PHASE_POOLED,	     /* a pool member is up; it belongs to no key */
	PHASE_HANDOUT,	     /* a former member gets the size and the link that were asked for */
	PHASE_HANDOUT_SETUP, /* the same, and initializers follow */
	PHASE_INITIALIZING,  /* its initializers run */
	PHASE_HALF_MADE,     /* found after a start: the daemon ended while it was being made */
	PHASE_RUNNING,
	PHASE_PAUSING,
	PHASE_HIBERNATING, /* frozen and copied; its running part is still what counts */
	PHASE_SNAPSHOTTING,
	PHASE_FORKING,
	PHASE_FROZEN,
	PHASE_THAWING,
	PHASE_FROZEN_HIBERNATING,
	PHASE_FROZEN_SNAPSHOTTING,
	PHASE_FROZEN_FORKING,
	PHASE_RELEASING, /* its snapshot is what counts; the engine removes its running part */
	PHASE_HIBERNATED,
	PHASE_HIBERNATED_RESIDUE, /* the engine may hold a running part; it is asked again */
	PHASE_RESUME_CLEARING,	  /* such a part is removed first */
	PHASE_RESUMING,		  /* made again from its snapshot, up to the agent's hello */
	PHASE_RESUME_UNDOING,	  /* that failed: what was made of it is removed */
	PHASE_RESTORE_CLEARING,	  /* these three: the same from another snapshot */
	PHASE_RESTORING,
	PHASE_RESTORE_UNDOING,
	PHASE_RETAINED, /* its initializer failed, but it is up and can be worked with */
	PHASE_DYING,	/* it died or was not made; the engine still has to remove it */
	PHASE_DEAD,	/* the engine has nothing of it any more; it can be looked at */
	PHASE_ENDING,	/* destroyed; the engine still has to remove it */
	PHASE_ENDED,	/* destroyed, and the engine has nothing of it any more */
	PHASE_COUNT,
};

const char *phase_name(enum sandbox_phase phase);
enum sandbox_state phase_state(enum sandbox_phase phase);
enum sandbox_transition phase_transition(enum sandbox_phase phase);
/* Where it is when its transition is taken back; the phase itself without a transition. */
enum sandbox_phase phase_rest(enum sandbox_phase phase);
bool phase_allowed(enum sandbox_phase from, enum sandbox_phase to);
/* The phase that a transition from this one begins with; PHASE_COUNT: there is none. */
enum sandbox_phase phase_begin(enum sandbox_phase from, enum sandbox_transition transition);
/* Its processes can be reached: running in some way, or retained. */
bool phase_up(enum sandbox_phase phase);

/* What the store has of a sandbox. intent is an enum store_intent, 0 for none. */
struct phase_row {
	enum sandbox_state state;
	enum pause_kind pause_kind;
	unsigned intent;
	bool pooled;
};
enum sandbox_phase phase_loaded(const struct phase_row *row);

/* ---- of a sandbox ---- */

/* Refuses, with a message in the log, what the table does not allow. Where callers see another
 * state afterwards, the reason is kept and the event is sent; loading (from PHASE_NEW) is silent.
 */
void sandbox_set_phase(struct sandbox *sandbox, enum sandbox_phase phase,
		       enum sandbox_reason reason);
/* The end could not be recorded: it is as before. The only way back from an end. */
void sandbox_revert_phase(struct sandbox *sandbox, enum sandbox_phase phase,
			  enum sandbox_reason reason);
enum pause_kind sandbox_pause_kind(const struct sandbox *sandbox); /* of a paused one */
enum sandbox_transition sandbox_transition(const struct sandbox *sandbox);
bool sandbox_lives(const struct sandbox *sandbox); /* running or paused */
bool sandbox_is_hibernated(const struct sandbox *sandbox);

#endif
