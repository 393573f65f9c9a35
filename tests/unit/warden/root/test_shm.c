/* SPDX-License-Identifier: Apache-2.0 */
/* The size of /dev/shm follows the memory limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/statvfs.h>

#include "../../own_place.h"
#include "warden/root/dev.h"

#define MIB (1ULL << 20)

static void check_size(uint32_t memory_mb, const char *bytes, const char *inodes)
{
	struct shm_size size;

	shm_size_of(memory_mb, &size);
	assert_string_equal(size.bytes, bytes);
	assert_string_equal(size.inodes, inodes);
}

static void half_of_the_memory_and_at_least_a_mebibyte(void **state)
{
	(void)state;
	check_size(0, "1048576", "128");
	check_size(1, "1048576", "128");
	check_size(2, "1048576", "256");
	check_size(3, "1572864", "384");
	check_size(512, "268435456", "65536");
	check_size(UINT32_MAX, "2251799813160960", "549755813760"); /* no overflow */
}

static struct root root;

static int setup(void **state)
{
	int r = own_place_renew(state);

	root = (struct root){ .fd = own_place_open("root") };
	return r < 0 ? r : mkdirat(root.fd, "dev", 0755);
}

static int teardown(void **state)
{
	(void)state;
	(void)umount2("/tmp/root/dev/shm", MNT_DETACH);
	return close(root.fd);
}

static void mount_shm(void)
{
	assert_return_code(mkdirat(root.fd, "dev/shm", 0755), errno);
	assert_return_code(mount("shm", "/tmp/root/dev/shm", "tmpfs", 0, "size=1m,nr_inodes=128"),
			   errno);
}

static uint64_t shm_bytes(void)
{
	struct statvfs fs;

	assert_return_code(statvfs("/tmp/root/dev/shm", &fs), errno);
	return (uint64_t)fs.f_blocks * fs.f_frsize;
}

static void a_root_is_resized_once(void **state)
{
	(void)state;
	mount_shm();
	assert_int_equal(shm_size_root(&root, 64), 0);
	assert_int_equal(shm_bytes(), 32 * MIB);
	assert_int_equal(root.shm_memory_mb, 64);
	assert_return_code(mount(NULL, "/tmp/root/dev/shm", NULL, MS_REMOUNT, "size=2m"), errno);
	assert_int_equal(shm_size_root(&root, 64), 0); /* it is known to fit: not looked at */
	assert_int_equal(shm_bytes(), 2 * MIB);
	assert_int_equal(shm_size_root(&root, 65), 0);
	assert_int_equal(shm_bytes(), 65 * MIB / 2);
}

static void less_than_is_in_use_leaves_it_as_it_is(void **state)
{
	static const char block[65536];
	int fd;

	(void)state;
	mount_shm();
	assert_int_equal(shm_size_root(&root, 8), 0);
	fd = open("/tmp/root/dev/shm/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (size_t i = 0; i < 2 * MIB / sizeof(block); i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	(void)close(fd);
	assert_int_equal(shm_size_root(&root, 2), -EINVAL);
	assert_int_equal(root.shm_memory_mb, 8);
	assert_int_equal(shm_bytes(), 4 * MIB);
}

static void nothing_but_a_tmpfs_of_its_own_is_resized(void **state)
{
	(void)state;
	assert_int_equal(shm_size_root(&root, 4), -ENOENT);
	assert_return_code(symlinkat("/tmp", root.fd, "dev/shm"), errno);
	assert_int_equal(shm_size_root(&root, 4), -ENOTDIR);
	assert_return_code(unlinkat(root.fd, "dev/shm", 0), errno);
	assert_return_code(mkdirat(root.fd, "dev/shm", 0755), errno);
	assert_return_code(mount("/proc", "/tmp/root/dev/shm", NULL, MS_BIND, NULL), errno);
	assert_int_equal(shm_size_root(&root, 4), -EXDEV);
	assert_int_equal(root.shm_memory_mb, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_the_memory_and_at_least_a_mebibyte),
		T(a_root_is_resized_once),
		T(less_than_is_in_use_leaves_it_as_it_is),
		T(nothing_but_a_tmpfs_of_its_own_is_resized),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
