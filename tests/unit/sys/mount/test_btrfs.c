/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices, subvolumes and quotas, on a file system in a file where this host can make one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../../own_place.h"
#include "sys/mount/btrfs.h"
#include "sys/mount/loopdev.h"
#include "sys/mount/mount.h"

#define FILE_BYTES (256LL << 20)

static int pool_fd = -1;

static int open_file(void)
{
	int fd = open("/tmp/file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_return_code(fd, errno);
	assert_return_code(ftruncate(fd, FILE_BYTES), errno);
	return fd;
}

static void another_file_system_says_so(void **state)
{
	struct btrfs_identity identity;
	enum btrfs_quota kind;
	uint64_t bytes = 7;
	int fd;

	(void)state;
	fd = own_place_open("plain");
	assert_false(btrfs_is(fd));
	assert_false(btrfs_is(-1));
	assert_int_equal(btrfs_subvolume_make(fd, "v"), -ENOTTY);
	assert_int_equal(btrfs_subvolume_remove(fd, "v"), -ENOTTY);
	assert_true(btrfs_quota_enable(fd, true, &kind) < 0);
	assert_true(btrfs_limit(fd, 1) < 0);
	assert_true(btrfs_usage(fd, &bytes) < 0);
	assert_true(btrfs_snapshot(fd, fd, "s", true) < 0);
	assert_true(btrfs_identify(fd, &identity) < 0);
	assert_true(btrfs_measure(fd, &bytes) < 0);
	assert_true(btrfs_set_read_only(fd) < 0);
	assert_true(btrfs_commit(fd) < 0);
	assert_int_equal(bytes, 7);
	(void)close(fd);
}

static void a_file_has_one_loop_device(void **state)
{
	char first[32], second[32];
	int file_fd, a = -1, b = -1, r;

	(void)state;
	assert_true(loopdev_open(-1, first, sizeof(first), &a) < 0);
	file_fd = open_file();
	r = loopdev_open(file_fd, first, sizeof(first), &a);
	if (r < 0) {
		print_message("skipped: no loop device: %s\n", strerror(-r));
		skip();
	}
	assert_int_equal(loopdev_open(file_fd, second, sizeof(second), &b), 0);
	assert_string_equal(first, second);
	(void)close(a);
	(void)close(b); /* the last user: it goes away by itself */
	(void)close(file_fd);
}

static int run_mkfs(const char *path)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null_fd = open("/dev/null", O_WRONLY);

		(void)dup2(null_fd, 1);
		(void)dup2(null_fd, 2);
		(void)execl("/sbin/mkfs.btrfs", "mkfs.btrfs", "-q", "-f", path, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -ENOEXEC;
}

static void open_pool(void)
{
	struct mount_option source = { "source", NULL, -1 };
	char device[32];
	int file_fd = open_file(), loop_fd = -1, mount_fd = -1, r = run_mkfs("/tmp/file");

	if (r >= 0)
		r = loopdev_open(file_fd, device, sizeof(device), &loop_fd);
	source.value = device;
	if (r >= 0)
		r = mount_make("btrfs", &source, 1, 0, &mount_fd);
	if (loop_fd >= 0)
		(void)close(loop_fd);
	(void)close(file_fd);
	if (r < 0) {
		print_message("skipped: no btrfs here: %s\n", strerror(-r));
		skip();
	}
	pool_fd = openat(mount_fd, ".",
			 O_DIRECTORY | O_RDONLY | O_CLOEXEC); /* the other is an O_PATH */
	(void)close(mount_fd);
	assert_true(btrfs_is(pool_fd));
}

static int teardown(void **state)
{
	(void)state;
	if (pool_fd >= 0)
		(void)close(TAKE_FD(pool_fd));
	return 0;
}

static int open_below(const char *name)
{
	int fd = openat(pool_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	assert_return_code(fd, errno);
	return fd;
}

static void subvolumes_are_copied_and_removed(void **state)
{
	struct btrfs_identity before, after;
	int fd, copy_fd;

	(void)state;
	open_pool();
	assert_int_equal(btrfs_subvolume_make(pool_fd, "v"), 0);
	assert_int_equal(btrfs_subvolume_make(pool_fd, "v"), -EEXIST);
	fd = open_below("v");
	put_text(fd, "file", "original");
	assert_int_equal(btrfs_snapshot(fd, pool_fd, "copy", false), 0);
	assert_int_equal(btrfs_snapshot(fd, pool_fd, "sealed", true), 0);
	assert_int_equal(btrfs_snapshot(fd, pool_fd, "sealed", true), -EEXIST);
	assert_int_equal(btrfs_identify(fd, &before), 0);
	assert_false(before.read_only);
	put_text(fd, "file", "changed");
	assert_int_equal(btrfs_commit(fd), 0);
	assert_int_equal(btrfs_identify(fd, &after), 0);
	assert_memory_equal(before.uuid, after.uuid, sizeof(before.uuid));
	assert_true(after.changed > before.changed);
	assert_text(pool_fd, "copy/file", "original");
	copy_fd = open_below("sealed");
	assert_int_equal(mkdirat(copy_fd, "more", 0755), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(btrfs_identify(copy_fd, &after), 0);
	assert_true(after.read_only);
	assert_memory_not_equal(before.uuid, after.uuid, sizeof(before.uuid));
	(void)close(copy_fd);
	copy_fd = open_below("copy");
	assert_int_equal(btrfs_set_read_only(copy_fd), 0);
	assert_int_equal(mkdirat(copy_fd, "more", 0755), -1);
	(void)close(copy_fd);
	(void)close(fd);
	assert_int_equal(btrfs_subvolume_remove(pool_fd, "sealed"), 0);
	assert_int_equal(btrfs_subvolume_remove(pool_fd, "sealed"), -ENOENT);
	(void)mkdirat(pool_fd, "directory", 0755);
	assert_true(btrfs_subvolume_remove(pool_fd, "directory") < 0);
}

static void a_limit_stops_a_writer(void **state)
{
	static char block[65536];
	enum btrfs_quota kind;
	uint64_t bytes = 0;
	ssize_t n = 0;
	int fd, file_fd, r;

	(void)state;
	open_pool();
	r = btrfs_quota_enable(pool_fd, true, &kind);
	if (r < 0) {
		print_message("skipped: no quotas: %s\n", strerror(-r));
		skip();
	}
	assert_int_equal(btrfs_quota_enable(pool_fd, false, &kind), 0); /* on already: it stays */
	assert_int_equal(btrfs_subvolume_make(pool_fd, "v"), 0);
	fd = open_below("v");
	assert_int_equal(btrfs_limit(fd, 1 << 20), 0);
	file_fd = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 64 && n >= 0; i++) {
		n = write(file_fd, block, sizeof(block));
		if (n > 0 && fsync(file_fd) < 0)
			n = -1;
	}
	assert_int_equal(n, -1);
	assert_int_equal(errno, EDQUOT);
	assert_int_equal(btrfs_commit(fd), 0);
	assert_int_equal(btrfs_usage(fd, &bytes), 0);
	assert_in_range(bytes, 1, 1 << 20);
	assert_int_equal(btrfs_limit(fd, 64 << 20), 0); /* raised: writing continues */
	assert_int_equal(write(file_fd, block, sizeof(block)), sizeof(block));
	(void)close(file_fd);
	(void)close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, own_place_renew, teardown)
	const struct CMUnitTest tests[] = {
		T(another_file_system_says_so),
		T(a_file_has_one_loop_device),
		T(subvolumes_are_copied_and_removed),
		T(a_limit_stops_a_writer),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
