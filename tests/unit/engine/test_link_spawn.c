/* SPDX-License-Identifier: Apache-2.0 */
/* Programs without a waiting caller, followed from their first byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "peer.h"

struct start {
	int calls;
	uint32_t process_id, pid;
	struct err err;
	bool free_link;
};

static void on_started(void *arg, uint32_t process_id, uint32_t pid, const struct err *error)
{
	struct start *s = arg;

	s->calls++;
	s->process_id = process_id;
	s->pid = pid;
	s->err = error ? *error : (struct err){ .code = ERR_OK };
	if (s->free_link)
		link_free(TAKE_PTR(rig.link));
}

struct reader {
	uint32_t id;
	int ends;
	unsigned pieces;
	struct link_status status;
};

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	((struct reader *)arg)->pieces++;
}

static void on_end(void *arg, const struct link_status *status, const struct err *error)
{
	struct reader *r = arg;

	r->ends++;
	r->status = *status;
}

static const struct link_follow_hooks hooks = { on_output, on_end };

static struct reader *spawn(struct start *s, bool tty)
{
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = {
		.argv = argv, .name = "web", .stdin_open = true, .tty = tty, .cols = 80, .rows = 24
	};
	struct reader *r = calloc(1, sizeof(*r));
	struct link_first_reader first;
	struct err err;

	*s = (struct start){ 0 };
	peer_start();
	first = (struct link_first_reader){ &hooks, r, 5, &r->id };
	assert_int_equal(link_spawn(rig.link, &exec, on_started, s, &first, &err), 0);
	return r;
}

static void expect_end(struct reader *r, enum link_end end)
{
	peer_turn();
	assert_int_equal(r->ends, 1);
	assert_int_equal(r->status.end, end);
	free(r);
}

static void test_spawn(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .out_total = 2, .err_total = 1 };
	struct start s;
	struct reader *r = spawn(&s, false);
	struct agent_exec asked;
	struct frame frame = peer_expect(AGENT_EXEC);

	assert_int_equal(agent_get_exec(&frame, &asked), 0);
	assert_int_equal(asked.flags, AGENT_EXEC_FOLLOW | AGENT_EXEC_STDIN_OPEN);
	assert_int_equal(asked.follow_id, r->id);
	assert_int_equal(asked.credit, 5);
	assert_string_equal(asked.name, "web");
	peer_say_started(41);
	peer_say_output(41, r->id, AGENT_STREAM_OUT, 0, "ab");
	peer_say_output(41, r->id, AGENT_STREAM_ERR, 0, "c");
	peer_say_followed(41, r->id, 0, &status);
	peer_turn();
	assert_int_equal(s.calls, 1);
	assert_int_equal(s.process_id, 41);
	assert_int_equal(s.pid, 1041);
	assert_int_equal(r->pieces, 2);
	expect_end(r, LINK_END_EXIT);
}

static void test_spawn_refused(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, true);
	struct frame frame = peer_expect(AGENT_EXEC);

	assert_int_equal(frame.flags, AGENT_EXEC_FOLLOW | AGENT_EXEC_STDIN_OPEN | AGENT_EXEC_TTY);
	peer_say_refused(41, AGENT_REFUSED_NOT_FOUND, "x");
	peer_turn();
	assert_int_equal(s.calls, 1);
	assert_int_equal(s.err.code, ERR_COMMAND_NOT_FOUND);
	rig_drop_link(&rig);
	assert_int_equal(r->ends, 0);
	free(r);
}

static void test_spawn_gone(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, false);

	rig_drop_link(&rig);
	assert_int_equal(s.calls, 1);
	assert_int_equal(s.err.code, ERR_SANDBOX_GONE);
	assert_int_equal(r->ends, 0);
	free(r);
}

static void test_spawn_frees(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, false);

	s.free_link = true;
	peer_say_started(41);
	peer_turn();
	assert_int_equal(s.calls, 1);
	expect_end(r, LINK_END_GONE);
}

static void test_output_before_start(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, false);

	peer_say_output(41, r->id, AGENT_STREAM_OUT, 0, "ab");
	peer_expect_breach("another process");
	assert_int_equal(s.err.code, ERR_ENGINE_FAILED);
	assert_int_equal(r->ends, 0);
	free(r);
}

/* A terminal has no second stream; a program that is not collected has no EXIT. */
static void test_spawn_breaches(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, true);

	peer_say_started(41);
	peer_say_output(41, r->id, AGENT_STREAM_ERR, 0, "ab");
	peer_expect_breach("stream");
	expect_end(r, LINK_END_GONE);
}

static void test_exit_of_spawned(void **state)
{
	struct start s;
	struct reader *r = spawn(&s, false);

	peer_say_exit(41, 0);
	peer_expect_breach("bad exit");
	free(r);
}

static void test_no_tools(void **state)
{
	static const char *const argv[] = { "files", NULL };
	struct link_exec exec = { .argv = argv, .tool = true };
	struct err err;
	uint32_t id;
	const struct link_first_reader first = { &hooks, NULL, 5, &id };

	peer_start();
	assert_false(link_has_tools(rig.link));
	assert_int_equal(link_spawn(rig.link, &exec, on_started, NULL, &first, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED_BY_ENGINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_setup, peer_teardown)
		T(test_spawn),
		T(test_spawn_refused),
		T(test_spawn_gone),
		T(test_spawn_frees),
		T(test_output_before_start),
		T(test_spawn_breaches),
		T(test_exit_of_spawned),
		T(test_no_tools),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
