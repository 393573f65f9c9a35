/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "service/sandbox/sandbox_internal.h"

/* What may follow, written down a second time: a change of the table has to be made here, too. */
static const struct {
	enum sandbox_phase from;
	enum sandbox_phase to[12]; /* PHASE_NEW ends the list: nothing leads there */
} allowed[] = {
	{ PHASE_NEW,
	  { PHASE_PREPARING, PHASE_CREATING, PHASE_HALF_MADE, PHASE_POOLED, PHASE_RUNNING,
	    PHASE_FROZEN, PHASE_HIBERNATED, PHASE_RETAINED, PHASE_DYING, PHASE_DEAD,
	    PHASE_ENDING } },
	{ PHASE_PREPARING, { PHASE_CREATING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_CREATING, { PHASE_CONNECTING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_CONNECTING,
	  { PHASE_WARMING, PHASE_INITIALIZING, PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_WARMING, { PHASE_POOLED, PHASE_ENDING } },
	{ PHASE_POOLED, { PHASE_HANDOUT, PHASE_HANDOUT_SETUP, PHASE_ENDING } },
	{ PHASE_HANDOUT, { PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_HANDOUT_SETUP, { PHASE_INITIALIZING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_INITIALIZING, { PHASE_RUNNING, PHASE_RETAINED, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_HALF_MADE, { PHASE_ENDING } },
	{ PHASE_RUNNING,
	  { PHASE_PAUSING, PHASE_HIBERNATING, PHASE_SNAPSHOTTING, PHASE_FORKING,
	    PHASE_RESTORE_CLEARING, PHASE_FROZEN, PHASE_HIBERNATED_RESIDUE, PHASE_DYING,
	    PHASE_ENDING } },
	{ PHASE_PAUSING, { PHASE_FROZEN, PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_HIBERNATING, { PHASE_RELEASING, PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_SNAPSHOTTING, { PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_FORKING, { PHASE_RUNNING, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_FROZEN,
	  { PHASE_THAWING, PHASE_FROZEN_HIBERNATING, PHASE_FROZEN_SNAPSHOTTING,
	    PHASE_FROZEN_FORKING, PHASE_RESTORE_CLEARING, PHASE_RUNNING, PHASE_HIBERNATED_RESIDUE,
	    PHASE_DYING, PHASE_ENDING } },
	{ PHASE_THAWING, { PHASE_RUNNING, PHASE_FROZEN, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_FROZEN_HIBERNATING, { PHASE_RELEASING, PHASE_FROZEN, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_FROZEN_SNAPSHOTTING, { PHASE_FROZEN, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_FROZEN_FORKING, { PHASE_FROZEN, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RELEASING,
	  { PHASE_HIBERNATED, PHASE_HIBERNATED_RESIDUE, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_HIBERNATED,
	  { PHASE_RESUMING, PHASE_RESTORE_CLEARING, PHASE_HIBERNATED_RESIDUE, PHASE_DYING,
	    PHASE_ENDING } },
	{ PHASE_HIBERNATED_RESIDUE,
	  { PHASE_RESUME_CLEARING, PHASE_RESTORE_CLEARING, PHASE_HIBERNATED, PHASE_DYING,
	    PHASE_ENDING } },
	{ PHASE_RESUME_CLEARING,
	  { PHASE_RESUMING, PHASE_HIBERNATED_RESIDUE, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RESUMING,
	  { PHASE_RUNNING, PHASE_RESUME_UNDOING, PHASE_HIBERNATED, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RESUME_UNDOING,
	  { PHASE_HIBERNATED, PHASE_HIBERNATED_RESIDUE, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RESTORE_CLEARING,
	  { PHASE_RESTORING, PHASE_HIBERNATED_RESIDUE, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RESTORING,
	  { PHASE_RUNNING, PHASE_RESTORE_UNDOING, PHASE_HIBERNATED, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RESTORE_UNDOING,
	  { PHASE_HIBERNATED, PHASE_HIBERNATED_RESIDUE, PHASE_DYING, PHASE_ENDING } },
	{ PHASE_RETAINED, { PHASE_DYING, PHASE_ENDING } },
	{ PHASE_DYING, { PHASE_DEAD, PHASE_ENDING } },
	{ PHASE_DEAD, { PHASE_ENDED } },
	{ PHASE_ENDING, { PHASE_ENDED } },
	{ PHASE_ENDED, { PHASE_NEW } },
};
static_assert(ARRAY_LEN(allowed) == PHASE_COUNT, "every phase is in the test's table");

static bool expected(enum sandbox_phase from, enum sandbox_phase to)
{
	for (size_t i = 0; to != PHASE_NEW && allowed[from].to[i] != PHASE_NEW; i++)
		if (allowed[from].to[i] == to)
			return true;
	return false;
}

/* A pool's member: its changes send no events and are not billed, so it needs no service. */
static struct sandbox member_in(enum sandbox_phase phase)
{
	return (struct sandbox){ .id = "sb", .phase = (uint8_t)phase, .pooled = true };
}

static void test_allowed_is_taken_and_others_are_refused(void **state)
{
	(void)state;
	for (enum sandbox_phase from = 0; from < PHASE_COUNT; from++) {
		assert_int_equal(allowed[from].from, from);
		for (enum sandbox_phase to = 0; to < PHASE_COUNT; to++) {
			struct sandbox sandbox = member_in(from);

			sandbox_set_phase(&sandbox, to, REASON_NONE);
			assert_int_equal(sandbox.phase, expected(from, to) ? to : from);
			assert_int_equal(phase_allowed(from, to), expected(from, to));
		}
	}
}

static void test_states_are_derived(void **state)
{
	static const enum sandbox_state states[PHASE_COUNT] = {
		[PHASE_POOLED] = SANDBOX_RUNNING,
		[PHASE_HANDOUT] = SANDBOX_RUNNING,
		[PHASE_RUNNING] = SANDBOX_RUNNING,
		[PHASE_PAUSING] = SANDBOX_RUNNING,
		[PHASE_HIBERNATING] = SANDBOX_RUNNING,
		[PHASE_SNAPSHOTTING] = SANDBOX_RUNNING,
		[PHASE_FORKING] = SANDBOX_RUNNING,
		[PHASE_FROZEN] = SANDBOX_PAUSED,
		[PHASE_THAWING] = SANDBOX_PAUSED,
		[PHASE_FROZEN_HIBERNATING] = SANDBOX_PAUSED,
		[PHASE_FROZEN_SNAPSHOTTING] = SANDBOX_PAUSED,
		[PHASE_FROZEN_FORKING] = SANDBOX_PAUSED,
		[PHASE_RELEASING] = SANDBOX_PAUSED,
		[PHASE_HIBERNATED] = SANDBOX_PAUSED,
		[PHASE_HIBERNATED_RESIDUE] = SANDBOX_PAUSED,
		[PHASE_RESUME_CLEARING] = SANDBOX_PAUSED,
		[PHASE_RESUMING] = SANDBOX_PAUSED,
		[PHASE_RESUME_UNDOING] = SANDBOX_PAUSED,
		[PHASE_RESTORE_CLEARING] = SANDBOX_PAUSED,
		[PHASE_RESTORING] = SANDBOX_PAUSED,
		[PHASE_RESTORE_UNDOING] = SANDBOX_PAUSED,
		[PHASE_RETAINED] = SANDBOX_ERROR,
		[PHASE_DYING] = SANDBOX_ERROR,
		[PHASE_DEAD] = SANDBOX_ERROR,
		[PHASE_ENDING] = SANDBOX_DESTROYED,
		[PHASE_ENDED] = SANDBOX_DESTROYED,
	}; /* the others are provisioning */

	(void)state;
	for (enum sandbox_phase at = 0; at < PHASE_COUNT; at++) {
		struct sandbox sandbox = member_in(at);
		bool saved = at >= PHASE_RELEASING && at <= PHASE_RESTORE_UNDOING;

		assert_int_equal(sandbox_state(&sandbox), states[at]);
		assert_int_equal(sandbox_lives(&sandbox),
				 states[at] == SANDBOX_RUNNING || states[at] == SANDBOX_PAUSED);
		assert_int_equal(sandbox_up(&sandbox),
				 states[at] == SANDBOX_RUNNING || at == PHASE_RETAINED);
		assert_int_equal(sandbox_is_hibernated(&sandbox), saved);
		assert_int_equal(sandbox_pause_kind(&sandbox),
				 saved ? PAUSE_HIBERNATE : PAUSE_FREEZE);
	}
}

/* Callers see these changes and no others. Members of pools are not visible. */
static void test_changes_of_the_visible_state(void **state)
{
	static const bool visible[SANDBOX_STATE_COUNT][SANDBOX_STATE_COUNT] = {
		[SANDBOX_PROVISIONING] = { [SANDBOX_RUNNING] = true,
					   [SANDBOX_ERROR] = true,
					   [SANDBOX_DESTROYED] = true },
		[SANDBOX_RUNNING] = { [SANDBOX_PAUSED] = true,
				      [SANDBOX_ERROR] = true,
				      [SANDBOX_DESTROYED] = true },
		[SANDBOX_PAUSED] = { [SANDBOX_RUNNING] = true,
				     [SANDBOX_ERROR] = true,
				     [SANDBOX_DESTROYED] = true },
		[SANDBOX_ERROR] = { [SANDBOX_DESTROYED] = true },
	};
	bool found[SANDBOX_STATE_COUNT][SANDBOX_STATE_COUNT] = { 0 };

	(void)state;
	for (enum sandbox_phase from = 0; from < PHASE_COUNT; from++)
		for (enum sandbox_phase to = 0; to < PHASE_COUNT; to++)
			if (from != PHASE_NEW && from != PHASE_POOLED && phase_allowed(from, to) &&
			    phase_state(from) != phase_state(to))
				found[phase_state(from)][phase_state(to)] = true;
	assert_memory_equal(found, visible, sizeof(found));
}

static void reach(enum sandbox_phase from, bool reached[PHASE_COUNT])
{
	if (reached[from])
		return;
	reached[from] = true;
	for (enum sandbox_phase to = 0; to < PHASE_COUNT; to++)
		if (phase_allowed(from, to))
			reach(to, reached);
}

static void test_every_phase_is_reached_and_ends(void **state)
{
	bool from_new[PHASE_COUNT] = { false };
	unsigned states = 0;

	(void)state;
	reach(PHASE_NEW, from_new);
	for (enum sandbox_phase at = 0; at < PHASE_COUNT; at++) {
		bool reached[PHASE_COUNT] = { false };

		assert_true(from_new[at]);
		states |= 1u << phase_state(at);
		reach(at, reached);
		assert_true(reached[PHASE_ENDED]);
		for (enum sandbox_phase other = 0; other < at; other++)
			assert_string_not_equal(phase_name(at), phase_name(other));
	}
	assert_int_equal(states, (1u << SANDBOX_STATE_COUNT) - 1);
}

static void test_transitions_begin_and_rest(void **state)
{
	static const struct {
		enum sandbox_phase from;
		enum sandbox_transition transition;
		enum sandbox_phase to, rest;
	} list[] = {
		{ PHASE_RUNNING, TRANSITION_PAUSE, PHASE_PAUSING, PHASE_RUNNING },
		{ PHASE_RUNNING, TRANSITION_HIBERNATE, PHASE_HIBERNATING, PHASE_RUNNING },
		{ PHASE_RUNNING, TRANSITION_SNAPSHOT, PHASE_SNAPSHOTTING, PHASE_RUNNING },
		{ PHASE_RUNNING, TRANSITION_FORK, PHASE_FORKING, PHASE_RUNNING },
		/* Its files are given up when a restore begins. */
		{ PHASE_RUNNING, TRANSITION_RESTORE, PHASE_RESTORE_CLEARING,
		  PHASE_HIBERNATED_RESIDUE },
		{ PHASE_FROZEN, TRANSITION_RESUME, PHASE_THAWING, PHASE_FROZEN },
		{ PHASE_FROZEN, TRANSITION_HIBERNATE, PHASE_FROZEN_HIBERNATING, PHASE_FROZEN },
		{ PHASE_FROZEN, TRANSITION_SNAPSHOT, PHASE_FROZEN_SNAPSHOTTING, PHASE_FROZEN },
		{ PHASE_FROZEN, TRANSITION_FORK, PHASE_FROZEN_FORKING, PHASE_FROZEN },
		{ PHASE_FROZEN, TRANSITION_RESTORE, PHASE_RESTORE_CLEARING,
		  PHASE_HIBERNATED_RESIDUE },
		{ PHASE_HIBERNATED, TRANSITION_RESUME, PHASE_RESUMING, PHASE_HIBERNATED },
		{ PHASE_HIBERNATED, TRANSITION_RESTORE, PHASE_RESTORE_CLEARING,
		  PHASE_HIBERNATED_RESIDUE },
		{ PHASE_HIBERNATED_RESIDUE, TRANSITION_RESUME, PHASE_RESUME_CLEARING,
		  PHASE_HIBERNATED_RESIDUE },
		{ PHASE_HIBERNATED_RESIDUE, TRANSITION_RESTORE, PHASE_RESTORE_CLEARING,
		  PHASE_HIBERNATED_RESIDUE },
	};
	size_t begun = 0;

	(void)state;
	for (enum sandbox_phase from = 0; from < PHASE_COUNT; from++)
		for (int t = TRANSITION_PAUSE; t < TRANSITION_COUNT; t++)
			begun += phase_begin(from, (enum sandbox_transition)t) != PHASE_COUNT;
	assert_int_equal(begun, ARRAY_LEN(list)); /* these and no others */
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		assert_int_equal(phase_begin(list[i].from, list[i].transition), list[i].to);
		assert_int_equal(phase_transition(list[i].to), list[i].transition);
		assert_int_equal(phase_rest(list[i].to), list[i].rest);
		assert_int_equal(phase_transition(list[i].rest), TRANSITION_NONE);
	}
	assert_int_equal(phase_transition(PHASE_RELEASING), TRANSITION_HIBERNATE);
	assert_int_equal(phase_rest(PHASE_RELEASING), PHASE_HIBERNATED_RESIDUE);
}

static void test_rows_are_loaded(void **state)
{
	static const struct {
		struct phase_row row;
		enum sandbox_phase phase;
	} list[] = {
		{ { SANDBOX_PROVISIONING, 0, STORE_INTENT_CREATE, false }, PHASE_HALF_MADE },
		{ { SANDBOX_PROVISIONING, 0, 0, false }, PHASE_HALF_MADE },
		/* One of several that are made together. */
		{ { SANDBOX_RUNNING, 0, STORE_INTENT_CREATE, false }, PHASE_HALF_MADE },
		{ { SANDBOX_RUNNING, 0, 0, false }, PHASE_RUNNING },
		{ { SANDBOX_RUNNING, 0, 0, true }, PHASE_POOLED },
		{ { SANDBOX_RUNNING, 0, STORE_INTENT_HIBERNATE, false }, PHASE_RUNNING },
		{ { SANDBOX_PAUSED, PAUSE_FREEZE, 0, false }, PHASE_FROZEN },
		{ { SANDBOX_PAUSED, PAUSE_FREEZE, STORE_INTENT_RESUME, false }, PHASE_FROZEN },
		{ { SANDBOX_PAUSED, PAUSE_HIBERNATE, 0, false }, PHASE_HIBERNATED },
		{ { SANDBOX_PAUSED, PAUSE_HIBERNATE, STORE_INTENT_RESTORE, false },
		  PHASE_HIBERNATED },
		{ { SANDBOX_ERROR, 0, 0, false }, PHASE_DEAD },
		{ { SANDBOX_ERROR, 0, STORE_INTENT_DESTROY, false }, PHASE_DYING },
		{ { SANDBOX_ERROR, 0, STORE_INTENT_RETAIN, false }, PHASE_RETAINED },
		{ { SANDBOX_DESTROYED, 0, STORE_INTENT_DESTROY, false }, PHASE_ENDING },
		{ { SANDBOX_DESTROYED, 0, 0, true }, PHASE_ENDING },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		assert_int_equal(phase_loaded(&list[i].row), list[i].phase);
		assert_true(phase_allowed(PHASE_NEW, list[i].phase));
	}
}

/* The end of a sandbox that cannot be recorded is taken back, from wherever it was. */
static void test_an_end_is_reverted(void **state)
{
	(void)state;
	for (enum sandbox_phase from = PHASE_PREPARING; from < PHASE_ENDING; from++) {
		struct sandbox sandbox = member_in(from);

		sandbox.reason = REASON_CRASH;
		sandbox_set_phase(&sandbox, from == PHASE_DEAD ? PHASE_ENDED : PHASE_ENDING,
				  REASON_REQUESTED);
		assert_int_equal(sandbox_state(&sandbox), SANDBOX_DESTROYED);
		assert_int_equal(sandbox.reason, REASON_REQUESTED);
		sandbox_revert_phase(&sandbox, from, REASON_CRASH);
		assert_int_equal(sandbox.phase, from);
		assert_int_equal(sandbox.reason, REASON_CRASH);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allowed_is_taken_and_others_are_refused),
		cmocka_unit_test(test_states_are_derived),
		cmocka_unit_test(test_changes_of_the_visible_state),
		cmocka_unit_test(test_every_phase_is_reached_and_ends),
		cmocka_unit_test(test_transitions_begin_and_rest),
		cmocka_unit_test(test_rows_are_loaded),
		cmocka_unit_test(test_an_end_is_reverted),
	};

	return cmocka_run_group_tests_name("service-sandbox-phase", tests, NULL, NULL);
}
