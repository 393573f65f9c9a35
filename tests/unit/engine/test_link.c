/* SPDX-License-Identifier: Apache-2.0 */
/* The link against an agent that violates the protocol. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "peer.h"

static void start(struct rig_result *r)
{
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv, .argv_field = "argv", .output_max_bytes = 10 };

	peer_start();
	rig_exec(&rig, &exec, r);
	assert_int_equal(r->process_id, 41);
}

static void expect_breach(struct rig_result *r)
{
	peer_expect_gone(ERR_ENGINE_FAILED, "the agent broke the protocol");
	assert_int_equal(r->deliveries, 1);
	assert_int_equal(r->result.status.end, LINK_END_GONE);
	assert_int_equal(r->err.code, ERR_ENGINE_FAILED);
	rig_result_done(r);
}

static void test_no_hello(void **state)
{
	peer_expect_gone(ERR_BOOT_FAILED, "in time");
}

static void test_early_end(void **state)
{
	(void)shutdown(peer, SHUT_RDWR);
	peer_expect_gone(ERR_BOOT_FAILED, "ended before");
}

static void test_boot_failed(void **state)
{
	char packed[AGENT_BOOT_FAILED_SIZE];

	agent_pack_boot_failed(packed, 5, EPERM, "mount");
	peer_say(packed, sizeof(packed));
	peer_expect_gone(ERR_BOOT_FAILED, "step 5 (mount)");
	assert_int_equal(rig.why.errno_value, EPERM);
}

static void test_other_version(void **state)
{
	peer_say_hello(AGENT_PROTOCOL_VERSION + 1);
	peer_expect_gone(ERR_ENGINE_FAILED, "protocol 3");
}

static void test_output_before_hello(void **state)
{
	peer_say_output(1, 0, AGENT_STREAM_OUT, 0, "x");
	peer_expect_gone(ERR_ENGINE_FAILED, "no hello");
}

static void test_garbage(void **state)
{
	peer_say("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
	peer_expect_gone(ERR_ENGINE_FAILED, "bad frame header");
}

static void test_not_ready(void **state)
{
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv };
	uint32_t id;
	struct err err;

	assert_false(link_ready(rig.link));
	assert_int_equal(link_exec(rig.link, &exec, NULL, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static void test_second_hello(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_hello(AGENT_PROTOCOL_VERSION);
	expect_breach(&r);
}

static void test_foreign_process(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_exit(42, 0);
	expect_breach(&r);
}

static void test_gap(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_output(41, 0, AGENT_STREAM_OUT, 1, "x");
	expect_breach(&r);
}

static void test_too_much(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_output(41, 0, AGENT_STREAM_OUT, 0, "0123456789");
	peer_say_output(41, 0, AGENT_STREAM_OUT, 10, "x");
	expect_breach(&r);
}

static void test_total_too_small(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_output(41, 0, AGENT_STREAM_OUT, 0, "abc");
	peer_say_exit(41, 2);
	expect_breach(&r);
}

static void test_exit_twice(void **state)
{
	struct rig_result r;

	start(&r);
	peer_say_exit(41, 0);
	peer_say_exit(41, 0); /* abandoned: no callback */
	rig_wait_exec(&rig, &r, 1000);
	loop_turn(rig.loop, 10);
	assert_int_equal(r.deliveries, 1);
	assert_int_equal(r.result.status.end, LINK_END_EXIT);
	assert_false(rig.gone);
	rig_result_done(&r);
}

/* Split at every byte, the frames are the same. */
static void test_byte_by_byte(void **state)
{
	struct agent_output output = { 41, 0, AGENT_STREAM_OUT, 0, STR_LIT("torn") };
	struct agent_exit e = { .process_id = 41,
				.status = { .end = AGENT_END_EXIT, .out_total = 4 } };
	struct rig_result r;
	struct buf buf;

	start(&r);
	buf_init(&buf, 1000);
	assert_int_equal(agent_put_output(&buf, &output), 0);
	assert_int_equal(agent_put_exit(&buf, &e), 0);
	for (size_t i = 0; i < buf_len(&buf); i++) {
		peer_say(buf_data(&buf) + i, 1);
		loop_turn(rig.loop, 0);
	}
	buf_done(&buf);
	rig_wait_exec(&rig, &r, 1000);
	assert_string_equal(buf_data(&r.out), "torn");
	assert_false(rig.gone);
	rig_result_done(&r);
}

/* The detail of a refusal comes from inside: none of its control bytes may reach a person. */
static void test_hostile_refusal(void **state)
{
	struct agent_refused refused = { 41, AGENT_REFUSED_NOT_FOUND, ENOENT,
					 STR_LIT("\033[2J\nx\xff") };
	struct rig_result r;
	struct buf buf;

	start(&r);
	buf_init(&buf, 1000);
	assert_int_equal(agent_put_refused(&buf, &refused), 0);
	peer_say_buf(&buf);
	rig_wait_exec(&rig, &r, 1000);
	assert_int_equal(r.result.status.end, LINK_END_REFUSED);
	assert_int_equal(r.result.status.exit_code, 127);
	assert_string_equal(r.err.message, "argv: no such program: ?[2J?x");
	rig_result_done(&r);
}

static void ignore(void *arg, const struct link_result *result, const struct err *err)
{
	(void)arg;
	(void)result;
	(void)err;
}

/*
 * An agent that does not read: requests are queued up to the limit, then the caller gets an error.
 */
static void test_capacity(void **state)
{
	static char big[900000];
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv, .stdin_bytes = { big, sizeof(big) } };
	struct rig_result r[10];
	struct err err = { 0 };
	int n, more = 0;
	uint32_t id;

	peer_start();
	for (n = 0; n < 4; n++)
		rig_exec(&rig, &exec, &r[n]);
	/* How many more fit depends on the host's socket buffers. */
	while (more < 6 && link_exec(rig.link, &exec, ignore, NULL, &id, &err) == 0)
		more++;
	assert_true(more < 6);
	assert_int_equal(err.code, ERR_CAPACITY_EXCEEDED);
	rig_drop_link(&rig);
	for (int i = 0; i < n; i++) {
		assert_int_equal(r[i].result.status.end, LINK_END_GONE);
		rig_result_done(&r[i]);
	}
}

static void test_refused_arguments(void **state)
{
	static char big[1 << 20];
	const char *const none[] = { NULL }, *const large[] = { big, NULL };
	struct link_exec exec = { .argv = none };
	struct err err;
	uint32_t id;

	memset(big, 'x', sizeof(big) - 1);
	peer_start();
	assert_int_equal(link_exec(rig.link, &exec, NULL, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	exec.argv = large;
	assert_int_equal(link_exec(rig.link, &exec, NULL, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_PAYLOAD_TOO_LARGE);
}

/* The waiting caller has gone: the agent is informed, and its later frames are ignored. */
static void test_detach(void **state)
{
	struct rig_result r;
	struct frame frame;

	start(&r);
	(void)peer_expect(AGENT_EXEC);
	link_detach(rig.link, 41);
	link_detach(rig.link, 41);
	link_detach(rig.link, 7);
	frame = peer_expect(AGENT_DETACH);
	assert_int_equal(frame.process_id, 41);
	peer_expect_silence();
	peer_say_output(41, 0, AGENT_STREAM_OUT, 0, "late");
	peer_say_exit(41, 4);
	peer_turn();
	assert_false(rig.gone);
	assert_int_equal(r.deliveries, 0);
	rig_drop_link(&rig);
	assert_int_equal(r.deliveries, 0);
	rig_result_done(&r);
}

static void say_saved(const char *path)
{
	struct agent_exit e = { .process_id = 41,
				.status = { .end = AGENT_END_EXIT, .out_total = 100 },
				.saved = str_of(path),
				.saved_all = true };
	struct buf buf;

	buf_init(&buf, 1000);
	assert_int_equal(agent_put_exit(&buf, &e), 0);
	peer_say_buf(&buf);
}

static char saved_path[300];

static void on_saved(void *arg, const struct link_result *result, const struct err *error)
{
	assert_true(result->full_output_complete);
	assert_int_equal(str_copy(saved_path, sizeof(saved_path), str_of(result->full_output)), 0);
}

static void test_saved(void **state)
{
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv, .save = true, .output_max_bytes = 10 };
	struct frame frame;
	struct err err;
	uint32_t id;

	peer_start();
	assert_int_equal(link_exec(rig.link, &exec, on_saved, NULL, &id, &err), 0);
	frame = peer_expect(AGENT_EXEC);
	assert_int_equal(frame.flags, AGENT_EXEC_COLLECT | AGENT_EXEC_SAVE);
	say_saved("/tmp/\xc3\xa4");
	peer_turn();
	assert_string_equal(saved_path, "/tmp/\xc3\xa4");
}

static void test_hostile_path(void **state)
{
	struct rig_result r;

	start(&r);
	say_saved("/tmp/\033[2J");
	expect_breach(&r);
}

/* The table handles many, and each completes once. */
static void test_many_execs(void **state)
{
	static struct rig_result r[1000];
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv };

	peer_start();
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		rig_exec(&rig, &exec, &r[i]);
	for (size_t i = 0; i < ARRAY_LEN(r); i += 2)
		peer_say_exit(41 + (uint32_t)i, 0);
	for (size_t i = 0; i < ARRAY_LEN(r); i += 2)
		rig_wait_exec(&rig, &r[i], 2000);
	rig_drop_link(&rig);
	for (size_t i = 0; i < ARRAY_LEN(r); i++) {
		assert_int_equal(r[i].deliveries, 1);
		assert_int_equal(r[i].result.status.end, i % 2 ? LINK_END_GONE : LINK_END_EXIT);
		rig_result_done(&r[i]);
	}
}

static void on_detach_other(void *arg, const struct link_result *result, const struct err *error)
{
	uint32_t *ids = arg;

	link_detach(rig.link, ids[0]);
	link_detach(rig.link, ids[1]);
	ids[2]++;
}

/* Abandoning works even while everything is being completed. */
static void test_detach_while_dropping(void **state)
{
	static const char *const argv[] = { "x", NULL };
	struct link_exec exec = { .argv = argv };
	uint32_t ids[3] = { 0 };
	struct err err;

	peer_start();
	for (int i = 0; i < 2; i++)
		assert_int_equal(link_exec(rig.link, &exec, on_detach_other, ids, &ids[i], &err),
				 0);
	(void)shutdown(peer, SHUT_RDWR);
	peer_expect_gone(ERR_SANDBOX_GONE, "ended");
	assert_int_equal(ids[2], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, peer_setup, peer_teardown)
		T(test_no_hello),
		T(test_early_end),
		T(test_boot_failed),
		T(test_other_version),
		T(test_output_before_hello),
		T(test_garbage),
		T(test_not_ready),
		T(test_second_hello),
		T(test_foreign_process),
		T(test_gap),
		T(test_too_much),
		T(test_total_too_small),
		T(test_exit_twice),
		T(test_byte_by_byte),
		T(test_hostile_refusal),
		T(test_capacity),
		T(test_refused_arguments),
		T(test_detach),
		T(test_saved),
		T(test_hostile_path),
		T(test_many_execs),
		T(test_detach_while_dropping),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
