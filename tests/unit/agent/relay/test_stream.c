/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams with the real agent: servers on loopback are reached through one link. A server is a
 * child of the test that serves every connection in a separate process.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/time.h"
#include "net/foreign.h"
#include "rig.h"

#define WAIT_MS 30000
#define MANY 100
#define EACH_BYTES (1U << 20)

static struct rig rig;
static pid_t server = -1;
static uint16_t port;

struct dialed {
	bool told;
	int fd;
	struct err err;
};

static void on_dialed(void *arg, int fd, const struct err *error)
{
	struct dialed *d = arg;

	d->told = true;
	d->fd = fd;
	d->err = error ? *error : (struct err){ .code = ERR_OK };
}

/* ---- the server: the first byte selects its behaviour ---- */

static void echo(int fd)
{
	char bytes[65536];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		for (ssize_t at = 0; at < n;) {
			ssize_t sent = send(fd, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);

			if (sent < 0)
				return;
			at += sent;
		}
}

/* Counts until the client's half ends, then replies with the number. */
static void count(int fd)
{
	uint64_t sum = 0;
	char bytes[65536];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		sum += (uint64_t)n;
	(void)!send(fd, &sum, sizeof(sum), MSG_NOSIGNAL);
}

static void serve(int fd)
{
	struct linger now = { .l_onoff = 1 };
	uint64_t result;
	char what = 0;

	(void)!recv(fd, &what, 1, 0);
	if (what == 'e') {
		echo(fd);
	} else if (what == 'c') {
		count(fd);
	} else if (what == 's') { /* replies, ends its half, and reports what it saw afterwards */
		(void)!send(fd, "bye", 3, MSG_NOSIGNAL);
		(void)shutdown(fd, SHUT_WR);
		result = (uint64_t)recv(fd, &what, 1, 0);
		(void)result;
	} else if (what == 'r') {
		(void)!send(fd, "partial", 7, MSG_NOSIGNAL);
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	} else if (what == 'z') {
		(void)pause();
	}
	_exit(0);
}

static void start_server(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 256), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	port = ntohs(at.sin_port);
	server = fork();
	if (server == 0) {
		(void)setpgid(0, 0);
		(void)signal(SIGCHLD, SIG_IGN);
		for (;;) {
			int fd = accept(listener, NULL, NULL);

			if (fork() == 0)
				serve(fd);
			(void)close(fd);
		}
	}
	(void)setpgid(server, server);
	(void)close(listener);
}

static void stop_server(void)
{
	(void)kill(-server, SIGKILL);
	(void)waitpid(server, NULL, 0);
}

static const char *const options[] = { "--trust-any-peer", "--same-user", "--cwd", "/tmp", NULL };

static int setup(void **state)
{
	rig_init(&rig);
	rig.streams = true;
	start_server();
	rig_start_agent(&rig, options);
	return 0;
}

static int teardown(void **state)
{
	rig_done(&rig);
	stop_server();
	return 0;
}

static int dial(char what)
{
	struct dialed d = { .fd = -1 };
	struct err err;

	assert_int_equal(link_dial(rig.link, port, on_dialed, &d, &err), 0);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_OK);
	assert_int_equal(send(d.fd, &what, 1, 0), 1);
	return d.fd;
}

/* As recv(2), with iterations of the loop. */
static ssize_t take(int fd, void *p, size_t n)
{
	int64_t until_us = time_mono_us() + WAIT_MS * 1000LL;
	ssize_t got;

	while ((got = recv(fd, p, n, MSG_DONTWAIT)) < 0 && errno == EAGAIN &&
	       time_mono_us() < until_us)
		loop_turn(rig.loop, 10);
	return got;
}

static void give(int fd, const void *p, size_t n)
{
	int64_t until_us = time_mono_us() + WAIT_MS * 1000LL;
	const char *at = p;

	while (n) {
		ssize_t sent = send(fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0) {
			assert_int_equal(errno, EAGAIN);
			assert_true(time_mono_us() < until_us);
			loop_turn(rig.loop, 10);
			continue;
		}
		at += sent;
		n -= (size_t)sent;
	}
}

static void test_echo(void **state)
{
	char got[8] = { 0 };
	int fd = dial('e');

	give(fd, "hello", 5);
	assert_int_equal(take(fd, got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	foreign_close(fd);
}

static void test_closed_port(void **state)
{
	struct dialed d = { .fd = -1 };
	struct err err;

	assert_int_equal(link_dial(rig.link, 1, on_dialed, &d, &err), 0);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_PORT_CLOSED);
	assert_int_equal(d.err.errno_value, ECONNREFUSED);
}

static void test_half_close(void **state)
{
	static char bytes[700000];
	uint64_t sum = 0;
	char got[8] = { 0 };
	int fd = dial('c');

	give(fd, bytes, sizeof(bytes));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(take(fd, &sum, sizeof(sum)), sizeof(sum));
	assert_int_equal(sum, sizeof(bytes));
	assert_int_equal(take(fd, got, 1), 0);
	foreign_close(fd);

	fd = dial('s');
	assert_int_equal(take(fd, got, sizeof(got)), 3);
	assert_int_equal(take(fd, got, 1), 0);
	assert_false(foreign_was_cut(fd));
	give(fd, "x", 1);
	foreign_close(fd);
}

/* The stream was reset: an error if bytes of ours were unread, otherwise a hang-up. */
static void expect_cut(int fd)
{
	char c;
	ssize_t n = take(fd, &c, 1);

	assert_true((n < 0 && errno == ECONNRESET) || (n == 0 && foreign_was_cut(fd)));
	foreign_close(fd);
}

static void test_reset(void **state)
{
	char got[16] = { 0 };
	ssize_t n, sum = 0;
	int fd = dial('r');

	/* Earlier bytes may be lost, as with TCP; the reset must be visible. */
	while ((n = take(fd, got, sizeof(got))) > 0)
		sum += n;
	assert_true(sum == 0 || sum == 7);
	assert_true((n < 0 && errno == ECONNRESET) || foreign_was_cut(fd));
	foreign_close(fd);
}

/* One stream whose server does not read and one whose client does not; all others continue. */
static void test_many_with_stalled_ones(void **state)
{
	static char bytes[65536];
	static int fds[MANY];
	static size_t sent[MANY], got[MANY];
	int stalled_server = dial('z'), stalled_client = dial('e');
	size_t stuck = 0, over = 0;
	struct rig_result result = { 0 };
	ssize_t n;

	for (int i = 0; i < 200; i++) { /* until both ends and the window are full */
		n = send(stalled_server, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
		stuck += n > 0 ? (size_t)n : 0;
		(void)!send(stalled_client, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
		loop_turn(rig.loop, 0);
	}
	assert_true(send(stalled_server, bytes, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0);
	assert_true(stuck < 32U << 20);
	for (int i = 0; i < MANY; i++)
		fds[i] = dial('e');
	memset(sent, 0, sizeof(sent));
	memset(got, 0, sizeof(got));
	for (int64_t until_us = time_mono_us() + 4LL * WAIT_MS * 1000; over < MANY;) {
		assert_true(time_mono_us() < until_us);
		over = 0;
		for (int i = 0; i < MANY; i++) {
			size_t most = MIN(sizeof(bytes), EACH_BYTES - sent[i]);

			n = most ? send(fds[i], bytes, most, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
			sent[i] += n > 0 ? (size_t)n : 0;
			n = recv(fds[i], bytes, sizeof(bytes), MSG_DONTWAIT);
			got[i] += n > 0 ? (size_t)n : 0;
			over += got[i] == EACH_BYTES;
		}
		loop_turn(rig.loop, 1);
	}
	rig_sh(&rig, "echo alive", &result);
	assert_string_equal(buf_data(&result.out), "alive\n");
	rig_result_done(&result);
	for (int i = 0; i < MANY; i++)
		foreign_close(fds[i]);
	foreign_close(stalled_server);
	foreign_close(stalled_client);
}

static void test_agent_killed(void **state)
{
	int fd = dial('e');

	(void)kill(rig.agent_pid, SIGKILL);
	assert_true(rig_wait(&rig, &rig.gone, WAIT_MS));
	expect_cut(fd);
}

/* Another daemon takes over: the old streams are reset, new ones work. */
static void test_reconnected(void **state)
{
	char got[8] = { 0 };
	int fd = dial('e');

	rig_drop_link(&rig);
	expect_cut(fd);
	rig_adopt(&rig, rig_connect(&rig), 5000);
	assert_true(rig_wait(&rig, &rig.ready, WAIT_MS));
	fd = dial('e');
	give(fd, "again", 5);
	assert_int_equal(take(fd, got, sizeof(got)), 5);
	foreign_close(fd);
}

/* ---- a socket at a path, and the bridge to it ---- */

static pid_t spawn(const char *const *argv, int stdio_fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (stdio_fd >= 0) {
			(void)dup2(stdio_fd, 0);
			(void)dup2(stdio_fd, 1);
		}
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(126);
	}
	return pid;
}

static void test_bridge(void **state)
{
	char path[64], got[8] = { 0 };
	const char *agent_argv[] = { getenv("CAY_AGENT"), "--listen", path, "--same-user", NULL };
	const char *bridge_argv[] = { getenv("CAY_AGENT"), "--bridge", path, NULL };
	struct rig_result result = { 0 };
	int ends[2], status = -1, fd;
	pid_t agent, bridge;

	(void)state;
	rig_init(&rig);
	rig.streams = true;
	start_server();
	(void)snprintf(path, sizeof(path), "/tmp/cay-bridge-%d.sock", getpid());
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	bridge = spawn(bridge_argv, ends[1]); /* no agent yet: fails and says so */
	assert_int_equal(waitpid(bridge, &status, 0), bridge);
	assert_int_equal(WEXITSTATUS(status), 1);

	agent = spawn(agent_argv, -1);
	for (int i = 0; i < 1000 && access(path, F_OK) < 0; i++)
		loop_turn(rig.loop, 10);
	bridge = spawn(bridge_argv, ends[1]);
	(void)close(ends[1]);
	rig_adopt(&rig, ends[0], WAIT_MS);
	assert_true(rig_wait(&rig, &rig.ready, WAIT_MS));
	rig_sh(&rig, "head -c 300000 /dev/zero | wc -c", &result);
	assert_string_equal(buf_data(&result.out), "300000\n");
	rig_result_done(&result);
	fd = dial('e');
	give(fd, "hello", 5);
	assert_int_equal(take(fd, got, sizeof(got)), 5);
	foreign_close(fd);
	rig_drop_link(&rig); /* our end is closed: the bridge ends, the agent lives */
	assert_int_equal(waitpid(bridge, &status, 0), bridge);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(kill(agent, 0), 0);
	(void)kill(agent, SIGKILL);
	(void)waitpid(agent, NULL, 0);
	(void)unlink(path);
	stop_server();
	rig_done(&rig);
}

#define WITH_AGENT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_echo),
		WITH_AGENT(test_closed_port),
		WITH_AGENT(test_half_close),
		WITH_AGENT(test_reset),
		WITH_AGENT(test_many_with_stalled_ones),
		WITH_AGENT(test_agent_killed),
		WITH_AGENT(test_reconnected),
		cmocka_unit_test(test_bridge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
