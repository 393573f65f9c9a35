/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine with a warden that is played here: what it asks, and what becomes of answers,
 * good and bad. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "engine/native/warden.h"
#include "sys/rights.h"

static char state_dir[32];
static int listen_fd, warden_fd;
static struct loop *loop;
static struct engine *engine;
static struct engine_capabilities can;
static int readies, losses, backs, rejected, answers, listed;
static struct err answer;
static struct engine_made made;
static struct engine_stat stat_seen;

static void on_ready(void *arg, const struct engine_capabilities *now)
{
	(void)arg;
	can = *now;
	readies++;
}

static void on_lost(void *arg, const struct err *why)
{
	(void)arg;
	(void)why;
	losses++;
}

static void on_back(void *arg, const struct engine_capabilities *now)
{
	(void)arg;
	can = *now;
	backs++;
}

static void on_rejected(void *arg, uint32_t address, uint32_t to, uint16_t port, uint8_t protocol)
{
	(void)arg;
	assert_int_equal(address, 0x64400002);
	assert_int_equal(to, 0x08080808);
	assert_int_equal(port, 53);
	assert_int_equal(protocol, 17);
	rejected++;
}

static void note(const struct err *err)
{
	answer = err ? *err : (struct err){ .code = ERR_OK };
	answers++;
}

static void on_made(void *arg, const struct engine_made *got, const struct err *err)
{
	(void)arg;
	made = *got;
	note(err);
}

static void on_done(void *arg, const struct err *err)
{
	(void)arg;
	note(err);
}

static void on_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	(void)arg;
	stat_seen = *stat;
	note(err);
}

static void on_each(void *arg, const char *id, const struct err *err)
{
	(void)arg;
	if (id)
		listed++;
	else
		note(err);
}

/* Turns the loop until the condition holds; the test's own time limit is the last resort. */
#define UNTIL(condition)     \
	while (!(condition)) \
	loop_turn(loop, 5)

static struct warden_request next_request(void)
{
	uint8_t bytes[WARDEN_REQUEST_SIZE];
	struct warden_request req;
	ssize_t n;

	while ((n = recv(warden_fd, bytes, sizeof(bytes), MSG_DONTWAIT)) < 0) {
		assert_int_equal(errno, EAGAIN);
		loop_turn(loop, 5);
	}
	assert_int_equal(warden_request_decode(bytes, (size_t)n, &req), 0);
	return req;
}

static void reply(const struct warden_reply *reply, const int *fds, size_t count)
{
	uint8_t bytes[WARDEN_REPLY_SIZE];

	warden_reply_encode(bytes, reply);
	assert_int_equal(rights_send(warden_fd, bytes, sizeof(bytes), fds, count, 0),
			 sizeof(bytes));
}

static void greet(uint32_t capabilities)
{
	const struct warden_reply hello = { .op = WARDEN_HELLO,
					    .capabilities = capabilities,
					    .address = 0x64400001 };

	while ((warden_fd = accept(listen_fd, NULL, NULL)) < 0)
		loop_turn(loop, 5);
	assert_int_equal(next_request().op, WARDEN_HELLO);
	reply(&hello, NULL, 0);
}

static int setup(void **state)
{
	struct engine_config config;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct err err;

	(void)state;
	(void)strcpy(state_dir, "/tmp/cay-native-XXXXXX");
	if (!mkdtemp(state_dir) || loop_new(&loop) < 0)
		return -1;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/warden.sock", state_dir);
	listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(listen_fd, 4) < 0)
		return -1;
	readies = losses = backs = rejected = answers = listed = 0;
	config = (struct engine_config){ .loop = loop,
					 .state_dir = state_dir,
					 .template_dir = state_dir,
					 .recipes_fd = -1,
					 .on_ready = on_ready,
					 .on_lost = on_lost,
					 .on_back = on_back,
					 .on_rejected = on_rejected };
	if (engine_native.open(&config, &engine, &err) < 0)
		return -1;
	greet(WARDEN_CAN_ISOLATE | WARDEN_CAN_PAUSE);
	UNTIL(readies);
	return 0;
}

static int teardown(void **state)
{
	char path[64];

	(void)state;
	if (engine)
		engine_native.close(engine);
	loop_free(loop);
	if (warden_fd >= 0)
		(void)close(warden_fd);
	(void)close(listen_fd);
	(void)snprintf(path, sizeof(path), "%s/warden.sock", state_dir);
	(void)unlink(path);
	return rmdir(state_dir);
}

static void capabilities_follow_the_warden(void **state)
{
	struct warden_reply hello = { .op = WARDEN_HELLO,
				      .capabilities = WARDEN_CAN_ISOLATE | WARDEN_CAN_PAUSE };

	(void)state;
	assert_int_equal(can.flags, ENGINE_ISOLATES | ENGINE_OWN_TREE);
	assert_null(can.missing[ENGINE_TABLE_FREEZE]);
	assert_non_null(can.missing[ENGINE_TABLE_SNAPSHOT]);
	assert_non_null(can.missing[ENGINE_TABLE_NETWORK]);
	reply(&hello, NULL, 0); /* the same again: not reported */
	hello.capabilities |= WARDEN_CAN_SNAPSHOT;
	reply(&hello, NULL, 0);
	UNTIL(readies == 2);
	assert_null(can.missing[ENGINE_TABLE_SNAPSHOT]);
}

static void a_sandbox_comes_with_its_descriptors_and_addresses(void **state)
{
	struct engine_spec spec = { .id = "one",
				    .limits = { 1000, 256, 1024, 100 },
				    .link = ENGINE_LINK_PROXY };
	struct warden_request req;
	struct warden_reply done = { .op = WARDEN_CREATE, .address = 0x64400007 };
	int fds[2] = { open("/dev/null", O_RDONLY), open("/dev/null", O_RDONLY) };
	struct err err;

	(void)state;
	(void)strcpy(spec.image.name, "base");
	memset(spec.image.hash, 7, sizeof(spec.image.hash));
	assert_int_equal(engine_native.create(engine, &spec, on_made, NULL, &err), 0);
	req = next_request();
	assert_int_equal(req.op, WARDEN_CREATE);
	assert_string_equal(req.id, "one");
	assert_int_equal(req.limits.memory_mb, 256);
	assert_int_equal(req.limits.network, WARDEN_LINK_PROXY);
	assert_memory_equal(req.template_hash, spec.image.hash, sizeof(req.template_hash));
	done.tag = req.tag;
	assert_int_equal(answers, 0);
	reply(&done, fds, 2);
	UNTIL(answers);
	assert_int_equal(answer.code, ERR_OK);
	assert_true(made.channel.fd >= 0 && made.watch_fd >= 0);
	assert_true(made.channel.passes_descriptors);
	assert_int_equal(made.network.address, 0x64400007);
	assert_int_equal(made.network.gateway, 0x64400001);
	assert_int_equal(made.network.sink, 0x6440fffe);
	engine_made_close(&made);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void errors_of_the_warden_have_codes(void **state)
{
	static const struct {
		int error;
		enum err_code code;
	} rows[] = {
		{ -ENOENT, ERR_SANDBOX_NOT_FOUND },
		{ -ESRCH, ERR_SANDBOX_GONE },
		{ -EEXIST, ERR_CONFLICT },
		{ -ENOSPC, ERR_CAPACITY_EXCEEDED },
		{ -EOPNOTSUPP, ERR_UNSUPPORTED_BY_ENGINE },
		{ -EIO, ERR_ENGINE_FAILED },
		{ -ENODATA, ERR_SNAPSHOT_NOT_FOUND },
		{ -EKEYREJECTED, ERR_SNAPSHOT_REFUSED },
	};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct warden_reply failed = { .op = WARDEN_DESTROY,
					       .error = rows[i].error,
					       .step = "a step" };

		answers = 0;
		assert_int_equal(engine_native.destroy(engine, "one", on_done, NULL, &err), 0);
		failed.tag = next_request().tag;
		reply(&failed, NULL, 0);
		UNTIL(answers);
		assert_int_equal(answer.code, rows[i].code);
		if (rows[i].error == -EIO)
			assert_non_null(strstr(answer.message, "one: a step"));
	}
}

static void figures_of_a_sandbox_are_passed_on(void **state)
{
	struct warden_reply figures = { .op = WARDEN_STAT,
					.alive = 1,
					.oom_kills = 2,
					.memory_bytes = 3,
					.cpu_us = 4,
					.pids = 5,
					.disk_bytes = 6,
					.sent_bytes = 7 };
	struct err err;

	(void)state;
	assert_int_equal(engine_native.stat(engine, "one", on_stat, NULL, &err), 0);
	figures.tag = next_request().tag;
	reply(&figures, NULL, 0);
	UNTIL(answers);
	assert_true(stat_seen.alive && stat_seen.oom_killed && !stat_seen.paused);
	assert_int_equal(stat_seen.memory_bytes, 3);
	assert_int_equal(stat_seen.disk_bytes, 6);
	assert_int_equal(stat_seen.sent_bytes, 7);
}

static void a_list_ends_with_its_last_reply(void **state)
{
	struct warden_reply one = { .op = WARDEN_LIST, .more = 1, .id = "one" };
	const struct warden_reply rejected_packet = { .op = WARDEN_DENIED,
						      .address = 0x64400002,
						      .to_address = 0x08080808,
						      .to_port = 53,
						      .protocol = 17 };
	struct err err;

	(void)state;
	assert_int_equal(engine_native.list(engine, on_each, NULL, &err), 0);
	one.tag = next_request().tag;
	reply(&one, NULL, 0);
	reply(&rejected_packet, NULL, 0); /* in between */
	reply(&one, NULL, 0);
	one.more = 0;
	reply(&one, NULL, 0);
	UNTIL(answers);
	assert_int_equal(listed, 2);
	assert_int_equal(rejected, 1);
	assert_int_equal(answer.code, ERR_OK);
}

static void what_is_out_of_bounds_is_never_sent(void **state)
{
	struct engine_spec spec = { .id = "Not A Label", .limits = { 1000, 256, 1024, 100 } };
	char longest[200];
	struct err err = { .code = ERR_OK };

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(engine_native.create(engine, &spec, on_made, NULL, &err), -1);
	assert_int_not_equal(err.code, ERR_OK);
	assert_int_equal(engine_native.destroy(engine, longest, on_done, NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(recv(warden_fd, longest, sizeof(longest), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void a_warden_that_goes_away_fails_what_is_open_and_comes_back(void **state)
{
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(engine_native.destroy(engine, "one", on_done, NULL, &err), 0);
	(void)next_request();
	(void)close(warden_fd);
	UNTIL(answers);
	assert_int_equal(answer.code, ERR_UNAVAILABLE);
	assert_int_equal(losses, 1);
	assert_int_equal(engine_native.destroy(engine, "one", on_done, NULL, &err),
			 -1); /* at once */
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	greet(WARDEN_CAN_ISOLATE | WARDEN_CAN_SURVIVE);
	UNTIL(backs);
	assert_int_equal(readies, 1);
	assert_true(can.flags & ENGINE_SURVIVES);
}

static void a_breach_of_the_protocol_ends_the_connection(void **state)
{
	struct warden_reply bad = { .op = WARDEN_STAT };
	struct err err;

	(void)state;
	assert_int_equal(engine_native.destroy(engine, "one", on_done, NULL, &err), 0);
	bad.tag = next_request().tag; /* the answer to something else */
	reply(&bad, NULL, 0);
	UNTIL(answers);
	assert_int_equal(answer.code, ERR_UNAVAILABLE);
	(void)close(warden_fd);
	greet(WARDEN_CAN_ISOLATE);
	UNTIL(backs == 1);
	assert_int_equal(send(warden_fd, "x", 1, 0), 1); /* no reply at all */
	UNTIL(losses == 2);
}

static void open_calls_complete_when_the_engine_is_closed(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(engine_native.destroy(engine, "one", on_done, NULL, &err), 0);
	engine_native.close(TAKE_PTR(engine));
	assert_int_equal(answers, 1);
	assert_int_equal(answer.code, ERR_UNAVAILABLE);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(capabilities_follow_the_warden),
		T(a_sandbox_comes_with_its_descriptors_and_addresses),
		T(errors_of_the_warden_have_codes),
		T(figures_of_a_sandbox_are_passed_on),
		T(a_list_ends_with_its_last_reply),
		T(what_is_out_of_bounds_is_never_sent),
		T(a_warden_that_goes_away_fails_what_is_open_and_comes_back),
		T(a_breach_of_the_protocol_ends_the_connection),
		T(open_calls_complete_when_the_engine_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
