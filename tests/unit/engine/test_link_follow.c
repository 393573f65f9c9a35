/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of a link: credit, cursors, abandoning, and agents that violate the protocol. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "peer.h"

struct reader {
	uint32_t id;
	int ends;
	unsigned pieces;
	size_t largest;
	uint64_t cursor; /* of the last piece */
	struct buf text;
	struct link_status status;
	struct err err;
	bool free_on_output, free_on_end, unfollow_on_output;
	struct reader *unfollow_on_end;
};

static struct reader *new_reader(void)
{
	struct reader *r = calloc(1, sizeof(*r));

	buf_init(&r->text, 1U << 20);
	return r;
}

static void free_reader(struct reader *r)
{
	buf_done(&r->text);
	free(r);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct reader *r = arg;

	r->pieces++;
	r->cursor = cursor;
	r->largest = MAX(r->largest, bytes.n);
	if (bytes.n < 1000)
		assert_int_equal(buf_append(&r->text, bytes.p, bytes.n), 0);
	if (r->unfollow_on_output)
		link_unfollow(rig.link, r->id);
	if (r->free_on_output)
		link_free(TAKE_PTR(rig.link));
}

static void on_end(void *arg, const struct link_status *status, const struct err *error)
{
	struct reader *r = arg;

	r->ends++;
	r->status = *status;
	r->err = error ? *error : (struct err){ .code = ERR_OK };
	if (r->unfollow_on_end)
		link_unfollow(rig.link, r->unfollow_on_end->id);
	if (r->free_on_end)
		link_free(TAKE_PTR(rig.link));
}

static const struct link_follow_hooks hooks = { on_output, on_end };

static void follow(struct reader *r, uint32_t process_id, const struct link_follow *wish)
{
	struct err err;

	assert_int_equal(link_follow(rig.link, process_id, wish, &hooks, r, &r->id, &err), 0);
}

/* Ready, with one follow of process 7 (of an earlier daemon) from byte 10 on, credit 8. */
static struct reader *begin(void)
{
	struct link_follow wish = {
		.out_cursor = 10, .err_cursor = 3, .credit = 8, .streams = LINK_OUT, .live = true
	};
	struct reader *r = new_reader();

	peer_start();
	follow(r, 7, &wish);
	return r;
}

static void expect_one_end(struct reader *r, enum link_end end, enum err_code code)
{
	peer_turn();
	assert_int_equal(r->ends, 1);
	assert_int_equal(r->status.end, end);
	assert_int_equal(r->err.code, code);
	free_reader(r);
}

static void expect_breach(struct reader *r, const char *part)
{
	peer_expect_breach(part);
	expect_one_end(r, LINK_END_GONE, ERR_ENGINE_FAILED);
}

static void test_follow(void **state)
{
	struct agent_status status = { .end = AGENT_END_KILLED,
				       .exit_code = 143,
				       .signal = 15,
				       .duration_us = 5,
				       .out_total = 30 };
	struct reader *r = begin();
	struct agent_follow asked;
	struct frame frame = peer_expect(AGENT_FOLLOW);

	assert_int_equal(agent_get_follow(&frame, &asked), 0);
	assert_int_equal(asked.process_id, 7);
	assert_int_equal(asked.follow_id, r->id);
	assert_int_equal(asked.flags, AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT);
	assert_int_equal(asked.out_cursor, 10);
	assert_int_equal(asked.err_cursor, 0);
	assert_int_equal(asked.credit, 8);
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "abc");
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 20, "de"); /* a gap */
	peer_turn();
	assert_true(str_is(buf_str(&r->text), "abcde"));
	assert_int_equal(r->cursor, 20);
	peer_say_followed(7, r->id, 0, &status);
	peer_turn();
	assert_int_equal(r->status.signal, 15);
	assert_int_equal(r->status.out_total, 30);
	expect_one_end(r, LINK_END_KILLED, ERR_OK);
	assert_false(rig.gone);
}

static void test_flags(void **state)
{
	struct link_follow wish = { .out_cursor = 5,
				    .err_cursor = 6,
				    .run = 3,
				    .tail = true,
				    .streams = LINK_OUT | LINK_ERR,
				    .credit = UINT32_MAX };
	struct reader *r = new_reader();
	struct agent_follow asked;
	struct frame frame;

	peer_start();
	follow(r, 7, &wish);
	frame = peer_expect(AGENT_FOLLOW);
	assert_int_equal(agent_get_follow(&frame, &asked), 0);
	assert_int_equal(asked.flags, AGENT_FOLLOW_TAIL | AGENT_FOLLOW_OUT | AGENT_FOLLOW_ERR |
					      AGENT_FOLLOW_RUN);
	assert_int_equal(asked.run, 3);
	assert_int_equal(asked.err_cursor, 6);
	assert_int_equal(asked.credit, AGENT_CREDIT_MAX);
	peer_say_output(7, r->id, AGENT_STREAM_ERR, 0, "from anywhere");
	peer_turn();
	assert_int_equal(r->pieces, 1);
	rig_drop_link(&rig);
	expect_one_end(r, LINK_END_GONE, ERR_SANDBOX_GONE);
}

static void test_follow_refused(void **state)
{
	struct agent_status none = { .end = AGENT_END_NONE };
	struct link_follow wish = { .credit = 1, .streams = LINK_OUT };
	struct reader *r = begin();
	struct err err;
	uint32_t id;

	peer_say_followed(7, r->id, AGENT_REFUSED_CURSOR_AHEAD, &none);
	peer_turn();
	assert_memory_equal(r->err.message, "cursor: ", 8);
	expect_one_end(r, LINK_END_REFUSED, ERR_INVALID_REQUEST);
	assert_int_equal(link_follow(rig.link, 0, &wish, &hooks, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_PROCESS_NOT_FOUND);
	assert_int_equal(link_follow(rig.link, 41, &wish, &hooks, NULL, &id, &err), -1);
	wish.streams = 0;
	assert_int_equal(link_follow(rig.link, 7, &wish, &hooks, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
}

static void test_credit(void **state)
{
	struct reader *r = begin();
	uint32_t id, bytes;
	struct frame frame;

	(void)peer_expect(AGENT_FOLLOW);
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "12345678"); /* all of it */
	peer_turn();
	link_credit(rig.link, r->id, 4);
	frame = peer_expect(AGENT_CREDIT);
	assert_int_equal(agent_get_credit(&frame, &id, &bytes), 0);
	assert_int_equal(id, r->id);
	assert_int_equal(bytes, 4);
	link_credit(rig.link, r->id, UINT32_MAX); /* never more than there may be */
	frame = peer_expect(AGENT_CREDIT);
	assert_int_equal(agent_get_credit(&frame, &id, &bytes), 0);
	assert_int_equal(bytes, AGENT_CREDIT_MAX - 4);
	link_credit(rig.link, r->id, 1);
	link_credit(rig.link, r->id + 1, 1);
	peer_expect_silence();
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 18, "9");
	peer_turn();
	assert_int_equal(r->pieces, 2);
	rig_drop_link(&rig);
	expect_one_end(r, LINK_END_GONE, ERR_SANDBOX_GONE);
}

static void test_beyond_credit(void **state)
{
	struct reader *r = begin();

	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "123456789");
	expect_breach(r, "more output");
}

static void test_backwards(void **state)
{
	struct reader *r = begin();

	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "12");
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 11, "2");
	expect_breach(r, "backwards");
}

static void test_before_the_cursor(void **state)
{
	struct reader *r = begin();

	peer_say_output(7, r->id, AGENT_STREAM_OUT, 9, "2");
	expect_breach(r, "backwards");
}

static void test_wrong_stream(void **state)
{
	struct reader *r = begin();

	peer_say_output(7, r->id, AGENT_STREAM_ERR, 10, "1");
	expect_breach(r, "stream");
}

static void test_wrong_process(void **state)
{
	struct reader *r = begin();

	peer_say_output(8, r->id, AGENT_STREAM_OUT, 10, "1");
	expect_breach(r, "another process");
}

static void test_unknown_follow(void **state)
{
	struct reader *r = begin();

	peer_say_output(7, r->id + 1, AGENT_STREAM_OUT, 10, "1");
	expect_breach(r, "unexpected");
}

static void test_unknown_end(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT };
	struct reader *r = begin();

	peer_say_followed(7, r->id + 1, 0, &status);
	expect_breach(r, "unexpected");
}

static void test_shrinking_total(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .out_total = 11 };
	struct reader *r = begin();

	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "12");
	peer_say_followed(7, r->id, 0, &status);
	expect_breach(r, "less output");
}

/* Frames that were in flight when the reader was abandoned are ignored. */
static void test_unfollow(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .out_total = 20 };
	struct reader *r = begin();
	struct frame frame;
	uint32_t id;

	(void)peer_expect(AGENT_FOLLOW);
	link_unfollow(rig.link, r->id);
	link_unfollow(rig.link, r->id);
	link_credit(rig.link, r->id, 5);
	frame = peer_expect(AGENT_UNFOLLOW);
	assert_int_equal(agent_get_unfollow(&frame, &id), 0);
	assert_int_equal(id, r->id);
	peer_expect_silence();
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "late");
	peer_say_followed(7, r->id, 0, &status);
	peer_turn();
	assert_false(rig.gone);
	rig_drop_link(&rig);
	assert_int_equal(r->pieces, 0);
	assert_int_equal(r->ends, 0);
	free_reader(r);
}

static void test_unfollow_inside(void **state)
{
	struct reader *r = begin();

	r->unfollow_on_output = true;
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "1");
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 11, "2");
	peer_turn();
	assert_int_equal(r->pieces, 1);
	assert_int_equal(r->ends, 0);
	assert_false(rig.gone);
	free_reader(r);
}

static void test_free_inside(void **state)
{
	struct reader *r = begin();

	r->free_on_output = true;
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "1");
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 11, "2");
	peer_turn();
	assert_int_equal(r->pieces, 1);
	expect_one_end(r, LINK_END_GONE, ERR_SANDBOX_GONE);
	assert_false(rig.gone);
}

static void test_free_in_the_end(void **state)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .out_total = 10 };
	struct reader *r = begin(), *second = new_reader();
	struct link_follow wish = { .credit = 8, .streams = LINK_OUT, .live = true };

	follow(second, 7, &wish);
	r->free_on_end = true;
	peer_say_followed(7, r->id, 0, &status);
	peer_turn();
	expect_one_end(r, LINK_END_EXIT, ERR_OK);
	expect_one_end(second, LINK_END_GONE, ERR_SANDBOX_GONE);
}

/* A reader that is abandoned while everything ends is not called either. */
static void test_unfollow_while_dropping(void **state)
{
	struct reader *a = begin(), *b = new_reader();
	struct link_follow wish = { .credit = 8, .streams = LINK_OUT, .live = true };

	follow(b, 7, &wish);
	a->unfollow_on_end = b;
	b->unfollow_on_end = a;
	(void)shutdown(peer, SHUT_RDWR);
	peer_expect_gone(ERR_SANDBOX_GONE, "ended");
	assert_int_equal(a->ends + b->ends, 1);
	free_reader(a);
	free_reader(b);
}

static void test_many(void **state)
{
	static struct reader *all[500];
	struct link_follow wish = { .credit = 100, .streams = LINK_OUT, .live = true };
	struct agent_status status = { .end = AGENT_END_EXIT, .out_total = 10 };

	peer_start();
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		all[i] = new_reader();
		follow(all[i], 1 + (uint32_t)i % 40, &wish);
	}
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		peer_say_output(1 + (uint32_t)i % 40, all[i]->id, AGENT_STREAM_OUT, i, "x");
	peer_turn();
	for (size_t i = 0; i < ARRAY_LEN(all); i += 3)
		link_unfollow(rig.link, all[i]->id);
	status.out_total = 1000;
	for (size_t i = 1; i < ARRAY_LEN(all); i += 3)
		peer_say_followed(1 + (uint32_t)i % 40, all[i]->id, 0, &status);
	peer_turn();
	assert_false(rig.gone);
	rig_drop_link(&rig);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_int_equal(all[i]->pieces, 1);
		assert_int_equal(all[i]->cursor, i);
		assert_int_equal(all[i]->ends, i % 3 ? 1 : 0);
		if (i % 3)
			assert_int_equal(all[i]->status.end,
					 i % 3 == 1 ? LINK_END_EXIT : LINK_END_GONE);
		free_reader(all[i]);
	}
}

/* The largest frame is delivered in one piece, split or not, and its neighbours are intact. */
static void test_large_frames(void **state)
{
	static char big[AGENT_OUTPUT_BYTES_MAX];
	struct link_follow wish = { .credit = AGENT_CREDIT_MAX, .streams = LINK_OUT, .live = true };
	struct reader *r = new_reader();
	struct agent_output output = { 7, 1, AGENT_STREAM_OUT, 0, { big, sizeof(big) } };
	struct buf buf;

	peer_start();
	follow(r, 7, &wish);
	assert_int_equal(r->id, 1);
	buf_init(&buf, 8U << 20);
	for (int i = 0; i < 8; i++) {
		output.bytes.n = i % 2 ? 3 : sizeof(big);
		assert_int_equal(agent_put_output(&buf, &output), 0);
		output.cursor += output.bytes.n;
	}
	peer_say_buf(&buf);
	peer_turn();
	assert_int_equal(r->pieces, 8);
	assert_int_equal(r->largest, sizeof(big));
	assert_int_equal(buf_len(&r->text), 12);
	rig_drop_link(&rig);
	expect_one_end(r, LINK_END_GONE, ERR_SANDBOX_GONE);
}

/* An agent that does not read: credit waits and is not lost, and abandoning always fits. */
static void test_credit_waits(void **state)
{
	static char big[1U << 20];
	struct link_follow wish = { .credit = 1, .streams = LINK_OUT, .live = true };
	struct reader *r = begin(), *others[10];
	struct str bytes = { big, sizeof(big) };
	uint32_t id, got = 0, unfollowed = 0;
	struct frame frame;
	struct err err;

	(void)peer_expect(AGENT_FOLLOW);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		others[i] = new_reader();
		follow(others[i], 7, &wish);
		(void)peer_expect(AGENT_FOLLOW);
	}
	peer_say_output(7, r->id, AGENT_STREAM_OUT, 10, "12345678");
	peer_turn();
	while (bytes.n > 1) { /* until not a byte more fits */
		if (link_stdin(rig.link, 7, bytes, false, NULL, NULL, &err) < 0) {
			assert_int_equal(err.code, ERR_CAPACITY_EXCEEDED);
			bytes.n /= 2;
		}
	}
	for (int i = 0; i < 100; i++)
		link_credit(rig.link, r->id, 10);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		link_unfollow(rig.link, others[i]->id);
	do {
		frame = peer_hear();
		unfollowed += frame.type == AGENT_UNFOLLOW;
	} while (frame.type != AGENT_CREDIT);
	assert_int_equal(unfollowed, ARRAY_LEN(others));
	assert_int_equal(agent_get_credit(&frame, &id, &got), 0);
	assert_int_equal(got, 1000); /* in one piece */
	assert_false(rig.gone);
	rig_drop_link(&rig);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		free_reader(others[i]);
	expect_one_end(r, LINK_END_GONE, ERR_SANDBOX_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_setup, peer_teardown)
		T(test_follow),
		T(test_flags),
		T(test_follow_refused),
		T(test_credit),
		T(test_beyond_credit),
		T(test_backwards),
		T(test_before_the_cursor),
		T(test_wrong_stream),
		T(test_wrong_process),
		T(test_unknown_follow),
		T(test_unknown_end),
		T(test_shrinking_total),
		T(test_unfollow),
		T(test_unfollow_inside),
		T(test_free_inside),
		T(test_free_in_the_end),
		T(test_unfollow_while_dropping),
		T(test_many),
		T(test_large_frames),
		T(test_credit_waits),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
