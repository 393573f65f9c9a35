/* SPDX-License-Identifier: Apache-2.0 */
/* Which kind of storage pool a state directory gets, and what is rejected; salvage in one of btrfs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>

#include "../../own_place.h"
#include "warden/copy/snapshot.h"

static struct warden warden;

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	warden.state_fd = own_place_open("state");
	warden.pool_fd = warden.pool_mount_fd = warden.quotas_fd = warden.snapshots_fd = -1;
	warden.sys_fs_fd = open("/sys/fs", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return r;
}

static int teardown(void **state)
{
	int *const fds[] = { &warden.snapshots_fd,  &warden.quotas_fd, &warden.pool_fd,
			     &warden.pool_mount_fd, &warden.sys_fs_fd, &warden.state_fd };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (*fds[i] >= 0)
			(void)close(*fds[i]);
	free(warden.temporary);
	return 0;
}

static void kinds_have_names(void **state)
{
	enum storage_kind kind = STORAGE_AUTO;

	(void)state;
	assert_int_equal(storage_kind_parse("btrfs", &kind), 0);
	assert_int_equal(kind, STORAGE_BTRFS);
	assert_int_equal(storage_kind_parse("directory", &kind), 0);
	assert_int_equal(kind, STORAGE_DIRECTORY);
	assert_int_equal(storage_kind_parse("", &kind), -EINVAL);
	assert_int_equal(storage_kind_parse("Btrfs", &kind), -EINVAL);
	assert_int_equal(storage_kind_parse("btrfs ", &kind), -EINVAL);
	assert_int_equal(kind, STORAGE_DIRECTORY); /* written only on success */
	assert_int_equal(storage_kind_parse("auto", &kind), 0);
	assert_int_equal(kind, STORAGE_AUTO);
}

static void directories_are_roots_alone(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY), 0);
	assert_return_code(fstat(warden.pool_fd, &st), errno);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_false(warden.pool_has_quota);
	(void)close(TAKE_FD(warden.pool_fd));
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY),
			 0); /* again, with what is there */
}

static void a_directory_that_others_control_is_rejected(void **state)
{
	(void)state;
	assert_return_code(mkdirat(warden.state_fd, "volumes", 0700), errno);
	assert_return_code(fchmodat(warden.state_fd, "volumes", 0720, 0), errno);
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY), -EPERM);
	assert_return_code(fchmodat(warden.state_fd, "volumes", 0700, 0), errno);
	assert_return_code(fchownat(warden.state_fd, "volumes", 1, 1, 0), errno);
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY), -EPERM);
	assert_return_code(unlinkat(warden.state_fd, "volumes", AT_REMOVEDIR), errno);
	assert_return_code(symlinkat("/tmp", warden.state_fd, "volumes"), errno);
	assert_true(storage_open(&warden, STORAGE_DIRECTORY) < 0);
	assert_int_equal(warden.pool_fd, -1);
}

static void a_state_directory_keeps_its_kind(void **state)
{
	(void)state;
	put_text(warden.state_fd, "pool.btrfs", "not a file system");
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY), -EEXIST);
	assert_true(storage_open(&warden, STORAGE_AUTO) < 0); /* it is not replaced */
	assert_text(warden.state_fd, "pool.btrfs", "not a file system");
	assert_false(is_there(warden.state_fd, "volumes"));
	assert_return_code(unlinkat(warden.state_fd, "pool.btrfs", 0), errno);
	assert_return_code(mkdirat(warden.state_fd, "volumes", 0700), errno);
	assert_return_code(mkdirat(warden.state_fd, "volumes/v0000000000000001", 0700), errno);
	assert_int_equal(storage_open(&warden, STORAGE_AUTO), 0);
	assert_false(is_there(warden.state_fd, "pool.btrfs"));
}

static void without_the_space_for_a_pool_there_are_directories(void **state)
{
	(void)state; /* /tmp is a tmpfs of 512 MiB here: its share is less than the smallest pool */
	assert_int_equal(storage_open(&warden, STORAGE_BTRFS), -ENOSPC);
	assert_false(is_there(warden.state_fd, "pool.btrfs.new"));
	assert_int_equal(storage_open(&warden, STORAGE_AUTO), 0);
	assert_true(is_there(warden.state_fd, "volumes"));
}

static void directories_are_entered_as_a_mount(void **state)
{
	static char endless[PATH_MAX + 1];

	(void)state;
	assert_int_equal(storage_open(&warden, STORAGE_DIRECTORY), 0);
	memset(endless, 'x', PATH_MAX - 4);
	assert_int_equal(storage_enter(&warden, endless), -ENAMETOOLONG);
	assert_int_equal(storage_enter(&warden, "/tmp/missing"), -ENOENT);
	assert_int_equal(warden.pool_mount_fd, -1);
	assert_int_equal(storage_enter(&warden, "/tmp/state"), 0);
	assert_true(warden.pool_mount_fd >= 0);
	assert_return_code(mkdirat(warden.pool_fd, "v0000000000000001", 0700), errno);
	assert_true(is_there(warden.state_fd, "volumes/v0000000000000001"));
	assert_int_equal(storage_enter(&warden, "/tmp/missing"), 0); /* only once */
}

/* ---- a pool of btrfs, where this host can make one ---- */

static void open_btrfs(void)
{
	int r;

	assert_return_code(mount("large", "/tmp/state", "tmpfs", 0, "size=2g"), errno);
	(void)close(warden.state_fd);
	warden.state_fd = open("/tmp/state", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	r = storage_open(&warden, STORAGE_BTRFS);
	if (r < 0) {
		print_message("skipped: no pool of btrfs here: %s\n", strerror(-r));
		skip();
	}
	assert_int_equal(snapshot_open(&warden), 0);
	assert_true(warden.snapshots_fd >= 0);
}

static void a_pool_of_btrfs_is_found_again(void **state)
{
	uint64_t volume;

	(void)state;
	open_btrfs();
	assert_true(is_there(warden.state_fd, "pool.btrfs"));
	assert_int_equal(storage_volume_make(&warden, &volume), 0);
	assert_int_equal(storage_volume_limit(&warden, volume, 1 << 20), 0);
	assert_int_equal(teardown(NULL), 0);
	warden.state_fd = open("/tmp/state", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.sys_fs_fd = warden.snapshots_fd = warden.pool_fd = warden.quotas_fd = -1;
	warden.temporary = NULL;
	assert_int_equal(storage_open(&warden, STORAGE_AUTO), 0);
	assert_true(storage_volume_open(&warden, volume) >= 0);
	storage_volume_remove(&warden, volume);
	assert_int_equal(storage_volume_open(&warden, volume), -ENOENT);
}

static void files_of_the_last_boot_become_snapshots(void **state)
{
	static struct slot_row rows[SLOTS_MAX];
	uint64_t bytes = 0;

	(void)state;
	open_btrfs();
	for (unsigned i = 0; i < 4; i++) {
		rows[i].state = i == 1 ? SLOT_DYING : SLOT_LIVE;
		assert_int_equal(storage_volume_make(&warden, &rows[i].volume), 0);
	}
	(void)strcpy(rows[0].id, "kept");
	(void)strcpy(rows[1].id, "dying");
	(void)strcpy(rows[2].id, "../bad");
	memset(rows[3].id, 'x', sizeof(rows[3].id) - 2); /* too long for the prefix */
	rows[4].state = SLOT_LIVE;			 /* without a volume */
	(void)strcpy(rows[4].id, "none");
	salvage(&warden, rows);
	assert_true(is_there(warden.snapshots_fd, "r-kept/data/upper"));
	assert_true(is_there(warden.snapshots_fd, "r-kept/manifest"));
	assert_int_equal(mkdirat(warden.snapshots_fd, "r-kept/data/more", 0700), -1);
	assert_int_equal(errno, EROFS);
	assert_false(is_there(warden.snapshots_fd, "r-dying"));
	assert_false(is_there(warden.snapshots_fd, "r-none"));
	assert_false(is_there(warden.pool_fd, "bad"));
	assert_int_equal(storage_volume_open(&warden, rows[0].volume),
			 -ENOENT); /* moved, not copied */
	assert_int_equal(salvage_usage(&warden, "kept", &bytes), 0);
	assert_int_equal(salvage_usage(&warden, "dying", &bytes), -ENOENT);
	salvage(&warden, rows); /* repeated after a kill: what is there stays */
	assert_true(is_there(warden.snapshots_fd, "r-kept/data/upper"));
}

static void without_snapshots_nothing_is_salvaged(void **state)
{
	static const struct slot_row rows[SLOTS_MAX] = {
		{ .state = SLOT_LIVE, .volume = 1, .id = "a" }
	};
	uint64_t bytes = 5;

	(void)state;
	salvage(&warden, rows);
	assert_int_equal(salvage_usage(&warden, "a", &bytes), -ENOENT);
	assert_int_equal(bytes, 5);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_have_names),
		T(directories_are_roots_alone),
		T(a_directory_that_others_control_is_rejected),
		T(a_state_directory_keeps_its_kind),
		T(without_the_space_for_a_pool_there_are_directories),
		T(directories_are_entered_as_a_mount),
		T(a_pool_of_btrfs_is_found_again),
		T(files_of_the_last_boot_become_snapshots),
		T(without_snapshots_nothing_is_salvaged),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
