/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes as plain directories: made, given away, removed with everything a sandbox may leave in
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>

#include "../../own_place.h"
#include "warden/warden.h"

#define DEEPER 600 /* than is removed in one go, twice */

static struct warden warden;
static struct slot_row rows[4];

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	memset(rows, 0, sizeof(rows));
	warden.pool_fd = own_place_open("pool");
	warden.rows = rows;
	warden.slot_top = ARRAY_LEN(rows);
	warden.next_volume = UINT64_MAX - 1; /* numbers go round */
	return r;
}

static int teardown(void **state)
{
	(void)state;
	return close(warden.pool_fd);
}

static unsigned volumes(void)
{
	DIR *dir = opendir("/tmp/pool");
	unsigned n = 0;

	assert_non_null(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		n += e->d_name[0] == 'v';
	(void)closedir(dir);
	return n;
}

static void names_have_one_length(void **state)
{
	char name[VOLUME_NAME_SIZE];

	(void)state;
	storage_volume_name(name, 0);
	assert_string_equal(name, "v0000000000000000");
	storage_volume_name(name, UINT64_MAX);
	assert_string_equal(name, "vffffffffffffffff");
	for (int i = 0; i < 100; i++)
		assert_int_not_equal(storage_volume_number(), 0);
}

static void a_new_volume_has_the_parts_of_an_overlay(void **state)
{
	uint64_t first, second;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(storage_volume_make(&warden, &first), 0);
	assert_int_equal(storage_volume_make(&warden, &second), 0);
	assert_int_not_equal(first, second);
	assert_int_equal(volumes(), 2);
	fd = storage_volume_open(&warden, first);
	assert_return_code(fd, -fd);
	assert_return_code(fstat(fd, &st), errno);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_return_code(fstatat(fd, "upper", &st, 0), errno);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_true(is_there(fd, "work"));
	(void)close(fd);
	assert_int_equal(storage_volume_open(&warden, first ^ second), -ENOENT);
}

static void a_link_or_a_file_is_no_volume(void **state)
{
	(void)state;
	assert_return_code(symlinkat("/tmp", warden.pool_fd, "v0000000000000001"), errno);
	put_text(warden.pool_fd, "v0000000000000002", "");
	assert_true(storage_volume_open(&warden, 1) < 0);
	assert_int_equal(storage_volume_open(&warden, 2), -ENOTDIR);
}

static void a_pool_that_is_gone_is_an_error(void **state)
{
	uint64_t volume = 7;

	(void)state;
	assert_return_code(rmdir("/tmp/pool"), errno);
	assert_int_equal(storage_volume_make(&warden, &volume), -ENOENT);
	assert_int_equal(volume, 7);
	storage_sweep(&warden);
}

static void volumes_are_adopted_and_given(void **state)
{
	(void)state;
	assert_return_code(mkdirat(warden.pool_fd, "source", 0700), errno);
	put_text(warden.pool_fd, "source/file", "kept");
	assert_int_equal(storage_volume_adopt(&warden, 9, warden.pool_fd, "missing"), -ENOENT);
	assert_int_equal(storage_volume_adopt(&warden, 9, warden.pool_fd, "source"), 0);
	assert_false(is_there(warden.pool_fd, "source"));
	assert_text(warden.pool_fd, "v0000000000000009/file", "kept");
	assert_int_equal(storage_volume_give(&warden, 8, warden.pool_fd, "target"), -ENOENT);
	assert_int_equal(storage_volume_give(&warden, 9, warden.pool_fd, "target"), 0);
	assert_text(warden.pool_fd, "target/file", "kept");
}

static void limits_and_usage_need_quotas(void **state)
{
	uint64_t volume;

	(void)state;
	assert_int_equal(storage_volume_make(&warden, &volume), 0);
	assert_int_equal(storage_volume_limit(&warden, volume, 1), 0);
	assert_int_equal(storage_volume_usage(&warden, volume), 0);
	assert_int_equal(storage_quota_of(&warden, volume), 0);
	assert_int_equal(storage_quota_open(&warden, 0), -1);
	warden.pool_has_quota = true; /* a pool whose kind changed: reported, not ignored */
	assert_true(storage_volume_limit(&warden, volume, 1) < 0);
	assert_int_equal(storage_volume_limit(&warden, volume + 1, 1), -ENOENT);
}

static void a_hostile_tree_is_removed_and_nothing_outside_of_it(void **state)
{
	uint64_t volume;
	int fd;

	(void)state;
	assert_int_equal(storage_volume_make(&warden, &volume), 0);
	put_text(AT_FDCWD, "/tmp/outside", "stays");
	assert_return_code(mkdir("/tmp/dir", 0755), errno);
	put_text(AT_FDCWD, "/tmp/dir/file", "stays");
	fd = storage_volume_open(&warden, volume);
	assert_return_code(symlinkat("/tmp/outside", fd, "upper/link"), errno);
	assert_return_code(symlinkat("/tmp/dir", fd, "upper/directory"), errno);
	assert_return_code(linkat(AT_FDCWD, "/tmp/outside", fd, "upper/hard", 0), errno);
	assert_return_code(mkdirat(fd, "upper/closed", 0), errno);
	assert_return_code(mknodat(fd, "upper/pipe", S_IFIFO | 0600, 0), errno);
	(void)close(fd);
	storage_volume_remove(&warden, volume);
	assert_int_equal(volumes(), 0);
	assert_text(AT_FDCWD, "/tmp/outside", "stays");
	assert_text(AT_FDCWD, "/tmp/dir/file", "stays");
	storage_volume_remove(&warden, volume); /* there is none */
}

static void a_mount_in_a_volume_is_not_entered(void **state)
{
	(void)state;
	assert_return_code(mkdir("/tmp/dir", 0755), errno);
	put_text(AT_FDCWD, "/tmp/dir/file", "stays");
	assert_return_code(mkdirat(warden.pool_fd, "v0000000000000001", 0700), errno);
	assert_return_code(mkdirat(warden.pool_fd, "v0000000000000001/at", 0700), errno);
	assert_return_code(mount("/tmp/dir", "/tmp/pool/v0000000000000001/at", NULL, MS_BIND, NULL),
			   errno);
	storage_volume_remove(&warden, 1);
	assert_text(AT_FDCWD, "/tmp/dir/file", "stays");
	assert_return_code(umount("/tmp/pool/v0000000000000001/at"), errno);
}

static void a_tree_deeper_than_descriptors_go_is_removed(void **state)
{
	uint64_t volume;
	int fd;

	(void)state;
	assert_int_equal(storage_volume_make(&warden, &volume), 0);
	fd = storage_volume_open(&warden, volume);
	for (int i = 0; i < DEEPER; i++) {
		int next;

		assert_return_code(mkdirat(fd, "d", 0700), errno);
		next = openat(fd, "d", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		assert_return_code(next, errno);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	storage_volume_remove(&warden, volume);
	assert_int_equal(volumes(), 0);
}

static void the_sweep_removes_what_no_row_knows(void **state)
{
	uint64_t known, unknown;

	(void)state;
	assert_int_equal(storage_volume_make(&warden, &known), 0);
	assert_int_equal(storage_volume_make(&warden, &unknown), 0);
	assert_return_code(mkdirat(warden.pool_fd, "snapshots", 0700), errno);
	rows[3].volume = known;
	storage_sweep(&warden);
	assert_int_equal(volumes(), 1);
	assert_true(is_there(warden.pool_fd, "snapshots"));
	warden.slot_top = 3; /* a row behind the last one in use counts no more */
	storage_sweep(&warden);
	assert_int_equal(volumes(), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(names_have_one_length),
		T(a_new_volume_has_the_parts_of_an_overlay),
		T(a_link_or_a_file_is_no_volume),
		T(a_pool_that_is_gone_is_an_error),
		T(volumes_are_adopted_and_given),
		T(limits_and_usage_need_quotas),
		T(a_hostile_tree_is_removed_and_nothing_outside_of_it),
		T(a_mount_in_a_volume_is_not_entered),
		T(a_tree_deeper_than_descriptors_go_is_removed),
		T(the_sweep_removes_what_no_row_knows),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
