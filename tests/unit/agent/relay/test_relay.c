/* SPDX-License-Identifier: Apache-2.0 */
/* Relays frame by frame: numbers, credit, ends and limits. The test is the daemon, and a pair of
 * sockets each connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/time.h"

#define WINDOW RELAY_WINDOW_BYTES

static struct agent *agent;
static int far_fd = -1;	 /* the program inside */
static int dial_result;	 /* of dial_connect() */
static int watch_result; /* of agent_watch() */
static int dials;

/* What relay.c calls of the rest of the agent. */
int agent_watch(struct agent *a, int op, int fd, uint32_t events, enum agent_event event,
		uint32_t id)
{
	(void)a;
	(void)op;
	(void)fd;
	(void)events;
	(void)event;
	(void)id;
	return watch_result;
}

int dial_connect(uint16_t port, bool v6, int *ret_fd)
{
	int fds[2];

	(void)port;
	(void)v6;
	dials++;
	if (dial_result < 0 && dial_result != -EINPROGRESS)
		return dial_result;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	if (far_fd >= 0)
		(void)close(far_fd);
	far_fd = fds[0];
	*ret_fd = fds[1];
	return dial_result;
}

void conn_send(struct agent *a, const void *p, size_t n)
{
	assert_int_equal(buf_append(&a->out, p, n), 0);
}

static int setup(void **state)
{
	(void)state;
	agent = calloc(1, sizeof(*agent));
	agent->conn_fd = 0;
	buf_init(&agent->out, 4 << 20);
	relay_init(agent);
	dial_result = watch_result = dials = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	relay_drop_all(agent);
	assert_int_equal(agent->relays.count, 0);
	assert_null(agent->relays.ready);
	buf_done(&agent->out);
	free(agent);
	if (far_fd >= 0)
		(void)close(TAKE_FD(far_fd));
	return 0;
}

/* A frame from the daemon. */
static int say(struct stream_frame f)
{
	struct frame frame;
	struct buf b;
	int r;

	buf_init(&b, 1 << 20);
	assert_int_equal(stream_put(&b, &f), 0);
	assert_int_equal(frame_next(buf_str(&b), 1 << 20, &frame), 1);
	r = relay_on_frame(agent, &frame);
	buf_done(&b);
	return r;
}

/* The next frame to the daemon; its bytes stay until the next call. */
static struct stream_frame heard(void)
{
	static char bytes[FRAME_HEADER_SIZE + STREAM_DATA_MAX];
	struct stream_frame ret;
	struct frame frame;

	assert_int_equal(frame_next(buf_str(&agent->out), 1 << 20, &frame), 1);
	memcpy(bytes, buf_data(&agent->out), frame_size(&frame));
	buf_consume(&agent->out, frame_size(&frame));
	assert_int_equal(frame_next((struct str){ bytes, frame_size(&frame) }, 1 << 20, &frame), 1);
	assert_int_equal(stream_get(&frame, &ret), 0);
	return ret;
}

static void check_heard(enum stream_type type, uint32_t id)
{
	struct stream_frame f = heard();

	assert_int_equal(f.type, type);
	assert_int_equal(f.stream, id);
}

/* An open one, number 1, with this much credit for what the program sends. */
static void open_one(uint32_t credit)
{
	struct stream_frame f;

	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_DIAL, .stream = 1, .port = 80, .credit = credit }),
			 0);
	relay_on_event(agent, 1, EPOLLOUT);
	f = heard();
	assert_int_equal(f.type, STREAM_OPENED);
	assert_int_equal(f.errno_value, 0);
	assert_int_equal(f.credit, WINDOW);
}

static int say_data(const char *bytes, size_t n)
{
	return say(
		(struct stream_frame){ .type = STREAM_DATA, .stream = 1, .bytes = { bytes, n } });
}

static void numbers_only_go_up(void **state)
{
	(void)state;
	open_one(WINDOW);
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_DIAL, .stream = 1, .port = 80, .credit = 1 }),
			 -EPROTO);
	assert_int_equal(
		say((struct stream_frame){ .type = STREAM_CREDIT, .stream = 3, .credit = 1 }),
		-EPROTO);
	assert_int_equal(say((struct stream_frame){ .type = STREAM_RESET, .stream = 1 }), 0);
	assert_int_equal(agent->relays.count, 0);
	assert_int_equal(say_data("late", 4), 0); /* of one that was: ignored */
	assert_int_equal(say((struct stream_frame){ .type = STREAM_END, .stream = 2 }),
			 -EPROTO); /* never offered */
}

static void a_port_that_nobody_serves_is_refused_with_its_error(void **state)
{
	struct stream_frame f;

	(void)state;
	dial_result = -ECONNREFUSED;
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_DIAL, .stream = 1, .port = 80, .credit = 1 }),
			 0);
	assert_int_equal(dials, 2); /* 127.0.0.1, then ::1 */
	f = heard();
	assert_int_equal(f.type, STREAM_OPENED);
	assert_int_equal(f.errno_value, ECONNREFUSED);
	assert_int_equal(agent->relays.count, 0);
	dial_result = 0;
	watch_result = -1; /* the event loop takes no more */
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_DIAL, .stream = 3, .port = 80, .credit = 1 }),
			 0);
	assert_int_equal(heard().errno_value, ENOMEM);
}

static void one_more_than_the_limit_is_refused(void **state)
{
	struct stream_frame f;

	(void)state;
	for (uint32_t i = 0; i < RELAYS_MAX; i++)
		assert_non_null(relay_new(agent, 2 * i + 2, -1, RELAY_OFFERED));
	assert_null(relay_new(agent, 9999, -1, RELAY_OFFERED));
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_DIAL, .stream = 1, .port = 80, .credit = 1 }),
			 0);
	f = heard();
	assert_int_equal(f.errno_value, EAGAIN);
	assert_int_equal(dials, 0);
	agent->relays.last_offer = 2;
	assert_int_equal(say((struct stream_frame){ .type = STREAM_RESET, .stream = 2 }), 0);
	assert_int_equal(agent->relays.count, RELAYS_MAX - 1);
}

/* What the daemon may send now. */
static size_t credit_heard(void)
{
	size_t credit = 0;

	while (buf_len(&agent->out)) {
		struct stream_frame f = heard();

		assert_int_equal(f.type, STREAM_CREDIT);
		credit += f.credit;
	}
	return credit;
}

static void what_a_program_does_not_take_is_kept_up_to_the_window(void **state)
{
	static char bytes[WINDOW];
	size_t granted = WINDOW, sent = 0, got = 0;
	ssize_t n;

	(void)state;
	open_one(WINDOW);
	memset(bytes, 'd', sizeof(bytes));
	while (granted) { /* until its socket and the window are full */
		assert_int_equal(say_data(bytes, granted), 0);
		sent += granted;
		granted = credit_heard();
	}
	assert_true(sent > WINDOW);
	assert_int_equal(say_data(bytes, 1), -EPROTO);
	do {
		n = recv(far_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		got += n > 0 ? (size_t)n : 0;
		relay_on_event(agent, 1, EPOLLOUT);
	} while (n > 0);
	assert_int_equal(got, sent);
	assert_true(credit_heard() > 0);
}

static void only_what_was_credited_is_read(void **state)
{
	struct stream_frame f;

	(void)state;
	open_one(3);
	assert_int_equal(send(far_fd, "abcdef", 6, 0), 6);
	assert_false(relay_pump(agent)); /* nothing is known to be there */
	relay_on_event(agent, 1, EPOLLIN);
	assert_true(relay_pump(agent));
	f = heard();
	assert_int_equal(f.type, STREAM_DATA);
	assert_int_equal(f.bytes.n, 3);
	assert_memory_equal(f.bytes.p, "abc", 3);
	assert_false(relay_pump(agent));
	assert_int_equal(
		say((struct stream_frame){ .type = STREAM_CREDIT, .stream = 1, .credit = 100 }), 0);
	assert_true(relay_pump(agent));
	assert_int_equal(heard().bytes.n, 3);
	assert_true(relay_pump(agent)); /* finds that there is no more */
	assert_false(relay_pump(agent));
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_CREDIT, .stream = 1, .credit = STREAM_WINDOW_MAX }),
			 -EPROTO);
}

static void it_is_over_when_both_directions_have_ended(void **state)
{
	char byte;

	(void)state;
	open_one(WINDOW);
	assert_int_equal(shutdown(far_fd, SHUT_WR), 0);
	relay_on_event(agent, 1, EPOLLIN | EPOLLRDHUP);
	assert_true(relay_pump(agent));
	check_heard(STREAM_END, 1);
	assert_int_equal(agent->relays.count, 1);
	assert_int_equal(say_data("x", 1), 0); /* the other direction continues */
	assert_int_equal(recv(far_fd, &byte, 1, 0), 1);
	assert_int_equal(say((struct stream_frame){ .type = STREAM_END, .stream = 1 }), 0);
	assert_int_equal(agent->relays.count, 0);
	assert_int_equal(recv(far_fd, &byte, 1, 0), 0);
}

static void nothing_comes_after_an_end(void **state)
{
	char byte;

	(void)state;
	open_one(WINDOW);
	assert_int_equal(say((struct stream_frame){ .type = STREAM_END, .stream = 1 }), 0);
	assert_int_equal(recv(far_fd, &byte, 1, 0), 0);
	assert_int_equal(say_data("x", 1), -EPROTO);
	assert_int_equal(say((struct stream_frame){ .type = STREAM_END, .stream = 1 }), -EPROTO);
}

static void a_program_that_is_gone_resets_the_stream(void **state)
{
	(void)state;
	open_one(WINDOW);
	(void)close(TAKE_FD(far_fd));
	assert_int_equal(say_data("x", 1), 0);
	check_heard(STREAM_RESET, 1);
	assert_int_equal(agent->relays.count, 0);
}

static void a_connection_that_takes_too_long_is_given_up(void **state)
{
	struct relay *relay;

	(void)state;
	dial_result = -EINPROGRESS;
	assert_int_equal(relay_sleep_ms(agent), -1);
	relay = relay_new(agent, 2, -1, RELAY_CONNECTING);
	relay->until_us = time_mono_us() + 1000000000;
	assert_true(relay_sleep_ms(agent) > 0);
	relay_run(agent);
	assert_int_equal(agent->relays.count, 1);
	relay->until_us = 1;
	relay_run(agent);
	assert_int_equal(agent->relays.count, 0);
	assert_int_equal(heard().errno_value, ETIMEDOUT);
	assert_int_equal(relay_sleep_ms(agent), -1);
}

static void an_offer_is_open_once_the_daemon_says_so(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	far_fd = fds[0];
	assert_non_null(relay_new(agent, 2, fds[1], RELAY_OFFERED));
	agent->relays.last_offer = 2;
	assert_int_equal(
		say((struct stream_frame){ .type = STREAM_OPENED, .stream = 2, .credit = 10 }), 0);
	assert_int_equal(
		say((struct stream_frame){ .type = STREAM_OPENED, .stream = 2, .credit = 10 }),
		-EPROTO);
	assert_int_equal(send(far_fd, "GET", 3, 0), 3);
	relay_on_event(agent, 2, EPOLLIN);
	assert_true(relay_pump(agent));
	check_heard(STREAM_DATA, 2);
}

static void an_offer_that_is_declined_is_closed(void **state)
{
	char byte;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	far_fd = fds[0];
	assert_non_null(relay_new(agent, 2, fds[1], RELAY_OFFERED));
	agent->relays.last_offer = 2;
	assert_int_equal(say((struct stream_frame){
				 .type = STREAM_OPENED, .stream = 2, .errno_value = EAGAIN }),
			 0);
	assert_int_equal(recv(far_fd, &byte, 1, 0), 0);
	assert_int_equal(agent->relays.count, 0);
}

/* ---- the proxy that programs find ---- */

static size_t count_env(const char **env)
{
	size_t n = 0;

	while (env[n])
		n++;
	return n;
}

static void proxy_variables_are_added_where_none_is_set(void **state)
{
	const char *env[3 + EGRESS_VARIABLES + 1] = { "PATH=/bin" };

	(void)state;
	egress_add_env(env, 1);
	assert_int_equal(count_env(env), 1 + EGRESS_VARIABLES);
	assert_string_equal(env[1], "http_proxy=http://127.0.0.1:3128");
	assert_string_equal(env[EGRESS_VARIABLES], "NO_PROXY=localhost,127.0.0.1,::1");
	env[0] = "HTTP_PROXY=http://own"; /* in either case, for both */
	env[1] = "no_proxy=";
	env[2] = "https_proxyx=1"; /* another name */
	egress_add_env(env, 3);
	assert_int_equal(count_env(env), 3 + 4);
	for (size_t i = 3; env[i]; i++)
		assert_true(strncmp(env[i], "http_", 5) != 0 && strncmp(env[i], "NO_", 3) != 0);
}

/* ---- the bridge ---- */

static void the_bridge_connects_its_input_and_output(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/cay-bridge-XXXXXX", text[16] = "";
	int listen_fd, fd, in[2], out[2], status;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", dir);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listen_fd, 1), 0);
	assert_int_equal(pipe(in) + pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)close(in[1]);
		_exit(bridge_run(address.sun_path));
	}
	(void)close(in[0]);
	(void)close(out[1]);
	fd = accept(listen_fd, NULL, NULL);
	assert_int_equal(write(in[1], "to agent", 8), 8);
	assert_int_equal(recv(fd, text, 8, MSG_WAITALL), 8);
	assert_memory_equal(text, "to agent", 8);
	(void)close(in[1]); /* the end of the input is passed on, the other direction stays open */
	assert_int_equal(recv(fd, text, 1, 0), 0);
	assert_int_equal(send(fd, "back", 4, 0), 4);
	assert_int_equal(read(out[0], text, 4), 4);
	assert_memory_equal(text, "back", 4);
	(void)close(fd);
	assert_int_equal(read(out[0], text, 4), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(out[0]);
	(void)close(listen_fd);
	(void)unlink(address.sun_path);
	assert_int_equal(rmdir(dir), 0);
}

static void a_bridge_to_nobody_fails(void **state)
{
	char longest[200];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(bridge_run("/nowhere/agent.sock"), 1);
	assert_int_equal(bridge_run(longest), 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(numbers_only_go_up),
		T(a_port_that_nobody_serves_is_refused_with_its_error),
		T(one_more_than_the_limit_is_refused),
		T(what_a_program_does_not_take_is_kept_up_to_the_window),
		T(only_what_was_credited_is_read),
		T(it_is_over_when_both_directions_have_ended),
		T(nothing_comes_after_an_end),
		T(a_program_that_is_gone_resets_the_stream),
		T(a_connection_that_takes_too_long_is_given_up),
		T(an_offer_is_open_once_the_daemon_says_so),
		T(an_offer_that_is_declined_is_closed),
		cmocka_unit_test(proxy_variables_are_added_where_none_is_set),
		cmocka_unit_test(the_bridge_connects_its_input_and_output),
		cmocka_unit_test(a_bridge_to_nobody_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
