/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once, in any order: programs of all kinds start and end, are followed, fed,
 * signalled, resized, stopped, forgotten and detached while the daemon disconnects and reconnects.
 * No single reply is checked; the agent must survive, respect credit and cursors (the caller checks
 * those), answer every tag, and leave nothing behind. Meant for the sanitizers.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "one_agent.h"

#define ROUNDS 1500
#define TAGS_PER_CONNECTION 4000

static unsigned seed = 11;
static uint32_t ids[64]; /* some that were started, running or not */

static unsigned below(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

static uint32_t some_id(void)
{
	return below(10) ? ids[below(64)] : 1 + below(caller->next_id + 5);
}

static void start_one(void)
{
	static const char *const scripts[] = {
		"echo hi",
		"head -c 300000 /dev/zero; echo err >&2",
		"cat",
		"exec sleep 0.3",
		"(sleep 0.2; echo late) & echo now",
		"trap '' TERM; head -c 3000000 /dev/zero; sleep 0.2",
		"setsid sleep 0.4 & setsid sleep 2 & kill -9 $$",
		"while read l; do echo $l; done; exit 3",
	};
	const char *const argv[] = { "sh", "-c", scripts[below(8)], NULL };
	struct agent_exec_args args = {
		.argv = argv,
		.cwd = "/tmp",
		.timeout_ms = below(3) ? 2000 : 1 + below(400),
		.keep_ms = below(2) ? 1 + below(300) : 0,
		.ring_bytes = below(2) ? 1 + below(300000) : 0,
		.output_max_bytes = below(100000),
	};

	switch (below(5)) {
	case 0:
		args.flags = AGENT_EXEC_COLLECT;
		break;
	case 1:
		args.flags = AGENT_EXEC_TTY;
		args.cols = args.rows = 20;
		break;
	case 2:
		args.flags = AGENT_EXEC_TOOL; /* a shell, in this agent */
		break;
	}
	if (below(2))
		args.flags |= AGENT_EXEC_STDIN_OPEN;
	if ((args.flags & AGENT_EXEC_TOOL) || (!(args.flags & AGENT_EXEC_COLLECT) && below(2))) {
		args.flags |= AGENT_EXEC_FOLLOW;
		args.follow_id = caller->next_follow++; /* output of it is not looked at */
		args.credit = below(2) ? below(1U << 20) : 0;
	}
	ids[below(64)] = caller_exec(caller, &args);
}

static void ask_one(void)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGKILL, SIGSTOP, SIGCONT, SIGWINCH };
	static char bytes[100000];
	uint32_t id = some_id(), tag = caller->next_tag;
	struct buf *out = &caller->out;
	int r = 0;

	if (tag >= TAGS_PER_CONNECTION)
		return;
	switch (below(8)) {
	case 0:
		r = agent_put_kill(out, id, tag, signals[below(6)]);
		break;
	case 1:
		r = agent_put_stop(out, id, tag, below(2) ? AGENT_STOP_FORGET : 0, below(200));
		break;
	case 2:
		r = agent_put_forget(out, id, tag);
		break;
	case 3:
		r = agent_put_resize(out, id, tag, (uint16_t)(1 + below(200)), 20);
		break;
	case 4:
		r = agent_put_close_stdin(out, id, tag);
		break;
	case 5:
		caller->listed_count = 0;
		r = agent_put_list(out, below(2) ? id : 0, tag);
		break;
	default:
		r = agent_put_stdin(out, id, tag, below(2) ? AGENT_STDIN_WAIT : 0,
				    (struct str){ bytes, 1 + below(sizeof(bytes)) });
		break;
	}
	assert_int_equal(r, 0);
	caller->next_tag++;
}

static void follow_one(void)
{
	struct caller_follow *f;

	if (caller->follow_count == CALLER_FOLLOWS_MAX)
		return;
	f = caller_follow(caller, some_id(), (uint8_t)(AGENT_FOLLOW_OUT | below(16)), below(2000),
			  below(100), below(300000));
	f->regrant = below(2);
	f->keep = false;
}

static void unfollow_one(void)
{
	struct caller_follow *f;

	if (!caller->follow_count)
		return;
	f = &caller->follows[below((unsigned)caller->follow_count)];
	if (f->id)
		caller_unfollow(caller, f);
}

static void reconnect(void)
{
	uint32_t id = caller->next_id;

	one_agent_reconnect();
	caller->next_id = MAX(id, caller->next_id);
}

static void one_round(void)
{
	switch (below(12)) {
	case 0:
	case 1:
	case 2:
		start_one();
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		ask_one();
		break;
	case 7:
	case 8:
		follow_one();
		break;
	case 9:
		unfollow_one();
		break;
	case 10:
		assert_int_equal(agent_put_detach(&caller->out, some_id()), 0);
		break;
	default:
		if (below(20) == 0)
			reconnect();
		break;
	}
	caller_turn(caller, below(4) ? 0 : (int)below(10));
	assert_false(caller->closed);
}

static int setup(void **state)
{
	const char *const options[] = { "--trust-any-peer", "--same-user", "--cwd", "/tmp",
					"--tools",	    "/bin/sh",	   NULL };

	caller = caller_new(&rig, options);
	return 0;
}

static void wait_answers(void)
{
	for (uint32_t tag = 1; tag < caller->next_tag; tag++)
		if (!caller->done[tag])
			caller_wait(caller, &caller->done[tag], 20000);
}

static void test_storm(void **state)
{
	for (int i = 0; i < 64; i++)
		ids[i] = 1;
	for (int round = 0; round < ROUNDS; round++)
		one_round();
	wait_answers(); /* what was stopped ends by its timeout at the latest */
	reconnect();
	(void)caller_list(caller, 0);
	for (size_t i = 0, n = caller->listed_count; i < n; i++)
		assert_int_equal(agent_put_stop(&caller->out, caller->listed[i].info.process_id,
						caller->next_tag++, AGENT_STOP_FORGET, 0),
				 0);
	wait_answers();
	assert_int_equal(caller_list(caller, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_storm, setup,
									    one_agent_teardown) };
	const char *given = getenv("CAY_TEST_SEED");

	if (given)
		seed = (unsigned)strtoul(given, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
