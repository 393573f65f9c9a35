/* SPDX-License-Identifier: Apache-2.0 */
/* Foreground readers of the real agent: a program blocks before a byte they need is overwritten. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "one_agent.h"

#define LIVE_OUT (AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT)
#define LIVE_BOTH (LIVE_OUT | AGENT_FOLLOW_ERR)
#define RING (1U << 20)
#define MUCH 20000000U
#define GRACE_MS 400

static const char *const options[] = { "--trust-any-peer", "--user", "root", "--cwd", "/tmp",
				       "--hold-grace-ms",  "400",    NULL };

static int setup(void **state)
{
	caller = caller_new(&rig, options);
	return 0;
}

/* Waits until the program has written all it can: the total no longer changes. */
static uint64_t blocked_at(uint32_t id)
{
	uint64_t before = 0, now = 0;

	for (int same = 0; same < 5; same = now == before && now ? same + 1 : 0) {
		before = now;
		caller_pass(caller, 40);
		now = caller_look(caller, id)->status.out_total;
	}
	assert_int_equal(caller_look(caller, id)->status.end, AGENT_END_NONE);
	return now;
}

static uint32_t start_much(uint32_t credit, struct caller_follow **ret)
{
	uint32_t id =
		caller_sh(caller, "head -c 20000000 /dev/zero; echo end", AGENT_EXEC_HOLD, 0, ret);

	(*ret)->keep = (*ret)->regrant = false;
	if (credit)
		caller_credit(caller, *ret, credit);
	return id;
}

static void read_all(struct caller_follow *f)
{
	f->regrant = true;
	caller_credit(caller, f, 1U << 18);
	caller_wait(caller, &f->ended, 20000);
}

/* ---- tests ---- */

static void test_blocks_and_continues(void **state)
{
	struct caller_follow *f;
	uint32_t id = start_much(1000, &f);

	assert_in_range(blocked_at(id), RING / 2, RING);
	assert_int_equal(f->bytes[0], 1000);
	for (int i = 0; i < 20; i++) { /* a slow one: still not a byte is missing */
		caller_credit(caller, f, 7777);
		caller_pass(caller, 5);
	}
	read_all(f);
	assert_int_equal(f->bytes[0], MUCH + 4);
	assert_int_equal(f->gap[0], 0);
	assert_int_equal(f->end.status.exit_code, 0);
}

/* A blocked stream does not block the other one: stderr is still read. */
static void test_streams_by_themselves(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero",
				AGENT_EXEC_HOLD, 100, &f);

	f->keep = f->regrant = false;
	caller_pass(caller, 300);
	assert_in_range(caller_look(caller, id)->status.err_total, RING / 2, RING);
	assert_int_equal(caller_look(caller, id)->status.out_total, 0);
	read_all(f);
	assert_int_equal(f->bytes[0] + f->bytes[1], 6000000);
	assert_int_equal(f->gap[0] + f->gap[1], 0);
}

/* The last bytes of a program that has ended stay in its pipe until there is space. */
static void test_end_waits(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "head -c 1100000 /dev/zero", AGENT_EXEC_HOLD, 0, &f);

	f->keep = f->regrant = false;
	(void)blocked_at(id);
	assert_false(f->ended);
	read_all(f);
	assert_int_equal(f->bytes[0], 1100000);
	assert_int_equal(f->gap[0], 0);
}

static void test_a_second_reader_blocks_nothing(void **state)
{
	struct caller_follow *owner, *dead;
	uint32_t id = start_much(1U << 18, &owner);

	dead = caller_follow(caller, id, LIVE_OUT, 0, 0, 10);
	dead->regrant = false;
	read_all(owner);
	assert_int_equal(owner->bytes[0], MUCH + 4);
	assert_int_equal(owner->gap[0], 0);
	caller_credit(caller, dead, 4U << 20);
	caller_wait(caller, &dead->ended, 5000);
	assert_true(dead->gap[0] > 0);
}

/* With two foreground readers, the slower one decides. */
static void test_two_holders(void **state)
{
	struct caller_follow *a, *b;
	uint32_t id = start_much(1U << 18, &a);

	b = caller_follow(caller, id, LIVE_OUT | AGENT_FOLLOW_HOLD, 0, 0, 0);
	b->keep = b->regrant = false;
	a->regrant = true;
	caller_credit(caller, a, 1U << 18);
	assert_in_range(blocked_at(id), RING / 2, RING);
	read_all(b);
	caller_wait(caller, &a->ended, 20000);
	assert_int_equal(a->bytes[0], MUCH + 4);
	assert_int_equal(b->bytes[0], MUCH + 4);
	assert_int_equal(a->gap[0] + b->gap[0], 0);
}

static void test_unfollow_releases(void **state)
{
	struct caller_follow *f;
	uint32_t id = start_much(10, &f);

	(void)blocked_at(id);
	caller_unfollow(caller, f);
	f = caller_follow(caller, id, LIVE_OUT, 0, 0, 4U << 20);
	f->keep = false;
	caller_wait(caller, &f->ended, 20000);
	assert_int_equal(f->bytes[0] + f->gap[0], MUCH + 4);
	assert_int_equal(f->end.status.exit_code, 0);
}

/* The daemon is disconnected: unacknowledged bytes are sent again, and everything after them. */
static void test_connection_lost(void **state)
{
	struct caller_follow *f;
	uint32_t id = start_much(300000, &f);
	uint64_t at;

	(void)blocked_at(id);
	caller_credit(caller, f, 200000);
	caller_pass(caller, 50);
	assert_int_equal(f->bytes[0], 500000);
	at = f->bytes[0] - 300000; /* the client did not receive these */
	one_agent_reconnect();
	caller_pass(caller, GRACE_MS / 4);
	f = caller_follow(caller, id, LIVE_BOTH | AGENT_FOLLOW_HOLD, at, 0, 1U << 18);
	f->keep = false;
	caller_wait(caller, &f->ended, 20000);
	assert_int_equal(f->gap[0], 0);
	assert_int_equal(f->bytes[0], MUCH + 4 - at);
}

static void test_grace_ends(void **state)
{
	struct caller_follow *f;
	uint32_t id = start_much(10, &f);

	(void)blocked_at(id);
	one_agent_reconnect();
	f = caller_follow(caller, id, AGENT_FOLLOW_LIVE, 0, 0,
			  0); /* reads nothing, holds nothing */
	caller_wait(caller, &f->ended, GRACE_MS + 20000);
	assert_int_equal(f->end.status.out_total, MUCH + 4);
}

/* Started first, read later: the output is kept from its first byte on, for the grace period. */
static void test_expected_reader(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "head -c 20000000 /dev/zero", AGENT_EXEC_HOLD, 0, NULL);

	caller_pass(caller, GRACE_MS / 4);
	f = caller_follow(caller, id, LIVE_BOTH | AGENT_FOLLOW_HOLD, 0, 0, 1U << 18);
	f->keep = false;
	caller_wait(caller, &f->ended, 20000);
	assert_int_equal(f->bytes[0], MUCH);
	assert_int_equal(f->gap[0], 0);
	id = caller_sh(caller, "head -c 20000000 /dev/zero", AGENT_EXEC_HOLD, 0, NULL);
	f = caller_follow(caller, id, AGENT_FOLLOW_LIVE, 0, 0, 0);
	caller_wait(caller, &f->ended, GRACE_MS + 20000); /* no reader arrived: it continues */
}

/* A blocked program can still be ended: by its time limit, a signal, a stop. */
static void test_ends_of_a_blocked_one(void **state)
{
	struct caller_follow *f = NULL;
	uint32_t id = caller_sh(caller, "exec yes", AGENT_EXEC_HOLD, 10, &f);
	f->keep = f->regrant = false;
	(void)blocked_at(id);
	assert_int_equal(caller_kill(caller, id, SIGKILL), 0);
	read_all(f);
	assert_int_equal(f->gap[0], 0);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	assert_int_equal(f->end.status.out_total, f->bytes[0]);
	id = caller_sh(caller, "exec yes", AGENT_EXEC_HOLD, 10, &f);
	f->keep = f->regrant = false;
	(void)blocked_at(id);
	/* It is to be forgotten: no reader delays that. */
	assert_int_equal(caller_stop(caller, id, 1000, true), 0);
}

/* A ring that cannot get memory stays small, but loses nothing. */
static void test_small_ring(void **state)
{
	const char *const argv[] = { "/bin/sh", "-c", "head -c 3000000 /dev/zero", NULL };
	struct agent_exec_args args = { .argv = argv,
					.ring_bytes = 4096,
					.flags = AGENT_EXEC_HOLD };
	uint32_t id = caller_start(caller, &args);
	struct caller_follow *f;

	f = caller_follow(caller, id, LIVE_BOTH | AGENT_FOLLOW_HOLD, 0, 0, 1U << 18);
	f->keep = false;
	caller_wait(caller, &f->ended, 20000);
	assert_int_equal(f->bytes[0], 3000000);
	assert_int_equal(f->gap[0], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, one_agent_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_blocks_and_continues),
		TEST(test_streams_by_themselves),
		TEST(test_end_waits),
		TEST(test_a_second_reader_blocks_nothing),
		TEST(test_two_holders),
		TEST(test_unfollow_releases),
		TEST(test_connection_lost),
		TEST(test_grace_ends),
		TEST(test_expected_reader),
		TEST(test_ends_of_a_blocked_one),
		TEST(test_small_ring),
	};

	return cmocka_run_group_tests_name("agent: hold", tests, NULL, NULL);
}
