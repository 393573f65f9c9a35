/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged requests of the link: answers and lists; and agents that violate the protocol. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "peer.h"

struct answer {
	int calls;
	struct err err;
	bool free_link;
};

static void on_done(void *arg, const struct err *error)
{
	struct answer *a = arg;

	a->calls++;
	a->err = error ? *error : (struct err){ .code = ERR_OK };
	if (a->free_link)
		link_free(TAKE_PTR(rig.link));
}

static void test_requests(void **state)
{
	struct answer a = { 0 };
	struct frame frame;
	struct err err;
	uint16_t cols, rows;
	uint32_t tag, grace;
	int signum;

	peer_start();
	assert_int_equal(link_signal(rig.link, 7, SIGHUP, on_done, &a, &err), 0);
	frame = peer_expect(AGENT_KILL);
	assert_int_equal(agent_get_kill(&frame, &tag, &signum), 0);
	assert_int_equal(frame.process_id, 7);
	assert_int_equal(signum, SIGHUP);
	peer_say_done(tag, 0);
	assert_int_equal(link_resize(rig.link, 7, 100, 50, on_done, &a, &err), 0);
	frame = peer_expect(AGENT_RESIZE);
	assert_int_equal(agent_get_resize(&frame, &tag, &cols, &rows), 0);
	assert_int_equal(cols, 100);
	peer_say_done(tag, 0);
	assert_int_equal(link_close_stdin(rig.link, 7, on_done, &a, &err), 0);
	frame = peer_expect(AGENT_CLOSE_STDIN);
	assert_int_equal(agent_get_tag(&frame, &tag), 0);
	peer_say_done(tag, 0);
	assert_int_equal(link_stop(rig.link, 7, UINT32_MAX, on_done, &a, &err), 0);
	frame = peer_expect(AGENT_STOP);
	assert_int_equal(agent_get_stop(&frame, &tag, &grace), 0);
	assert_int_equal(frame.flags, AGENT_STOP_FORGET);
	assert_int_equal(grace, AGENT_GRACE_MAX_MS);
	peer_say_done(tag, 0);
	peer_turn();
	assert_int_equal(a.calls, 4);
	assert_int_equal(a.err.code, ERR_OK);

	assert_int_equal(link_stop(rig.link, 7, 0, NULL, NULL, &err), 0); /* wants no answer */
	frame = peer_expect(AGENT_STOP);
	assert_int_equal(agent_get_stop(&frame, &tag, &grace), 0);
	assert_int_equal(tag, 0);
}

static void test_bad_requests(void **state)
{
	struct err err;

	assert_int_equal(link_signal(rig.link, 7, 1, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	peer_start();
	assert_int_equal(link_signal(rig.link, 7, 0, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(link_signal(rig.link, 41, 1, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_PROCESS_NOT_FOUND);
	assert_int_equal(link_resize(rig.link, 7, 0, 1, NULL, NULL, &err), -1);
	assert_int_equal(link_resize(rig.link, 7, 1, AGENT_TTY_MAX + 1, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(link_stdin(rig.link, 7, STR_LIT(""), false, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	peer_expect_silence();
}

static void test_refusals(void **state)
{
	static const struct {
		enum agent_refusal refusal;
		enum err_code code;
		const char *part;
	} cases[] = {
		{ AGENT_REFUSED_NO_PROCESS, ERR_PROCESS_NOT_FOUND, "no such process" },
		{ AGENT_REFUSED_ENDED, ERR_WRONG_STATE, "has ended" },
		{ AGENT_REFUSED_STILL_RUNNING, ERR_WRONG_STATE, "still runs" },
		{ AGENT_REFUSED_STDIN_CLOSED, ERR_WRONG_STATE, "input of the process is closed" },
		{ AGENT_REFUSED_STDIN_FULL, ERR_QUOTA_EXCEEDED, "not read" },
		{ AGENT_REFUSED_NO_TTY, ERR_WRONG_STATE, "no terminal" },
		{ AGENT_REFUSED_CURSOR_AHEAD, ERR_INVALID_REQUEST, "cursor: " },
		{ AGENT_REFUSED_NO_SHELL, ERR_UNSUPPORTED, "bash" },
		{ AGENT_REFUSED_WINDOW_BROKEN, ERR_CONFLICT, "did not come back" },
	};
	struct err err;

	peer_start();
	for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct answer a = { 0 };

		assert_int_equal(link_close_stdin(rig.link, 7, on_done, &a, &err), 0);
		peer_say_done(i + 1, cases[i].refusal);
		peer_turn();
		assert_int_equal(a.calls, 1);
		assert_int_equal(a.err.code, cases[i].code);
		assert_non_null(strstr(a.err.message, cases[i].part));
	}
	for (uint32_t refusal = 1; refusal <= AGENT_REFUSED_LAST; refusal++) { /* all have words */
		struct answer a = { 0 };

		assert_int_equal(link_close_stdin(rig.link, 7, on_done, &a, &err), 0);
		peer_say_done((uint32_t)ARRAY_LEN(cases) + refusal, refusal);
		peer_turn();
		assert_true(a.err.code != ERR_OK && a.err.message[0]);
	}
}

static void test_unexpected_answers(void **state)
{
	peer_start();
	peer_say_done(1, 0);
	peer_expect_breach("unexpected");
}

static void test_answered_twice(void **state)
{
	struct answer a = { 0 };
	struct err err;

	peer_start();
	assert_int_equal(link_close_stdin(rig.link, 7, on_done, &a, &err), 0);
	peer_say_done(1, 0);
	peer_say_done(1, 0);
	peer_expect_breach("unexpected");
	assert_int_equal(a.calls, 1);
}

static void test_gone(void **state)
{
	static struct answer all[1000];
	struct err err;

	peer_start();
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(link_close_stdin(rig.link, 7, on_done, &all[i], &err), 0);
	all[500].free_link = true;
	peer_say_done(501, 0);
	peer_turn();
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_int_equal(all[i].calls, 1);
		assert_int_equal(all[i].err.code, i == 500 ? ERR_OK : ERR_SANDBOX_GONE);
	}
}

/* ---- input ---- */

static void test_stdin_pieces(void **state)
{
	static char big[3U << 20];
	struct answer a = { 0 };
	size_t total = 0;
	struct frame frame;
	struct str bytes;
	struct err err;
	uint32_t tag;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 >> 8);
	peer_start();
	assert_int_equal(
		link_stdin(rig.link, 7, (struct str){ big, sizeof(big) }, true, on_done, &a, &err),
		0);
	do {
		frame = peer_expect(AGENT_STDIN);
		assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
		assert_memory_equal(bytes.p, big + total, bytes.n);
		total += bytes.n;
		assert_int_equal(frame.flags,
				 total < sizeof(big) ? AGENT_STDIN_MORE : AGENT_STDIN_WAIT);
		assert_int_equal(tag, total < sizeof(big) ? 0 : 1);
	} while (total < sizeof(big));
	peer_expect_silence();
	peer_say_done(tag, AGENT_REFUSED_STDIN_FULL);
	peer_turn();
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.err.code, ERR_QUOTA_EXCEEDED);
}

/* The agent does not read: a whole write is queued, or nothing. */
static void test_stdin_capacity(void **state)
{
	static char big[AGENT_STDIN_MAX_BYTES + 1];
	struct answer a = { 0 }, refused = { 0 };
	size_t sent = 3U << 20, total = 0;
	struct frame frame;
	struct str bytes;
	struct err err;
	uint32_t tag;

	peer_start();
	assert_int_equal(
		link_stdin(rig.link, 7, (struct str){ big, sizeof(big) }, false, NULL, NULL, &err),
		-1);
	assert_int_equal(err.code, ERR_PAYLOAD_TOO_LARGE);
	assert_int_equal(
		link_stdin(rig.link, 7, (struct str){ big, sent }, false, on_done, &a, &err), 0);
	assert_int_equal(link_stdin(rig.link, 7, (struct str){ big, AGENT_STDIN_MAX_BYTES }, false,
				    on_done, &refused, &err),
			 -1);
	assert_int_equal(err.code, ERR_CAPACITY_EXCEEDED);
	do {
		frame = peer_expect(AGENT_STDIN);
		assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
		total += bytes.n;
	} while (total < sent);
	assert_int_equal(total, sent);
	peer_expect_silence();
	rig_drop_link(&rig);
	assert_int_equal(a.calls, 1);
	assert_int_equal(refused.calls, 0);
}

/* A stream of input: bytes that the socket does not take at once wait, and stay in order. */
static void test_feed(void **state)
{
	static char big[300000];
	struct answer all[12] = { { 0 } }, small = { 0 };
	uint32_t tag, last_tag = 0;
	struct frame frame;
	struct str bytes;
	struct err err;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 13 >> 7);
	peer_start();
	assert_int_equal(link_feed(rig.link, 7, STR_LIT(""), STR_LIT(""), NULL, NULL, &err), -1);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(link_feed(rig.link, 7, STR_LIT("head"),
					   (struct str){ big, sizeof(big) }, on_done, &all[i],
					   &err),
				 0);
	assert_int_equal(link_close_stdin(rig.link, 7, on_done, &small, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		frame = peer_expect(AGENT_STDIN);
		assert_int_equal(frame.flags, AGENT_STDIN_WAIT);
		assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
		assert_int_equal(bytes.n, 4 + sizeof(big));
		assert_memory_equal(bytes.p, "head", 4);
		assert_memory_equal(bytes.p + 4, big, sizeof(big));
		assert_true(tag > last_tag);
		last_tag = tag;
	}
	(void)peer_expect(AGENT_CLOSE_STDIN);
	for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
		peer_say_done(i + 1, 0);
	peer_turn();
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(all[i].calls, 1);
}

/* The agent does not read: at the limit a piece is refused as a whole. */
static void test_feed_capacity(void **state)
{
	static char big[500000];
	struct answer all[64] = { { 0 } };
	size_t taken = 0;
	struct frame frame;
	struct str bytes;
	struct err err;
	uint32_t tag;

	peer_start();
	while (taken < ARRAY_LEN(all) &&
	       link_feed(rig.link, 7, STR_LIT("h"), (struct str){ big, sizeof(big) }, on_done,
			 &all[taken], &err) == 0)
		taken++;
	assert_in_range(taken, 8, 20);
	assert_int_equal(err.code, ERR_CAPACITY_EXCEEDED);
	for (size_t i = 0; i < taken; i++) {
		frame = peer_expect(AGENT_STDIN);
		assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
		assert_int_equal(bytes.n, sizeof(big) + 1);
	}
	peer_expect_silence();
}

/* ---- lists ---- */

struct list {
	int ends;
	unsigned count;
	struct err err;
	struct link_process_info last;
	char name[300], user[300], command[300];
	bool free_link;
};

static void on_listed(void *arg, const struct link_process_info *info, const struct err *error)
{
	struct list *l = arg;

	if (!info) {
		l->ends++;
		l->err = error ? *error : (struct err){ .code = ERR_OK };
		return;
	}
	l->count++;
	l->last = *info;
	assert_int_equal(str_copy(l->name, sizeof(l->name), str_of(info->name)), 0);
	assert_int_equal(str_copy(l->user, sizeof(l->user), str_of(info->user)), 0);
	assert_int_equal(str_copy(l->command, sizeof(l->command), str_of(info->command)), 0);
	if (l->free_link)
		link_free(TAKE_PTR(rig.link));
}

static void say_listed(uint32_t tag, uint32_t from, uint32_t count, bool last, const char *command)
{
	struct agent_listed listed = { .pid = 5,
				       .flags = AGENT_PROCESS_TTY | AGENT_PROCESS_WINDOW |
						AGENT_PROCESS_BUSY,
				       .cols = 80,
				       .rows = 24,
				       .start_ms = 6,
				       .out_begin = 7,
				       .status = { .out_total = 8 },
				       .run = 9,
				       .run_cursor = 8,
				       .idle_ms = 10,
				       .name = STR_LIT("main"),
				       .user = STR_LIT("ro\not"),
				       .command = str_of(command) };
	struct agent_listing listing;
	struct buf buf;

	buf_init(&buf, 4U << 20);
	assert_int_equal(agent_listing_begin(&listing, &buf, tag), 0);
	for (uint32_t i = 0; i < count; i++) {
		listed.process_id = from + i;
		assert_int_equal(agent_listing_add(&listing, &listed), 0);
	}
	agent_listing_end(&listing, last);
	peer_say_buf(&buf);
}

static void ask_list(struct list *l, uint32_t process_id)
{
	struct err err;

	*l = (struct list){ 0 };
	if (!rig.ready)
		peer_start();
	assert_int_equal(link_list(rig.link, process_id, on_listed, l, &err), 0);
}

static void test_list(void **state)
{
	struct frame frame;
	struct list l;
	uint32_t tag;

	ask_list(&l, 0);
	frame = peer_expect(AGENT_LIST);
	assert_int_equal(agent_get_tag(&frame, &tag), 0);
	assert_int_equal(frame.process_id, 0);
	say_listed(tag, 1, 10, false, "a");
	say_listed(tag, 11, 20, true, "\033]0;x\007 \xc2\x9b \xc3\xa4 \xe2\x82");
	peer_turn();
	assert_int_equal(l.ends, 1);
	assert_int_equal(l.err.code, ERR_OK);
	assert_int_equal(l.count, 30);
	assert_int_equal(l.last.process_id, 30);
	assert_string_equal(l.name, "main");
	assert_string_equal(l.user, "ro?ot");
	assert_string_equal(l.command, "?]0;x? ?? \xc3\xa4 ");
	assert_true(l.last.tty && l.last.window && l.last.busy);
	assert_false(l.last.collect || l.last.stdin_open);
	assert_int_equal(l.last.start_ms, 6);
	assert_int_equal(l.last.out_begin, 7);
	assert_int_equal(l.last.status.out_total, 8);
	assert_int_equal(l.last.run, 9);
	assert_int_equal(l.last.idle_ms, 10);
}

static void test_list_one(void **state)
{
	struct list l;

	ask_list(&l, 7);
	say_listed(1, 7, 1, true, "\xff\xfe"); /* not text at all */
	peer_turn();
	assert_int_equal(l.count, 1);
	assert_string_equal(l.command, "");
	ask_list(&l, 7);
	say_listed(2, 7, 0, true, "");
	peer_turn();
	assert_int_equal(l.ends, 1);
	assert_int_equal(l.err.code, ERR_PROCESS_NOT_FOUND);
	ask_list(&l, 7);
	peer_say_done(3, AGENT_REFUSED_NO_PROCESS);
	peer_turn();
	assert_int_equal(l.ends, 1);
	assert_int_equal(l.err.code, ERR_PROCESS_NOT_FOUND);
	ask_list(&l, 7);
	say_listed(4, 8, 1, true, "");
	peer_expect_breach("wrong processes");
	assert_int_equal(l.ends, 1);
	assert_int_equal(l.err.code, ERR_ENGINE_FAILED);
}

static void test_list_order(void **state)
{
	struct list l;

	ask_list(&l, 0);
	say_listed(1, 5, 1, false, "");
	say_listed(1, 5, 1, true, "");
	peer_expect_breach("wrong processes");
	assert_int_equal(l.count, 1);
}

static void test_list_of_the_future(void **state)
{
	struct list l;

	ask_list(&l, 0);
	say_listed(1, PEER_FIRST_ID, 1, true, "");
	peer_expect_breach("wrong processes");
}

static void test_list_without_end(void **state)
{
	struct list l;

	ask_list(&l, 0);
	say_listed(1, 1, 1, false, "");
	say_listed(1, 2, 0, false, "");
	peer_expect_breach("bad list");
	assert_int_equal(l.ends, 1);
}

/* The maximum number is accepted, one more is not. */
static void test_list_limit(void **state)
{
	struct agent_hello hello = { .version = AGENT_PROTOCOL_VERSION, .next_process_id = 10000 };
	struct list l;
	struct buf buf;

	buf_init(&buf, 1000);
	assert_int_equal(agent_put_hello(&buf, &hello), 0);
	peer_say_buf(&buf);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
	ask_list(&l, 0);
	for (uint32_t i = 0; i < 4; i++)
		say_listed(1, 1 + i * 1024, 1024, i == 3, "x");
	peer_turn();
	assert_int_equal(l.count, 4096);
	assert_int_equal(l.ends, 1);
	ask_list(&l, 0);
	for (uint32_t i = 0; i < 4; i++)
		say_listed(2, 1 + i * 1024, 1024, false, "x");
	say_listed(2, 4097, 1, true, "x");
	peer_expect_breach("without end");
	assert_int_equal(l.count, 4096);
	assert_int_equal(l.ends, 1);
}

static void test_list_not_asked(void **state)
{
	struct answer a = { 0 };
	struct err err;

	peer_start();
	assert_int_equal(link_close_stdin(rig.link, 7, on_done, &a, &err), 0);
	say_listed(1, 1, 1, true, "");
	peer_expect_breach("unexpected");
}

static void test_list_done(void **state)
{
	struct list l;

	ask_list(&l, 0);
	peer_say_done(1, 0);
	peer_expect_breach("wrong kind");
	assert_int_equal(l.ends, 1);
}

static void test_list_frees(void **state)
{
	struct list l;

	ask_list(&l, 0);
	l.free_link = true;
	say_listed(1, 1, 3, true, "");
	peer_turn();
	assert_int_equal(l.count, 1);
	assert_int_equal(l.ends, 1);
	assert_int_equal(l.err.code, ERR_SANDBOX_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_setup, peer_teardown)
		T(test_requests),
		T(test_bad_requests),
		T(test_refusals),
		T(test_unexpected_answers),
		T(test_answered_twice),
		T(test_gone),
		T(test_stdin_pieces),
		T(test_feed),
		T(test_feed_capacity),
		T(test_stdin_capacity),
		T(test_list),
		T(test_list_one),
		T(test_list_order),
		T(test_list_of_the_future),
		T(test_list_without_end),
		T(test_list_limit),
		T(test_list_not_asked),
		T(test_list_done),
		T(test_list_frees),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
