/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of the file tool over a scripted link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/tool.h"

/* ---- the link ---- */

#define SENT_MAX 64

static struct {
	struct link_follow_hooks hooks;
	void *hooks_arg;
	link_started_fn started;
	void *started_arg;
	struct buf in;
	struct {
		link_done_fn done;
		void *arg;
	} sent[SENT_MAX];
	size_t sent_count, acked;
	uint64_t credit, credited;
	bool has_tools, refuse, unfollowed, closed, full;
} peer;

static struct link *const the_link = (struct link *)&peer;

bool link_has_tools(const struct link *link)
{
	return peer.has_tools;
}

int link_spawn(struct link *link, const struct link_exec *exec, link_started_fn started, void *arg,
	       const struct link_first_reader *first, struct err *err)
{
	assert_true(exec->tool);
	if (peer.refuse)
		return err_set(err, ERR_QUOTA_EXCEEDED, "no");
	peer.started = started;
	peer.started_arg = arg;
	peer.hooks = *first->hooks;
	peer.hooks_arg = first->arg;
	peer.credit = first->credit;
	*first->ret_follow_id = 5;
	return 0;
}

void link_credit(struct link *link, uint32_t follow_id, uint32_t bytes)
{
	assert_int_equal(follow_id, 5);
	peer.credited += bytes;
}

void link_unfollow(struct link *link, uint32_t follow_id)
{
	assert_false(peer.unfollowed);
	peer.unfollowed = true;
}

int link_feed(struct link *link, uint32_t process_id, struct str head, struct str body,
	      link_done_fn done, void *arg, struct err *err)
{
	assert_int_equal(process_id, 7);
	if (peer.full)
		return err_set(err, ERR_CAPACITY_EXCEEDED, "full");
	assert_int_equal(buf_append(&peer.in, head.p, head.n), 0);
	assert_int_equal(buf_append(&peer.in, body.p, body.n), 0);
	assert_true(peer.sent_count < SENT_MAX);
	peer.sent[peer.sent_count].done = done;
	peer.sent[peer.sent_count++].arg = arg;
	return 0;
}

int link_close_stdin(struct link *link, uint32_t process_id, link_done_fn done, void *arg,
		     struct err *err)
{
	peer.closed = true;
	return 0;
}

static void ack(size_t n)
{
	while (n-- && peer.acked < peer.sent_count) {
		size_t i = peer.acked++;

		peer.sent[i].done(peer.sent[i].arg, NULL);
	}
}

static void ack_all(void)
{
	while (peer.acked < peer.sent_count)
		ack(1);
}

static void say(struct str bytes)
{
	peer.hooks.on_output(peer.hooks_arg, LINK_OUT, 0, bytes);
}

static void say_buf(struct buf *buf)
{
	say(buf_str(buf));
	buf_done(buf);
}

/* ---- the consumer ---- */

static struct {
	struct tool_run *run;
	struct buf data;
	int readies, rooms, entries, items, ends;
	char path[64];
	struct tool_end end;
	enum tool_error failed;
	struct err error;
	bool cancel_at_data, hold;
} heard;

static void on_ready(void *arg)
{
	heard.readies++;
}

static void on_said(void *arg, const struct tool_said *said)
{
	if (said->type == TOOL_ENTRY) {
		heard.entries++;
		assert_int_equal(str_copy(heard.path, sizeof(heard.path), said->entry.path), 0);
	} else {
		heard.items++;
	}
}

static void on_data(void *arg, struct str bytes)
{
	assert_int_equal(buf_append(&heard.data, bytes.p, bytes.n), 0);
	if (heard.cancel_at_data)
		tool_run_cancel(heard.run, the_link);
	else if (!heard.hold)
		tool_run_release(heard.run, the_link, bytes.n);
}

static void on_room(void *arg)
{
	heard.rooms++;
}

static void on_end(void *arg, const struct tool_outcome *outcome)
{
	heard.ends++;
	assert_int_equal(!!outcome->end + !!outcome->failed + !!outcome->error, 1);
	if (outcome->end)
		heard.end = *outcome->end;
	if (outcome->failed)
		heard.failed = outcome->failed->error;
	if (outcome->error)
		heard.error = *outcome->error;
}

static const struct tool_hooks hooks = { .on_ready = on_ready,
					 .on_said = on_said,
					 .on_data = on_data,
					 .on_room = on_room,
					 .on_end = on_end };

static void start(bool input)
{
	static const char *const argv[] = { "cay-tools", "stat", "path=x", NULL };
	struct tool_spec spec = { .argv = argv, .input = input };
	struct err err;

	assert_int_equal(tool_run_start(the_link, &spec, &hooks, NULL, &heard.run, &err), 0);
	assert_int_equal(heard.ends, 0);
	peer.started(peer.started_arg, 7, 70, NULL);
}

static int setup(void **state)
{
	memset(&peer, 0, sizeof(peer));
	memset(&heard, 0, sizeof(heard));
	buf_init(&peer.in, 64U << 20);
	buf_init(&heard.data, 64U << 20);
	peer.has_tools = true;
	return 0;
}

static int teardown(void **state)
{
	ack_all();
	buf_done(&peer.in);
	buf_done(&heard.data);
	return 0;
}

static void put_end(struct buf *buf)
{
	struct tool_end end = { .bytes = 99 };

	assert_int_equal(tool_put_end(buf, &end), 0);
}

static void put_whole_answer(struct buf *buf)
{
	struct tool_entry entry = { .kind = TOOL_KIND_FILE, .path = STR_LIT("a/b"), .size = 10 };

	buf_init(buf, 1 << 20);
	assert_int_equal(tool_put_entry(buf, &entry), 0);
	assert_int_equal(tool_put_bytes(buf, TOOL_DATA, STR_LIT("01234")), 0);
	assert_int_equal(tool_put_bytes(buf, TOOL_DATA, STR_LIT("56789")), 0);
	put_end(buf);
}

/* ---- output ---- */

static void frames_may_come_in_any_pieces(void **state)
{
	struct buf whole;

	put_whole_answer(&whole);
	for (size_t step = 1; step <= buf_len(&whole); step++) {
		struct str rest = buf_str(&whole);

		(void)setup(NULL);
		start(false);
		while (rest.n && !heard.ends) {
			say((struct str){ rest.p, MIN(step, rest.n) });
			rest.p += MIN(step, rest.n);
			rest.n -= MIN(step, rest.n);
		}
		assert_int_equal(heard.entries, 1);
		assert_string_equal(heard.path, "a/b");
		assert_true(str_is(buf_str(&heard.data), "0123456789"));
		assert_int_equal(heard.ends, 1);
		assert_int_equal(heard.end.bytes, 99);
		assert_true(peer.unfollowed);
		(void)teardown(NULL);
	}
	buf_done(&whole);
	(void)setup(NULL);
}

static void credit_comes_back_when_bytes_have_left(void **state)
{
	static char block[131072];
	uint64_t used = 0;
	struct buf buf;

	start(false);
	heard.hold = true;
	for (int i = 0; i < 7; i++) {
		buf_init(&buf, 1 << 20);
		assert_int_equal(
			tool_put_bytes(&buf, TOOL_DATA, (struct str){ block, sizeof(block) }), 0);
		used += buf_len(&buf);
		say_buf(&buf);
	}
	assert_true(used <= peer.credit);
	assert_int_equal(peer.credited, 0);
	assert_true(tool_run_waiting_since_ms(heard.run) > 0);
	tool_run_release(heard.run, the_link, sizeof(block) * 7);
	assert_int_equal(peer.credited, used);
	/* More than was delivered cannot be returned. */
	tool_run_release(heard.run, the_link, sizeof(block) * 7);
	assert_int_equal(peer.credited, used);
	tool_run_cancel(heard.run, the_link);
	assert_true(peer.unfollowed);
}

static void a_reader_that_holds_everything_is_not_waited_for(void **state)
{
	static char block[131072];
	struct buf buf;

	start(false);
	heard.hold = true;
	for (int i = 0; i < 8; i++) {
		buf_init(&buf, 1 << 20);
		assert_int_equal(
			tool_put_bytes(&buf, TOOL_DATA, (struct str){ block, sizeof(block) }), 0);
		say((struct str){ buf_data(&buf), buf_len(&buf) });
		buf_done(&buf);
	}
	assert_int_equal(tool_run_waiting_since_ms(heard.run), 0);
	tool_run_cancel(heard.run, the_link);
}

static void what_must_not_be_said_ends_the_run(void **state)
{
	static const char *const bad[] = {
		"\xff\xff\xff\xff\x02\0\0\0\0\0\0\0",  /* too long */
		"\x00\x00\x00\x00\x02\0\0\0\0\0\0\0",  /* empty data */
		"\x01\x00\x00\x00\x63\0\0\0\0\0\0\0x", /* no such type */
		"\x05\x00\x04\x00\x02\0\0\0\0\0\0\0x", /* more data than a frame may have */
		"\x05\x00\x00\x00\x02\1\0\0\0\0\0\0x", /* flags */
		"\x05\x00\x00\x00\x02\0\0\0\1\0\0\0x", /* a process */
		"\x00\x00\x00\x00\x43\0\0\0\0\0\0\0",  /* COMMIT is ours to say */
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)setup(NULL);
		start(false);
		say((struct str){ bad[i], 12 + (bad[i][0] != 0) });
		assert_int_equal(heard.ends, 1);
		assert_int_equal(heard.error.code, ERR_TOOL_FAILED);
		assert_true(peer.unfollowed);
		(void)teardown(NULL);
	}
	(void)setup(NULL);
}

static void ready_comes_once(void **state)
{
	struct buf buf;

	start(true);
	for (int i = 0; i < 2; i++) {
		buf_init(&buf, 100);
		assert_int_equal(tool_put_bytes(&buf, TOOL_READY, STR_LIT("")), 0);
		say_buf(&buf);
	}
	assert_int_equal(heard.readies, 1);
	assert_int_equal(heard.error.code, ERR_TOOL_FAILED);
}

static void an_end_without_a_message_has_a_reason(void **state)
{
	static const struct {
		struct link_status status;
		enum err_code code;
		const char *part;
	} cases[] = {
		{ { .end = LINK_END_OOM }, ERR_OUT_OF_MEMORY, "memory" },
		{ { .end = LINK_END_EXIT, .exit_code = 2 }, ERR_TOOL_FAILED, "exit code 2" },
		{ { .end = LINK_END_SIGNAL, .signal = 9 }, ERR_TOOL_FAILED, "signal 9" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		(void)setup(NULL);
		start(false);
		peer.hooks.on_end(peer.hooks_arg, &cases[i].status, NULL);
		assert_int_equal(heard.ends, 1);
		assert_int_equal(heard.error.code, cases[i].code);
		assert_non_null(strstr(heard.error.message, cases[i].part));
		(void)teardown(NULL);
	}
	(void)setup(NULL);
}

static void failed_is_reported(void **state)
{
	struct tool_failed failed = { .error = TOOL_NOT_FOUND, .path = STR_LIT("x") };
	struct buf buf;

	start(false);
	buf_init(&buf, 1000);
	assert_int_equal(tool_put_failed(&buf, &failed), 0);
	say_buf(&buf);
	assert_int_equal(heard.ends, 1);
	assert_int_equal(heard.failed, TOOL_NOT_FOUND);
}

/* ---- life ---- */

static void a_run_may_be_cancelled_anywhere(void **state)
{
	static const char *const argv[] = { "cay-tools", "stat", NULL };
	struct tool_spec spec = { .argv = argv };
	struct link_status gone = { .end = LINK_END_GONE };
	struct buf buf;
	struct err err;

	assert_int_equal(tool_run_start(the_link, &spec, &hooks, NULL, &heard.run, &err), 0);
	tool_run_cancel(heard.run, the_link);
	assert_true(peer.unfollowed);
	peer.started(peer.started_arg, 7, 70, NULL); /* is called nevertheless */

	(void)setup(NULL);
	start(false);
	heard.cancel_at_data = true;
	put_whole_answer(&buf);
	say_buf(&buf);
	assert_int_equal(heard.ends, 0);
	assert_true(str_is(buf_str(&heard.data), "01234"));
	(void)teardown(NULL);

	/* The link is freed before the run is informed, and calls once more. */
	(void)setup(NULL);
	start(false);
	tool_run_cancel(heard.run, NULL);
	assert_false(peer.unfollowed);
	(void)err_set(&err, ERR_SANDBOX_GONE, "gone");
	peer.hooks.on_end(peer.hooks_arg, &gone, &err);
	assert_int_equal(heard.ends, 0);
	(void)teardown(NULL);

	(void)setup(NULL);
	start(true);
	tool_run_release(heard.run, NULL, 1);
	assert_int_equal(tool_run_feed(heard.run, NULL, STR_LIT("x")), -1);
	(void)err_set(&err, ERR_SANDBOX_GONE, "gone");
	peer.hooks.on_end(peer.hooks_arg, &gone, &err);
	assert_int_equal(heard.error.code, ERR_SANDBOX_GONE);
}

static void a_refused_start_is_reported(void **state)
{
	static const char *const argv[] = { "cay-tools", "stat", NULL };
	struct tool_spec spec = { .argv = argv };
	struct err err;

	peer.has_tools = false;
	assert_int_equal(tool_run_start(the_link, &spec, &hooks, NULL, &heard.run, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED_BY_ENGINE);
	peer.has_tools = true;
	peer.refuse = true;
	assert_int_equal(tool_run_start(the_link, &spec, &hooks, NULL, &heard.run, &err), -1);
	assert_int_equal(err.code, ERR_QUOTA_EXCEEDED);
	peer.refuse = false;
	assert_int_equal(tool_run_start(the_link, &spec, &hooks, NULL, &heard.run, &err), 0);
	(void)err_set(&err, ERR_INVALID_REQUEST, "user: no such user");
	peer.started(peer.started_arg, 7, 0, &err);
	assert_int_equal(heard.ends, 1);
	assert_int_equal(heard.error.code, ERR_INVALID_REQUEST);
}

/* ---- input ---- */

static void say_ready(void)
{
	struct buf buf;

	buf_init(&buf, 100);
	assert_int_equal(tool_put_bytes(&buf, TOOL_READY, STR_LIT("")), 0);
	say_buf(&buf);
}

static void finish_well(void)
{
	struct buf buf;

	buf_init(&buf, 1000);
	put_end(&buf);
	say_buf(&buf);
	assert_int_equal(heard.ends, 1);
}

static size_t data_in_frames(struct str in, bool *ret_commit)
{
	struct frame frame;
	size_t n = 0;

	*ret_commit = false;
	while (frame_next(in, TOOL_PAYLOAD_MAX, &frame) == 1) {
		if (frame.type == TOOL_DATA)
			n += frame.payload.n;
		else
			*ret_commit = frame.type == TOOL_COMMIT;
		in.p += frame_size(&frame);
		in.n -= frame_size(&frame);
	}
	assert_int_equal(in.n, 0);
	return n;
}

static void input_waits_for_the_tool(void **state)
{
	static char block[65536];
	size_t fed = 0;
	bool commit;

	start(true);
	say_ready();
	assert_int_equal(heard.readies, 1);
	assert_int_equal(tool_run_waiting_since_ms(heard.run), 0); /* it is our turn */
	while (tool_run_feed(heard.run, the_link, (struct str){ block, sizeof(block) }) == 1)
		fed += sizeof(block);
	fed += sizeof(block);
	assert_int_equal(fed, TOOL_UNTAKEN_BYTES);
	assert_true(tool_run_waiting_since_ms(heard.run) > 0);
	ack(7);
	assert_int_equal(heard.rooms, 0);
	ack(1);
	assert_int_equal(heard.rooms, 1);
	ack_all();
	assert_int_equal(heard.rooms, 1);
	tool_run_commit(heard.run, the_link);
	assert_int_equal(data_in_frames(buf_str(&peer.in), &commit), fed);
	assert_true(commit);
	finish_well();
}

static void tiny_pieces_are_bounded_too(void **state)
{
	size_t fed = 0;

	start(true);
	say_ready();
	while (fed < 60 && tool_run_feed(heard.run, the_link, STR_LIT("x")) == 1)
		fed++;
	assert_int_equal(fed, 60); /* of 256 */
	tool_run_cancel(heard.run, the_link);
}

static void a_full_link_is_tried_again(void **state)
{
	bool commit;

	start(true);
	say_ready();
	peer.full = true;
	assert_int_equal(tool_run_feed(heard.run, the_link, STR_LIT("one")), 0);
	tool_run_poke(heard.run, the_link);
	assert_int_equal(heard.rooms, 0);
	peer.full = false;
	/* The order holds: queued input is first. */
	assert_int_equal(tool_run_feed(heard.run, the_link, STR_LIT("two")), 0);
	tool_run_poke(heard.run, the_link);
	assert_int_equal(heard.rooms, 1);
	tool_run_commit(heard.run, the_link);
	assert_int_equal(data_in_frames(buf_str(&peer.in), &commit), 6);
	assert_true(commit);
	assert_memory_equal(buf_data(&peer.in) + 12, "one", 3);
	finish_well();
}

static void ready_made_input_goes_piece_by_piece(void **state)
{
	static char block[131072];
	struct buf frames;
	size_t total;
	bool commit;

	start(true);
	buf_init(&frames, 8U << 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(
			tool_put_bytes(&frames, TOOL_DATA, (struct str){ block, sizeof(block) }),
			0);
	assert_int_equal(tool_put_bytes(&frames, TOOL_COMMIT, STR_LIT("")), 0);
	total = buf_len(&frames);
	tool_run_input(heard.run, the_link, &frames);
	assert_in_range(buf_len(&peer.in), TOOL_UNTAKEN_BYTES, TOOL_UNTAKEN_BYTES + sizeof(block));
	ack_all();
	assert_int_equal(buf_len(&peer.in), total);
	assert_int_equal(data_in_frames(buf_str(&peer.in), &commit), 20 * sizeof(block));
	assert_true(commit);
	finish_well();
	buf_done(&frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_may_come_in_any_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(credit_comes_back_when_bytes_have_left, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_reader_that_holds_everything_is_not_waited_for,
						setup, teardown),
		cmocka_unit_test_setup_teardown(what_must_not_be_said_ends_the_run, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ready_comes_once, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_without_a_message_has_a_reason, setup,
						teardown),
		cmocka_unit_test_setup_teardown(failed_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(a_run_may_be_cancelled_anywhere, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refused_start_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(input_waits_for_the_tool, setup, teardown),
		cmocka_unit_test_setup_teardown(tiny_pieces_are_bounded_too, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_link_is_tried_again, setup, teardown),
		cmocka_unit_test_setup_teardown(ready_made_input_goes_piece_by_piece, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
