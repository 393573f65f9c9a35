/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors over a socket: at, below and above each limit, and none is ever left open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/rights.h"

#define TEXT_BYTES 3

static int ends[2], given[RIGHTS_MAX + 2];
static size_t open_before;

static size_t count_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static int setup(void **state)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	for (size_t i = 0; i < ARRAY_LEN(given); i++) {
		given[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(given[i] >= 0);
	}
	open_before = count_open();
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(count_open(), open_before);
	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		(void)close(given[i]);
	(void)close(ends[0]);
	(void)close(ends[1]);
	return 0;
}

/* Like a hostile peer: more than rights_send() allows. */
static void send_many(const int *fds, size_t count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(given))];
	} control = { 0 };
	char text[TEXT_BYTES] = "abc";
	struct iovec iov = { text, sizeof(text) };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(count * sizeof(int)) };

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	assert_int_equal(sendmsg(ends[0], &message, MSG_DONTWAIT), TEXT_BYTES);
}

/* As many arrive as expected, close-on-exec, and no others stay open. */
static void expect(size_t max, size_t count, bool cut)
{
	struct rights got;
	char bytes[8];

	assert_int_equal(rights_receive(ends[1], bytes, sizeof(bytes), max, MSG_DONTWAIT, &got),
			 TEXT_BYTES);
	assert_memory_equal(bytes, "abc", TEXT_BYTES);
	assert_int_equal(got.count, count);
	assert_int_equal(got.cut, cut);
	assert_int_equal(count_open(), open_before + count);
	for (size_t i = 0; i < RIGHTS_MAX; i++) {
		if (i >= count) {
			assert_int_equal(got.fds[i], -1);
			continue;
		}
		assert_int_equal(fcntl(got.fds[i], F_GETFD), FD_CLOEXEC);
		(void)close(got.fds[i]);
	}
}

static void test_every_number(void **state)
{
	for (size_t count = 0; count <= RIGHTS_MAX; count++) {
		assert_int_equal(
			rights_send(ends[0], "abc", TEXT_BYTES, given, count, MSG_DONTWAIT),
			TEXT_BYTES);
		expect(RIGHTS_MAX, count, false);
	}
	assert_int_equal(
		rights_send(ends[0], "abc", TEXT_BYTES, given, RIGHTS_MAX + 1, MSG_DONTWAIT),
		-EINVAL);
}

static void test_the_same_file(void **state)
{
	int way[2], sent;
	struct rights got;
	char c = 0;

	assert_int_equal(pipe2(way, O_CLOEXEC), 0);
	sent = way[1];
	assert_int_equal(rights_send(ends[0], "x", 1, &sent, 1, 0), 1);
	assert_int_equal(close(sent), 0);
	assert_int_equal(rights_receive(ends[1], &c, 1, 1, 0, &got), 1);
	assert_int_equal(got.count, 1);
	assert_int_equal(write(got.fds[0], "y", 1), 1);
	assert_int_equal(read(way[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	(void)close(got.fds[0]);
	(void)close(way[0]);
}

static void test_more_than_asked_for(void **state)
{
	for (size_t max = 0; max <= 3; max++) {
		for (size_t count = 1; count <= RIGHTS_MAX; count++) {
			send_many(given, count);
			expect(max, MIN(count, max), count > max);
		}
	}
	send_many(given, RIGHTS_MAX);
	expect(RIGHTS_MAX + 1, RIGHTS_MAX, false); /* never past the end of what is returned */
}

/* The control message does not fit: the kernel truncates it. */
static void test_cut_by_the_kernel(void **state)
{
	send_many(given, RIGHTS_MAX + 1);
	expect(RIGHTS_MAX, RIGHTS_MAX, true);
	send_many(given, RIGHTS_MAX + 2);
	expect(1, 1, true);
}

static void test_other_than_descriptors(void **state)
{
	int on = 1, off = 0;

	assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	send_many(given, 2);
	expect(2, 0, true); /* credentials go first, and then there is no room */
	assert_int_equal(rights_send(ends[0], "abc", TEXT_BYTES, NULL, 0, 0), TEXT_BYTES);
	expect(2, 0, true);
	assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &off, sizeof(off)), 0);
}

static void test_errors(void **state)
{
	struct rights got = { .count = 77 };
	char c;

	assert_int_equal(rights_receive(ends[1], &c, 1, 1, MSG_DONTWAIT, &got), -EAGAIN);
	assert_int_equal(got.count, 77); /* written on success only */
	assert_int_equal(rights_send(-1, "x", 1, NULL, 0, 0), -EBADF);
	assert_int_equal(rights_receive(-1, &c, 1, 1, 0, &got), -EBADF);
	assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(rights_receive(ends[1], &c, 1, 1, 0, &got), 0);
	assert_int_equal(got.count, 0);
	assert_false(got.cut);
	assert_int_equal(shutdown(ends[1], SHUT_RD), 0);
	assert_int_equal(rights_send(ends[0], "x", 1, given, 1, 0), -EPIPE); /* and no signal */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_same_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more_than_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_by_the_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_than_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
