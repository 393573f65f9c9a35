/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the service manager. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "sys/notify.h"

/* A manager that listens on a path, or on an abstract name that begins with NUL. */
static int manager(const char *name, size_t n)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(address.sun_path, name, n);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
			 0);
	return fd;
}

static void expect(int fd, const char *text)
{
	char got[64] = "";

	assert_true(recv(fd, got, sizeof(got) - 1, 0) >= 0);
	assert_string_equal(got, text);
}

static void path_and_abstract(void **state)
{
	char path[64], name[64];
	struct notify notify;
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/cay-test-notify-%d", (int)getpid());
	fd = manager(path, strlen(path) + 1);
	(void)setenv("NOTIFY_SOCKET", path, 1);
	notify_open(&notify);
	assert_true(notify.fd >= 0);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_int_equal(notify.alive_ms, 0);
	(void)unlink(path); /* as for one that has left the host's files */
	notify_send(&notify, "READY=1");
	expect(fd, "READY=1");
	notify_alive(&notify);
	assert_int_equal(notify_sleep_ms(&notify, -1), -1);
	assert_int_equal(recv(fd, name, sizeof(name), 0), -1);
	notify_close(&notify);
	(void)close(fd);

	(void)snprintf(name, sizeof(name), "@cay-test-notify-%d", (int)getpid());
	(void)setenv("NOTIFY_SOCKET", name, 1);
	name[0] = '\0';
	fd = manager(name, 1 + strlen(name + 1));
	notify_open(&notify);
	notify_send(&notify, "STOPPING=1");
	expect(fd, "STOPPING=1");
	notify_close(&notify);
	notify_send(&notify, "READY=1");
	(void)close(fd);
}

static void none(void **state)
{
	static const char *const names[] = { "", "@", "relative", "/nowhere/at/all" };
	struct notify notify;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)setenv("NOTIFY_SOCKET", names[i], 1);
		(void)setenv("WATCHDOG_USEC", "1000000", 1);
		notify_open(&notify);
		assert_int_equal(notify.fd, -1);
		assert_int_equal(notify.alive_ms, 0);
		notify_send(&notify, "READY=1");
	}
	notify_open(&notify);
	assert_int_equal(notify.fd, -1);
}

static void watchdog(void **state)
{
	static const struct {
		const char *usec, *pid;
		int64_t alive_ms;
	} cases[] = {
		{ "30000000", NULL, 15000 },
		{ "30000000", "1", 0 },
		{ "x", NULL, 0 },
		{ "0", NULL, 0 },
		{ "1", NULL, 1 },
		{ "30000000", "self", 15000 },
		{ "99999999999999", NULL, 0 },
	};
	char name[64], self[16];
	struct notify notify;
	int fd;

	(void)state;
	(void)snprintf(self, sizeof(self), "%d", (int)getpid());
	(void)snprintf(name, sizeof(name), "@cay-test-watchdog-%d", (int)getpid());
	name[0] = '\0';
	fd = manager(name, 1 + strlen(name + 1));
	name[0] = '@';
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *pid = cases[i].pid;

		(void)setenv("NOTIFY_SOCKET", name, 1);
		(void)setenv("WATCHDOG_USEC", cases[i].usec, 1);
		if (pid)
			(void)setenv("WATCHDOG_PID", strcmp(pid, "self") == 0 ? self : pid, 1);
		notify_open(&notify);
		assert_null(getenv("WATCHDOG_USEC"));
		assert_null(getenv("WATCHDOG_PID"));
		assert_int_equal(notify.alive_ms, cases[i].alive_ms);
		if (cases[i].alive_ms == 15000) {
			assert_int_equal(notify_sleep_ms(&notify, -1), 0); /* the first is due */
			notify_alive(&notify);
			expect(fd, "WATCHDOG=1");
			notify_alive(&notify); /* and the next is not */
			assert_int_equal(recv(fd, self + 15, 0, 0), -1);
			assert_in_range(notify_sleep_ms(&notify, -1), 10000, 15000);
			assert_int_equal(notify_sleep_ms(&notify, 20), 20);
		}
		notify_close(&notify);
	}
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_and_abstract),
		cmocka_unit_test(none),
		cmocka_unit_test(watchdog),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
