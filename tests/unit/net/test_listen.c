/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "net/dial.h"
#include "net/listen.h"

static void addresses_are_split(void **state)
{
	char host[64];
	uint16_t port;

	(void)state;
	assert_int_equal(listen_parse("127.0.0.1:7070", host, sizeof(host), &port), 0);
	assert_string_equal(host, "127.0.0.1");
	assert_int_equal(port, 7070);
	assert_int_equal(listen_parse("[::1]:0", host, sizeof(host), &port), 0);
	assert_string_equal(host, "::1");
	assert_int_equal(listen_parse(":80", host, sizeof(host), &port), 0);
	assert_string_equal(host, "");
	assert_int_equal(listen_parse("::1:80", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(listen_parse("a:65536", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(listen_parse("a:", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(listen_parse("a", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(listen_parse("[::1:80", host, sizeof(host), &port), -EINVAL);
}

static void tcp_tells_its_port_and_takes_connections(void **state)
{
	int fd, client;
	uint16_t port;

	(void)state;
	assert_int_equal(listen_open_tcp("127.0.0.1", 0, &fd), 0);
	assert_int_equal(listen_port(fd, &port), 0);
	assert_true(port > 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(dial_tcp("127.0.0.1", port, 1000, &client), 0);
	(void)close(client);
	assert_int_equal(listen_open_tcp("127.0.0.1", port, &client), -EADDRINUSE);
	(void)close(fd);
	assert_int_equal(dial_tcp("127.0.0.1", port, 1000, &client), -ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_split),
		cmocka_unit_test(tcp_tells_its_port_and_takes_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
