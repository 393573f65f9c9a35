/* SPDX-License-Identifier: Apache-2.0 */
/* Follows of the real agent: credit, cursors, gaps, reconnects, fairness. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/time.h"
#include "one_agent.h"

#define LIVE_BOTH (AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT | AGENT_FOLLOW_ERR)
#define LIVE_OUT (AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT)

static void test_from_the_start(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "echo out; echo err >&2; exit 3", 0, 1000, &f);

	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "out\n");
	assert_string_equal(caller_text(f, 1), "err\n");
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
	assert_int_equal(f->end.status.exit_code, 3);
	assert_int_equal(f->end.status.out_total, 4);
	assert_int_equal(f->end.refusal, 0);
	/* Readable for a while: all of it, a part, the tail, one stream. */
	f = caller_follow(caller, id, LIVE_BOTH, 0, 2, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "out\n");
	assert_string_equal(caller_text(f, 1), "r\n");
	assert_int_equal(f->end.status.exit_code, 3);
	f = caller_follow(caller, id, LIVE_OUT | AGENT_FOLLOW_TAIL, 2, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "t\n");
	assert_int_equal(f->bytes[1], 0);
	f = caller_follow(caller, id, LIVE_OUT | AGENT_FOLLOW_TAIL, 99, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "out\n");
	f = caller_follow(caller, id, LIVE_BOTH, 4, 4, 0);
	caller_wait(caller, &f->ended, 5000); /* at the end: no credit needed */
	assert_int_equal(f->end.refusal, 0);
	f = caller_follow(caller, id, LIVE_BOTH, 5, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->end.refusal, AGENT_REFUSED_CURSOR_AHEAD);
	f = caller_follow(caller, id + 1, LIVE_BOTH, 0, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->end.refusal, AGENT_REFUSED_NO_PROCESS);
}

static void test_not_live(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "echo now; exec sleep 30", 0, 0, NULL);

	caller_wait_totals(caller, id, 4, 0);
	f = caller_follow(caller, id, AGENT_FOLLOW_OUT, 0, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "now\n");
	assert_int_equal(f->end.status.end, AGENT_END_NONE);
	assert_int_equal(f->end.status.out_total, 4);
	assert_int_equal(caller_stop(caller, id, 0, true), 0);
}

/* Not one byte beyond the credit, whatever its size. */
static void test_credit(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2", 0,
				0, &f);
	uint64_t got = 0;

	f->regrant = false;
	caller_wait_totals(caller, id, 100000, 100000);
	assert_int_equal(f->bytes[0] + f->bytes[1], 0);
	for (uint32_t credit = 1; credit < 60000; credit *= 7) {
		caller_credit(caller, f, credit);
		got += credit;
		for (int64_t until_us = time_mono_us() + rig_limit_us(5000);
		     f->bytes[0] + f->bytes[1] < got && time_mono_us() < until_us;)
			caller_turn(caller, 10);
		caller_pass(caller, 20); /* more would arrive now */
		assert_int_equal(f->bytes[0] + f->bytes[1], got);
	}
	assert_false(f->ended);
	caller_credit(caller, f, 1U << 20);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->bytes[0], 100000);
	assert_int_equal(f->bytes[1], 100000);
	assert_int_equal(f->gap[0] + f->gap[1], 0);
	assert_int_equal(caller_forget(caller, id), 0);
	assert_null(caller_look(caller, id));
}

static uint64_t read_fast(struct caller_follow **ret_stalled)
{
	struct caller_follow *fast, *stalled;
	uint32_t id = caller_sh(caller, "read go; head -c 40000000 /dev/zero; echo end",
				AGENT_EXEC_STDIN_OPEN, 4U << 20, &fast);
	int64_t start_us;

	fast->keep = false;
	stalled = caller_follow(caller, id, LIVE_OUT, 0, 0, 1000);
	stalled->regrant = false;
	assert_int_equal(caller_stdin(caller, id, "go\n", 3, true), 0);
	start_us = time_mono_us();
	caller_wait(caller, &fast->ended, 20000);
	assert_in_range(time_mono_us() - start_us, 0, rig_limit_us(10000));
	assert_int_equal(fast->bytes[0] + fast->gap[0], 40000004);
	*ret_stalled = stalled;
	return fast->gap[0];
}

/*
 * Beside a follow that never reads: the program ends, the fast one gets everything, the slow one a
 * gap. On a busy host the fast reader itself may be delayed for longer than the agent waits: then
 * it is tried again.
 */
static void test_stalled_beside_fast(void **state)
{
	struct caller_follow *stalled;

	for (int attempt = 0; read_fast(&stalled); attempt++)
		assert_true(attempt < 10);
	assert_int_equal(stalled->bytes[0], 1000);
	assert_false(stalled->ended);
	caller_credit(caller, stalled, 2U << 20);
	caller_wait(caller, &stalled->ended, 5000);
	assert_int_equal(stalled->bytes[0] + stalled->gap[0], 40000004);
	assert_int_equal(stalled->bytes[0], 1000 + (1 << 20)); /* the ring, and what was before */
}

/* Alone and stalled: it costs the program one short pause. */
static void test_stalled_alone(void **state)
{
	struct caller_follow *f;
	int64_t start_us = time_mono_us();
	uint32_t id = caller_sh(caller, "head -c 20000000 /dev/zero", 0, 1000, &f);

	f->regrant = false;
	while (caller_look(caller, id)->status.end == AGENT_END_NONE &&
	       time_mono_us() - start_us < rig_limit_us(5000))
		caller_pass(caller, 5);
	assert_in_range(time_mono_us() - start_us, 45000, rig_limit_us(2000));
	assert_int_equal(caller_look(caller, id)->status.out_total, 20000000);
	caller_credit(caller, f, 2U << 20);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->bytes[0] + f->gap[0], 20000000);
}

static uint64_t read_slowly(void)
{
	struct caller_follow *f;

	(void)caller_sh(caller, "head -c 30000000 /dev/zero", 0, 600000, &f);
	f->keep = f->regrant = false;
	while (!f->ended) {
		caller_turn(caller, 100);
		if (f->credit < 100000) {
			caller_pass(caller, 5);
			caller_credit(caller, f, (uint32_t)(600000 - f->credit));
		}
	}
	assert_int_equal(f->bytes[0] + f->gap[0], f->cursor[0]);
	return f->end.status.out_total - f->bytes[0];
}

/*
 * A reader that keeps up but is slow with each piece loses nothing. On a busy host the reader
 * itself may be delayed for longer than the agent waits: then it is tried again.
 */
static void test_slow_but_steady(void **state)
{
	for (int attempt = 0; read_slowly(); attempt++)
		assert_true(attempt < 10);
}

static void test_no_such_follow(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "sleep 0.1; echo x", 0, 10, &f);

	assert_int_equal(agent_put_credit(&caller->out, 4000, 5), 0);
	assert_int_equal(agent_put_unfollow(&caller->out, 4000), 0);
	caller_unfollow(caller, f);
	/* The process continued. */
	assert_int_equal(caller_wait_end(caller, id, 5000)->status.end, AGENT_END_EXIT);
	assert_false(caller->closed);
	/* Reusing a number is a mistake of the daemon: the connection ends. */
	id = caller_sh(caller, "exec sleep 30", 0, 0, NULL);
	(void)caller_follow(caller, id, LIVE_OUT, 0, 0, 0);
	caller->next_follow--;
	(void)caller_follow(caller, id, LIVE_OUT, 0, 0, 0);
	caller_wait(caller, &caller->closed, 5000);
	one_agent_reconnect();
	assert_int_equal(caller_stop(caller, id, 0, true), 0);
}

/* The daemon reconnects in the middle: cursors continue, no byte is lost or duplicated. */
static void test_reconnect(void **state)
{
	static const char script[] = "i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); "
				     "done";
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, script, 0, 0, NULL);
	struct buf all;
	uint64_t cursor = 0;
	unsigned seed = 7;
	char line[32], *at;

	buf_init(&all, 4U << 20);
	for (int round = 0; round <= 400; round++) {
		f = caller_follow(caller, id, LIVE_OUT, cursor, 0,
				  1 + (uint32_t)rand_r(&seed) % 9000);
		f->regrant = round == 400 || rand_r(&seed) % 2;
		if (round == 400) /* the script is slow here: read the rest at once */
			caller_wait(caller, &f->ended, 20000);
		else
			caller_pass(caller, rand_r(&seed) % 8);
		assert_int_equal(f->gap[0], 0);
		assert_int_equal(buf_append(&all, buf_data(&f->data[0]), buf_len(&f->data[0])), 0);
		cursor = f->cursor[0];
		if (f->ended)
			break;
		one_agent_reconnect();
		assert_int_equal(caller->hello.process_count, 1);
	}
	assert_true(f->ended);
	assert_int_equal(f->end.status.exit_code, 0);
	assert_int_equal(cursor, f->end.status.out_total);
	at = buf_data(&all);
	for (int i = 0; i < 60000; i++) {
		int n = snprintf(line, sizeof(line), "line %d\n", i);

		assert_memory_equal(at, line, (size_t)n);
		at += n;
	}
	assert_ptr_equal(at, buf_data(&all) + buf_len(&all));
	buf_done(&all);
}

/* The waiting caller of a collected process goes: the process is kept, with its output. It writes
 * the rest when it receives a signal. */
static void test_detach(void **state)
{
	const char *const argv[] = {
		"sh", "-c", "trap 'echo more; exit' USR1; echo front; while :; do sleep 0.1; done",
		NULL
	};
	struct agent_exec_args args = { .argv = argv,
					.flags = AGENT_EXEC_COLLECT,
					.output_max_bytes = 100 };
	struct caller_follow *f;
	uint32_t id = caller_exec(caller, &args);

	caller_wait_totals(caller, id, 6, 0);
	assert_true(caller_look(caller, id)->flags & AGENT_PROCESS_COLLECT);
	assert_int_equal(agent_put_detach(&caller->out, id), 0);
	f = caller_follow(caller, id, LIVE_OUT, 0, 0, 1000);
	assert_int_equal(caller_kill(caller, id, SIGUSR1), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "front\nmore\n");
	assert_int_equal(caller->exit_id, 0);
	assert_false(caller_look(caller, id)->flags & AGENT_PROCESS_COLLECT);

	id = caller_exec(caller, &args); /* the same by a lost connection */
	caller_wait_totals(caller, id, 6, 0);
	one_agent_reconnect();
	f = caller_follow(caller, id, LIVE_OUT, 0, 0, 1000);
	assert_int_equal(caller_kill(caller, id, SIGUSR1), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "front\nmore\n");

	id = caller_exec(caller, &args); /* reported: removed */
	caller_wait_totals(caller, id, 6, 0);
	assert_int_equal(caller_kill(caller, id, SIGUSR1), 0);
	caller_wait_exit(caller, id, 5000);
	assert_memory_equal(buf_data(&caller->collected[0]), "front\nmore\n", 11);
	assert_null(caller_look(caller, id));
}

/* Beyond its limit, then detached: from then on the newest bytes are kept. */
static void test_detach_behind_limit(void **state)
{
	const char *const argv[] = { "sh", "-c",
				     "trap 'echo x; exit' USR1; head -c 3000 /dev/zero; "
				     "while :; do sleep 0.1; done",
				     NULL };
	struct agent_exec_args args = { .argv = argv,
					.flags = AGENT_EXEC_COLLECT,
					.output_max_bytes = 1000 };
	struct caller_follow *f;
	uint32_t id = caller_exec(caller, &args);

	caller_wait_totals(caller, id, 3000, 0);
	assert_int_equal(agent_put_detach(&caller->out, id), 0);
	f = caller_follow(caller, id, AGENT_FOLLOW_OUT, 0, 0, 10000);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->bytes[0], 1000);
	assert_int_equal(f->end.status.out_total, 3000);
	f = caller_follow(caller, id, LIVE_OUT, 1000, 0, 10000);
	assert_int_equal(caller_kill(caller, id, SIGUSR1), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "x\n");
	assert_int_equal(f->gap[0], 2000);
	assert_int_equal(f->end.status.out_total, 3002);
}

static void test_many_follows(void **state)
{
	enum { N = 300 };
	struct caller_follow *f[N];
	uint32_t id = caller_sh(caller, "sleep 0.3; echo hello", 0, 0, NULL);

	for (int i = 0; i < N; i++)
		f[i] = caller_follow(caller, id, LIVE_OUT, 0, 0, 100);
	for (int i = 0; i < N; i++) {
		caller_wait(caller, &f[i]->ended, 5000);
		assert_string_equal(caller_text(f[i], 0), "hello\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, one_agent_setup, one_agent_teardown)
		T(test_from_the_start),	     T(test_not_live),	    T(test_credit),
		T(test_stalled_beside_fast), T(test_stalled_alone), T(test_slow_but_steady),
		T(test_no_such_follow),	     T(test_reconnect),	    T(test_detach),
		T(test_detach_behind_limit), T(test_many_follows),
#undef T
	};

	cmocka_set_test_filter(getenv("CAY_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
