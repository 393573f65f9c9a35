/* SPDX-License-Identifier: Apache-2.0 */
/* The table of phases: one row each, with the public state and the phases that may follow. */
#include "service/sandbox/phase_internal.h"

#include "base/log.h"
#include "service/account/usage_internal.h"
#include "service/event/event_internal.h"
#include "service/sandbox/sandbox_internal.h"

#define TO(phase) (UINT64_C(1) << PHASE_##phase)
#define END TO(ENDING)		     /* a sandbox that the engine may hold can be destroyed */
#define DIE (TO(DYING) | TO(ENDING)) /* the sandbox dies or is destroyed */

/* The phases that a row can be loaded as. */
#define LOADED                                                                                   \
	(TO(HALF_MADE) | TO(POOLED) | TO(RUNNING) | TO(FROZEN) | TO(HIBERNATED) | TO(RETAINED) | \
	 TO(DYING) | TO(DEAD) | TO(ENDING))
#define FROM_RUNNING \
	(TO(PAUSING) | TO(HIBERNATING) | TO(SNAPSHOTTING) | TO(FORKING) | TO(RESTORE_CLEARING))
#define FROM_FROZEN                                                                            \
	(TO(THAWING) | TO(FROZEN_HIBERNATING) | TO(FROZEN_SNAPSHOTTING) | TO(FROZEN_FORKING) | \
	 TO(RESTORE_CLEARING))

/*
 * X(phase, name, state, kind of pause, transition, rest, what may follow)
 *
 * RUNNING and FROZEN follow each other without a transition if the engine reports so after a start.
 * Both become HIBERNATED_RESIDUE if only a snapshot of their files is left.
 */
#define PHASES(X)                                                                                  \
	X(NEW, "new", PROVISIONING, FREEZE, NONE, NEW, TO(PREPARING) | TO(CREATING) | LOADED)      \
	X(PREPARING, "preparing", PROVISIONING, FREEZE, NONE, PREPARING, TO(CREATING) | DIE)       \
	X(CREATING, "creating", PROVISIONING, FREEZE, NONE, CREATING, TO(CONNECTING) | DIE)        \
	X(CONNECTING, "connecting", PROVISIONING, FREEZE, NONE, CONNECTING,                        \
	  TO(WARMING) | TO(INITIALIZING) | TO(RUNNING) | DIE)                                      \
	X(WARMING, "warming", PROVISIONING, FREEZE, NONE, WARMING, TO(POOLED) | END)               \
	X(POOLED, "pooled", RUNNING, FREEZE, NONE, POOLED, TO(HANDOUT) | TO(HANDOUT_SETUP) | END)  \
	X(HANDOUT, "handed out", RUNNING, FREEZE, NONE, HANDOUT, TO(RUNNING) | DIE)                \
	X(HANDOUT_SETUP, "handed out for setup", PROVISIONING, FREEZE, NONE, HANDOUT_SETUP,        \
	  TO(INITIALIZING) | DIE)                                                                  \
	X(INITIALIZING, "initializing", PROVISIONING, FREEZE, NONE, INITIALIZING,                  \
	  TO(RUNNING) | TO(RETAINED) | DIE)                                                        \
	X(HALF_MADE, "half made", PROVISIONING, FREEZE, NONE, HALF_MADE, END)                      \
	X(RUNNING, "running", RUNNING, FREEZE, NONE, RUNNING,                                      \
	  FROM_RUNNING | TO(FROZEN) | TO(HIBERNATED_RESIDUE) | DIE)                                \
	X(PAUSING, "pausing", RUNNING, FREEZE, PAUSE, RUNNING, TO(FROZEN) | TO(RUNNING) | DIE)     \
	X(HIBERNATING, "hibernating", RUNNING, FREEZE, HIBERNATE, RUNNING,                         \
	  TO(RELEASING) | TO(RUNNING) | DIE)                                                       \
	X(SNAPSHOTTING, "snapshotting", RUNNING, FREEZE, SNAPSHOT, RUNNING, TO(RUNNING) | DIE)     \
	X(FORKING, "forking", RUNNING, FREEZE, FORK, RUNNING, TO(RUNNING) | DIE)                   \
	X(FROZEN, "frozen", PAUSED, FREEZE, NONE, FROZEN,                                          \
	  FROM_FROZEN | TO(RUNNING) | TO(HIBERNATED_RESIDUE) | DIE)                                \
	X(THAWING, "thawing", PAUSED, FREEZE, RESUME, FROZEN, TO(RUNNING) | TO(FROZEN) | DIE)      \
	X(FROZEN_HIBERNATING, "hibernating (frozen)", PAUSED, FREEZE, HIBERNATE, FROZEN,           \
	  TO(RELEASING) | TO(FROZEN) | DIE)                                                        \
	X(FROZEN_SNAPSHOTTING, "snapshotting (frozen)", PAUSED, FREEZE, SNAPSHOT, FROZEN,          \
	  TO(FROZEN) | DIE)                                                                        \
	X(FROZEN_FORKING, "forking (frozen)", PAUSED, FREEZE, FORK, FROZEN, TO(FROZEN) | DIE)      \
	X(RELEASING, "releasing", PAUSED, HIBERNATE, HIBERNATE, HIBERNATED_RESIDUE,                \
	  TO(HIBERNATED) | TO(HIBERNATED_RESIDUE) | DIE)                                           \
	X(HIBERNATED, "hibernated", PAUSED, HIBERNATE, NONE, HIBERNATED,                           \
	  TO(RESUMING) | TO(RESTORE_CLEARING) | TO(HIBERNATED_RESIDUE) | DIE)                      \
	X(HIBERNATED_RESIDUE, "hibernated, residue", PAUSED, HIBERNATE, NONE, HIBERNATED_RESIDUE,  \
	  TO(RESUME_CLEARING) | TO(RESTORE_CLEARING) | TO(HIBERNATED) | DIE)                       \
	X(RESUME_CLEARING, "clearing to resume", PAUSED, HIBERNATE, RESUME, HIBERNATED_RESIDUE,    \
	  TO(RESUMING) | TO(HIBERNATED_RESIDUE) | DIE)                                             \
	X(RESUMING, "resuming", PAUSED, HIBERNATE, RESUME, HIBERNATED,                             \
	  TO(RUNNING) | TO(RESUME_UNDOING) | TO(HIBERNATED) | DIE)                                 \
	X(RESUME_UNDOING, "undoing a resume", PAUSED, HIBERNATE, RESUME, HIBERNATED_RESIDUE,       \
	  TO(HIBERNATED) | TO(HIBERNATED_RESIDUE) | DIE)                                           \
	X(RESTORE_CLEARING, "clearing to restore", PAUSED, HIBERNATE, RESTORE, HIBERNATED_RESIDUE, \
	  TO(RESTORING) | TO(HIBERNATED_RESIDUE) | DIE)                                            \
	X(RESTORING, "restoring", PAUSED, HIBERNATE, RESTORE, HIBERNATED,                          \
	  TO(RUNNING) | TO(RESTORE_UNDOING) | TO(HIBERNATED) | DIE)                                \
	X(RESTORE_UNDOING, "undoing a restore", PAUSED, HIBERNATE, RESTORE, HIBERNATED_RESIDUE,    \
	  TO(HIBERNATED) | TO(HIBERNATED_RESIDUE) | DIE)                                           \
	X(RETAINED, "retained", ERROR, FREEZE, NONE, RETAINED, DIE)                                \
	X(DYING, "dying", ERROR, FREEZE, NONE, DYING, TO(DEAD) | END)                              \
	X(DEAD, "dead", ERROR, FREEZE, NONE, DEAD, TO(ENDED))                                      \
	X(ENDING, "ending", DESTROYED, FREEZE, NONE, ENDING, TO(ENDED))                            \
	X(ENDED, "ended", DESTROYED, FREEZE, NONE, ENDED, 0)

#define ROW(phase, name, state, kind, transition, rest, next)                                    \
	[PHASE_##phase] = {                                                                      \
		name, next, SANDBOX_##state, PAUSE_##kind, TRANSITION_##transition, PHASE_##rest \
	},
static const struct {
	const char *name;
	uint64_t next;
	uint8_t state;	    /* enum sandbox_state */
	uint8_t pause_kind; /* enum pause_kind */
	uint8_t transition; /* enum sandbox_transition */
	uint8_t rest;	    /* enum sandbox_phase */
} phases[] = { PHASES(ROW) };
#undef ROW

#define ONE(...) +1
static_assert((0 PHASES(ONE)) == PHASE_COUNT, "every phase has one row");
#undef ONE
static_assert(ARRAY_LEN(phases) == PHASE_COUNT, "every row is of a phase");
static_assert(PHASE_COUNT <= 64, "the phases that may follow fit into 64 bits");

#define CHECK(phase, name, state, kind, transition, rest, next)                                   \
	static_assert((uint64_t)(next) >> PHASE_COUNT == 0, #phase " leads to phases only");      \
	static_assert(!((next) & (TO(NEW) | TO(phase))), #phase " leads to another, not to NEW"); \
	static_assert(PHASE_##phase == PHASE_ENDED || ((next) & (TO(ENDING) | TO(ENDED))),        \
		      #phase " can be destroyed");                                                \
	static_assert((TRANSITION_##transition == TRANSITION_NONE) ==                             \
			      (PHASE_##rest == PHASE_##phase),                                    \
		      #phase " rests elsewhere if it is a transition");                           \
	static_assert(PHASE_##rest == PHASE_##phase || ((next)&TO(rest)),                         \
		      #phase " can be taken back");                                               \
	static_assert(TRANSITION_##transition == TRANSITION_NONE ||                               \
			      SANDBOX_##state == SANDBOX_RUNNING ||                               \
			      SANDBOX_##state == SANDBOX_PAUSED,                                  \
		      #phase " lives if it is a transition");                                     \
	static_assert(SANDBOX_##state == SANDBOX_PAUSED || PAUSE_##kind == PAUSE_FREEZE,          \
		      #phase " has a kind of pause only if it is paused");
PHASES(CHECK)
#undef CHECK

const char *phase_name(enum sandbox_phase phase)
{
	return phases[phase].name;
}

enum sandbox_state phase_state(enum sandbox_phase phase)
{
	return phases[phase].state;
}

enum sandbox_transition phase_transition(enum sandbox_phase phase)
{
	return phases[phase].transition;
}

enum sandbox_phase phase_rest(enum sandbox_phase phase)
{
	return phases[phase].rest;
}

bool phase_allowed(enum sandbox_phase from, enum sandbox_phase to)
{
	return (phases[from].next >> to & 1) != 0;
}

enum sandbox_phase phase_begin(enum sandbox_phase from, enum sandbox_transition transition)
{
	enum sandbox_phase to = 0;

	if (phases[from].transition != TRANSITION_NONE)
		return PHASE_COUNT;
	while (to < PHASE_COUNT &&
	       (!phase_allowed(from, to) || phases[to].transition != transition))
		to++;
	return to;
}

bool phase_up(enum sandbox_phase phase)
{
	return phases[phase].state == SANDBOX_RUNNING || phase == PHASE_RETAINED;
}

enum sandbox_phase phase_loaded(const struct phase_row *row)
{
	if (row->intent == STORE_INTENT_CREATE)
		return PHASE_HALF_MADE;
	switch (row->state) {
	case SANDBOX_RUNNING:
		return row->pooled ? PHASE_POOLED : PHASE_RUNNING;
	case SANDBOX_PAUSED:
		return row->pause_kind == PAUSE_HIBERNATE ? PHASE_HIBERNATED : PHASE_FROZEN;
	case SANDBOX_DESTROYED:
		return PHASE_ENDING;
	case SANDBOX_ERROR:
		if (row->intent == STORE_INTENT_RETAIN)
			return PHASE_RETAINED;
		/* Without an open intent, the engine has already removed it. */
		return row->intent ? PHASE_DYING : PHASE_DEAD;
	case SANDBOX_PROVISIONING:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return PHASE_HALF_MADE;
}

/* Effects of a change of the public state. */
static void changed(struct sandbox *sandbox, enum sandbox_state before)
{
	event_state(sandbox, sandbox_state_names[before]);
	usage_changed(sandbox);
}

void sandbox_set_phase(struct sandbox *sandbox, enum sandbox_phase phase,
		       enum sandbox_reason reason)
{
	enum sandbox_phase from = sandbox->phase;
	enum sandbox_state before = phase_state(from), state = phase_state(phase);

	if (from == phase)
		return;
	if (!phase_allowed(from, phase)) {
		/* A bug in the service. The daemon logs it and continues, so that the sandbox can
		 * still be destroyed. */
		log_error("sandbox %s: %s -> %s is not in the table of phases", sandbox->id,
			  phase_name(from), phase_name(phase));
		return;
	}
	log_debug("sandbox %s: %s -> %s %s", sandbox->id, phase_name(from), phase_name(phase),
		  reason ? sandbox_reason_name(reason) : "");
	sandbox->phase = (uint8_t)phase;
	if (before == state || from == PHASE_NEW)
		return;
	sandbox->reason = (uint8_t)reason;
	changed(sandbox, before);
}

void sandbox_revert_phase(struct sandbox *sandbox, enum sandbox_phase phase,
			  enum sandbox_reason reason)
{
	enum sandbox_state before = phase_state(sandbox->phase);

	log_debug("sandbox %s: back from %s to %s", sandbox->id, phase_name(sandbox->phase),
		  phase_name(phase));
	sandbox->phase = (uint8_t)phase;
	sandbox->reason = (uint8_t)reason;
	changed(sandbox, before);
}

enum sandbox_state sandbox_state(const struct sandbox *sandbox)
{
	return phase_state(sandbox->phase);
}

enum pause_kind sandbox_pause_kind(const struct sandbox *sandbox)
{
	return phases[sandbox->phase].pause_kind;
}

enum sandbox_transition sandbox_transition(const struct sandbox *sandbox)
{
	return phase_transition(sandbox->phase);
}

bool sandbox_lives(const struct sandbox *sandbox)
{
	enum sandbox_state state = sandbox_state(sandbox);

	return state == SANDBOX_RUNNING || state == SANDBOX_PAUSED;
}

bool sandbox_is_hibernated(const struct sandbox *sandbox)
{
	return sandbox_state(sandbox) == SANDBOX_PAUSED &&
	       sandbox_pause_kind(sandbox) == PAUSE_HIBERNATE;
}
