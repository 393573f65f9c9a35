/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output equals input, whatever the sizes of writes, credits and rings, and whenever the daemon
 * disconnects and reconnects; for pipes, terminals in raw mode and tools. The writing program is
 * this one, called with other arguments.
 */
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

static const char *self;
static unsigned seed;

/* The byte at each cursor is known, so any piece can be checked by itself. */
static char byte_at(int stream, uint64_t cursor)
{
	return (char)(cursor * 131 + (cursor >> 8) * 17 + (cursor >> 16) * 5 + (uint64_t)stream);
}

static unsigned below(unsigned n)
{
	return (unsigned)rand_r(&seed) % n;
}

/* Small and large pieces in random order, with pauses in between. */
static size_t piece_size(size_t max)
{
	static const unsigned sizes[] = { 1, 7, 100, 4096, 65536, 300000 };

	size_t n = 1 + below(sizes[below(6)]); /* MIN would evaluate the random number twice */

	return MIN(n, max);
}

static int write_sequence(unsigned with_seed, uint64_t out_bytes, uint64_t err_bytes)
{
	static char chunk[300001];
	uint64_t at[2] = { 0, 0 }, total[2] = { out_bytes, err_bytes };

	seed = with_seed;
	while (at[0] < total[0] || at[1] < total[1]) {
		int i = below(2) && at[1] < total[1] ? 1 : at[0] < total[0] ? 0 : 1;
		size_t n = piece_size(total[i] - at[i]);

		for (size_t k = 0; k < n; k++)
			chunk[k] = byte_at(i, at[i] + k);
		for (size_t done = 0; done < n;) {
			ssize_t r = write(1 + i, chunk + done, n - done);

			if (r < 0)
				return 1;
			done += (size_t)r;
		}
		at[i] += n;
		if (below(30) == 0)
			usleep(below(3000));
	}
	return 0;
}

static void open_agent(void)
{
	const char *const options[] = { "--trust-any-peer", "--same-user", "--cwd", "/tmp",
					"--tools",	    self,	   NULL };

	caller = caller_new(&rig, options);
}

static int setup(void **state)
{
	open_agent();
	return 0;
}

static void reconnect(void)
{
	uint32_t id = caller->next_id;

	one_agent_reconnect();
	assert_int_equal(caller->next_id, id);
}

/* Checks the received bytes and drops them. */
static void check(struct caller_follow *f)
{
	for (int i = 0; i < 2; i++) {
		size_t n = buf_len(&f->data[i]);

		for (size_t k = 0; k < n; k++)
			if (buf_data(&f->data[i])[k] != byte_at(i, f->cursor[i] - n + k))
				fail_msg("stream %d wrong at %llu", i,
					 (unsigned long long)(f->cursor[i] - n + k));
		buf_consume(&f->data[i], n);
	}
}

/* Reads for a while in pieces of random credit; checks all of them, also across gaps. */
static void read_on(struct caller_follow *f, int turns)
{
	uint64_t gaps = f->gap[0] + f->gap[1];

	f->regrant = false;
	for (int t = 0; !f->ended && !caller->closed && t < turns; t++) {
		if (f->credit < 5000)
			caller_credit(caller, f, (uint32_t)piece_size(300000));
		caller_turn(caller, 20);
		if (f->gap[0] + f->gap[1] == gaps)
			check(f);
		else /* a gap in this iteration: only the bytes after it can be checked */
			for (int i = 0; i < 2; i++)
				buf_clear(&f->data[i]);
		gaps = f->gap[0] + f->gap[1];
	}
}

static uint32_t start_writer(uint64_t out, uint64_t err, uint32_t ring_bytes, uint8_t flags)
{
	char numbers[3][24];
	const char *const argv[] = { flags & AGENT_EXEC_TOOL ? "cay-tools" : self,
				     "--write",
				     numbers[0],
				     numbers[1],
				     numbers[2],
				     NULL };
	struct agent_exec_args args = { .argv = argv, .flags = flags, .ring_bytes = ring_bytes };

	(void)snprintf(numbers[0], sizeof(numbers[0]), "%u", below(1U << 30));
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%llu", (unsigned long long)out);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%llu", (unsigned long long)err);
	if (flags & AGENT_EXEC_TOOL) {
		struct caller_follow *f = &caller->follows[caller->follow_count++];

		*f = (struct caller_follow){ .id = caller->next_follow++,
					     .process_id = caller->next_id,
					     .credit = 1000,
					     .keep = true };
		for (int i = 0; i < 2; i++)
			buf_init(&f->data[i], 64U << 20);
		args.flags |= AGENT_EXEC_FOLLOW;
		args.follow_id = f->id;
		args.credit = 1000;
	}
	return caller_start(caller, &args);
}

/*
 * With a ring as large as the output not one byte may be missing, however often the daemon
 * reconnects.
 */
static void test_pipes(void **state)
{
	for (unsigned round = 0; round < 12; round++) {
		uint64_t out = below(3000000), err = below(500000);
		uint64_t cursor[2] = { 0, 0 };
		struct caller_follow *f = NULL;
		uint32_t id;

		seed = 1000 + round;
		id = start_writer(out, err, 4U << 20, 0);
		for (;;) {
			f = caller_follow(caller, id, LIVE_BOTH, cursor[0], cursor[1], below(5000));
			read_on(f, 1 + (int)below(60));
			assert_int_equal(f->gap[0] + f->gap[1], 0);
			memcpy(cursor, f->cursor, sizeof(cursor));
			if (f->ended)
				break;
			reconnect();
		}
		assert_int_equal(f->end.status.exit_code, 0);
		assert_int_equal(cursor[0], out);
		assert_int_equal(cursor[1], err);
		assert_int_equal(f->end.status.out_total, out);
		assert_int_equal(f->end.status.err_total, err);
		assert_int_equal(caller_forget(caller, id), 0);
		reconnect();
	}
}

/* Rings smaller than the output: every byte is correct or counted as lost. */
static void test_small_rings(void **state)
{
	for (unsigned round = 0; round < 12; round++) {
		uint64_t out = 500000 + below(3000000), err = below(500000);
		uint64_t cursor[2] = { 0, 0 }, seen[2] = { 0, 0 };
		uint32_t id;
		struct caller_follow *f;

		seed = 2000 + round;
		id = start_writer(out, err, 1 + below(100000), 0);
		for (;;) {
			f = caller_follow(caller, id, LIVE_BOTH, cursor[0], cursor[1], below(5000));
			read_on(f, 1 + (int)below(40));
			for (int i = 0; i < 2; i++) {
				seen[i] += f->bytes[i] + f->gap[i];
				cursor[i] = f->cursor[i];
			}
			if (f->ended)
				break;
			reconnect();
		}
		/* A gap at the very end shows only in the totals. */
		assert_true(seen[0] <= out && cursor[0] == seen[0]);
		assert_true(seen[1] <= err && cursor[1] == seen[1]);
		assert_int_equal(f->end.status.out_total, out);
		assert_int_equal(f->end.status.err_total, err);
		assert_int_equal(caller_forget(caller, id), 0);
		reconnect();
	}
}

static void test_terminal(void **state)
{
	for (unsigned round = 0; round < 6; round++) {
		char script[200];
		struct caller_follow *f;
		uint64_t out = below(1000000), cursor = 0;
		uint32_t id;

		seed = 3000 + round;
		(void)snprintf(script, sizeof(script),
			       "stty raw -echo -opost; exec %s --write %u %llu 0", self,
			       below(1U << 30), (unsigned long long)out);
		id = caller_sh(caller, script, AGENT_EXEC_TTY | AGENT_EXEC_STDIN_OPEN, 0, NULL);
		for (;;) {
			f = caller_follow(caller, id, AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT, cursor,
					  0, below(5000));
			read_on(f, 1 + (int)below(60));
			assert_int_equal(f->gap[0], 0);
			cursor = f->cursor[0];
			if (f->ended)
				break;
			reconnect();
		}
		assert_int_equal(cursor, out);
		f = caller_follow(caller, id, AGENT_FOLLOW_OUT | AGENT_FOLLOW_TAIL, 65536, 0,
				  65536);
		f->cursor[0] = out - MIN(out, 65536); /* the replay */
		caller_wait(caller, &f->ended, 5000);
		assert_int_equal(f->bytes[0], MIN(out, 65536));
		assert_int_equal(f->gap[0], 0);
		check(f);
		assert_int_equal(caller_forget(caller, id), 0);
		reconnect();
	}
}

/* A tool waits for credit and loses nothing; it is not listed. */
static void test_tool(void **state)
{
	assert_true(caller->hello.features & AGENT_HAS_TOOLS);
	for (unsigned round = 0; round < 8; round++) {
		uint64_t out = below(5000000), err = below(500000);
		struct caller_follow *f;
		uint32_t id;

		seed = 4000 + round;
		id = start_writer(out, err, 0, AGENT_EXEC_TOOL);
		f = &caller->follows[caller->follow_count - 1];
		assert_int_equal(caller_list(caller, 0), 0);
		caller_pass(caller, (int)below(300));
		while (!f->ended)
			read_on(f, 100);
		assert_int_equal(f->bytes[0], out);
		assert_int_equal(f->bytes[1], err);
		assert_int_equal(f->gap[0] + f->gap[1], 0);
		assert_int_equal(f->end.status.exit_code, 0);
		assert_int_equal(f->end.status.out_total, out);
		assert_null(caller_look(caller, id));
	}
}

static void expect_gone(uint32_t pid)
{
	int64_t until_us = time_mono_us() + 5000000;

	while (kill((pid_t)pid, 0) == 0) {
		assert_true(time_mono_us() < until_us);
		caller_pass(caller, 10);
	}
	assert_int_equal(errno, ESRCH);
}

/* Without its reader a tool ends: by UNFOLLOW, or by a lost connection. */
static void test_tool_without_reader(void **state)
{
	uint32_t pid;

	(void)start_writer(50000000, 0, 0, AGENT_EXEC_TOOL);
	pid = caller->started_pid;
	caller_pass(caller, 100);
	assert_int_equal(kill((pid_t)pid, 0), 0); /* it waits for credit */
	caller_unfollow(caller, &caller->follows[caller->follow_count - 1]);
	expect_gone(pid);
	(void)start_writer(50000000, 0, 0, AGENT_EXEC_TOOL);
	pid = caller->started_pid;
	caller_pass(caller, 100);
	reconnect();
	expect_gone(pid);
	assert_int_equal(caller_list(caller, 0), 0);
}

static void test_tool_refused(void **state)
{
	const char *const argv[] = { "true", NULL }, *const tools[] = { "cay-tools", NULL };
	struct agent_exec_args args = { .argv = argv,
					.flags = AGENT_EXEC_TOOL | AGENT_EXEC_FOLLOW,
					.follow_id = 77 };

	(void)caller_exec(caller, &args); /* a path is no tool */
	caller_wait(caller, &caller->refused, 5000);
	assert_int_equal(caller->refusal.code, AGENT_REFUSED_NOT_FOUND);
	args.argv = tools;
	args.flags = AGENT_EXEC_TOOL;
	args.follow_id = 0;
	(void)caller_exec(caller, &args);
	caller_wait(caller, &caller->refused, 5000);
	assert_int_equal(caller->refusal.code, AGENT_REFUSED_BAD_REQUEST);
}

/* Input with an acknowledgement per piece: the writer is as fast as the tool. */
static void test_tool_upload(void **state)
{
	static char bytes[AGENT_STDIN_BYTES_MAX];
	const char *const argv[] = { "cay-tools", "--read", NULL };
	struct agent_exec_args args = { .argv = argv,
					.flags = AGENT_EXEC_TOOL | AGENT_EXEC_FOLLOW |
						 AGENT_EXEC_STDIN_OPEN,
					.follow_id = caller->next_follow++,
					.credit = 1000 };
	struct caller_follow *f = &caller->follows[caller->follow_count++];
	uint32_t id;

	seed = 5;
	*f = (struct caller_follow){ .id = args.follow_id,
				     .process_id = caller->next_id,
				     .keep = true };
	f->credit = 1000;
	for (int i = 0; i < 2; i++)
		buf_init(&f->data[i], 1000);
	id = caller_start(caller, &args);
	for (uint64_t at = 0; at < 20000000;) {
		size_t n = piece_size(MIN(300000, 20000000 - at));

		for (size_t k = 0; k < n; k++)
			bytes[k] = byte_at(0, at + k);
		assert_int_equal(caller_stdin(caller, id, bytes, n, true), 0);
		at += n;
	}
	assert_int_equal(caller_close_stdin(caller, id), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "20000000 right\n");
}

static int read_sequence(void)
{
	static char chunk[100000];
	uint64_t at = 0;
	ssize_t n;

	while ((n = read(0, chunk, sizeof(chunk))) > 0)
		for (ssize_t k = 0; k < n; k++, at++)
			if (chunk[k] != byte_at(0, at))
				return printf("wrong at %llu\n", (unsigned long long)at) < 0;
	return printf("%llu right\n", (unsigned long long)at) < 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, one_agent_teardown)
		T(test_pipes),	     T(test_small_rings),  T(test_terminal),
		T(test_tool),	     T(test_tool_refused), T(test_tool_without_reader),
		T(test_tool_upload),
#undef T
	};
	static char path[4096];
	ssize_t n;

	if (argc == 5 && strcmp(argv[1], "--write") == 0)
		return write_sequence((unsigned)strtoul(argv[2], NULL, 10),
				      strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	if (argc == 2 && strcmp(argv[1], "--read") == 0)
		return read_sequence();
	n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (n <= 0)
		return 1;
	self = path;
	cmocka_set_test_filter(getenv("CAY_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
