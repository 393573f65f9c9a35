/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a link: a run, its output, its end; and agents that violate the protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "peer.h"

struct window {
	int calls, ends;
	struct link_window window;
	struct link_status status;
	struct err err;
	struct buf text;
};

static void on_window(void *arg, const struct link_window *window, const struct err *error)
{
	struct window *w = arg;

	w->calls++;
	w->err = error ? *error : (struct err){ .code = ERR_OK };
	if (window)
		w->window = *window;
}

static void on_window_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct window *w = arg;

	assert_int_equal(stream, LINK_OUT);
	assert_int_equal(buf_append(&w->text, bytes.p, bytes.n), 0);
}

static void on_window_end(void *arg, const struct link_status *status, const struct err *error)
{
	struct window *w = arg;

	w->ends++;
	w->status = *status;
}

static uint32_t run_window(struct window *w)
{
	static const struct link_follow_hooks hooks = { on_window_output, on_window_end };
	struct link_window_run run = { .name = "main", .command = STR_LIT("ls") };
	uint32_t follow_id;
	const struct link_first_reader first = { &hooks, w, 100, &follow_id };
	struct err err;

	*w = (struct window){ 0 };
	buf_init(&w->text, 1000);
	if (!rig.ready)
		peer_start();
	assert_int_equal(link_window_run(rig.link, &run, on_window, w, &first, &err), 0);
	return follow_id;
}

static void test_window(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .exit_code = 2, .out_total = 103 };
	struct agent_window told = {
		.process_id = 41, .tag = 1, .run = 1, .cursor = 100, .made = true
	};
	struct agent_window_run asked;
	struct frame frame;
	struct window w;
	uint32_t id = run_window(&w);

	frame = peer_expect(AGENT_WINDOW_RUN);
	assert_int_equal(agent_get_window_run(&frame, &asked), 0);
	assert_string_equal(asked.name, "main");
	assert_int_equal(asked.follow_id, id);
	assert_int_equal(asked.credit, 100);
	assert_int_equal(asked.process_id, 41);
	peer_say_window(&told);
	peer_say_output(41, id, AGENT_STREAM_OUT, 100, "abc");
	peer_say_followed(41, id, 0, &status);
	peer_turn();
	assert_int_equal(w.calls, 1);
	assert_true(w.window.made);
	assert_int_equal(w.window.cursor, 100);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status.exit_code, 2);
	assert_true(str_is(buf_str(&w.text), "abc"));
	buf_done(&w.text);

	id = run_window(&w); /* the shell is there: the number offered is not used */
	frame = peer_expect(AGENT_WINDOW_RUN);
	assert_int_equal(frame.process_id, 42);
	told = (struct agent_window){
		.process_id = 41, .tag = 2, .run = 2, .cursor = 103, .cancelled = true
	};
	peer_say_window(&told);
	peer_turn();
	assert_true(w.window.cancelled);
	rig_drop_link(&rig);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.status.end, LINK_END_GONE);
	buf_done(&w.text);
}

static void test_window_refused(void **state)
{
	struct window w;

	(void)run_window(&w);
	peer_say_done(1, AGENT_REFUSED_NO_SHELL);
	peer_turn();
	assert_int_equal(w.calls, 1);
	assert_int_equal(w.err.code, ERR_UNSUPPORTED);
	rig_drop_link(&rig);
	assert_int_equal(w.ends, 0);
}

static void test_window_gone(void **state)
{
	struct window w;

	(void)run_window(&w);
	rig_drop_link(&rig);
	assert_int_equal(w.calls, 1);
	assert_int_equal(w.err.code, ERR_SANDBOX_GONE);
	assert_int_equal(w.ends, 0);
}

static void test_window_of_another(void **state)
{
	struct agent_window told = { .process_id = 41, .tag = 1, .run = 1 }; /* not made? */
	struct window w;

	(void)run_window(&w);
	peer_say_window(&told);
	peer_expect_breach("wrong process");
	assert_int_equal(w.calls, 1);
}

static void test_window_made_elsewhere(void **state)
{
	struct agent_window told = { .process_id = 7, .tag = 1, .run = 1, .made = true };
	struct window w;

	(void)run_window(&w);
	peer_say_window(&told);
	peer_expect_breach("wrong process");
}

static void test_bad_windows(void **state)
{
	struct link_window_run run = { .name = "a b", .command = STR_LIT("ls") };
	const struct link_first_reader first = { 0 };
	struct err err;

	peer_start();
	assert_int_equal(link_window_run(rig.link, &run, NULL, NULL, &first, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	run.name = "main";
	run.command = (struct str){ "a\0b", 3 };
	assert_int_equal(link_window_run(rig.link, &run, NULL, NULL, &first, &err), -1);
	run.command.n = 0;
	assert_int_equal(link_window_run(rig.link, &run, NULL, NULL, &first, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_setup, peer_teardown)
		T(test_window),
		T(test_window_refused),
		T(test_window_gone),
		T(test_window_of_another),
		T(test_window_made_elsewhere),
		T(test_bad_windows),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
