/* SPDX-License-Identifier: Apache-2.0 */
/* Device nodes of sandboxes, in the shared tmpfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/sysmacros.h>

#include "../../own_place.h"
#include "warden/root/dev.h"

#define SLOT 5

static struct warden warden;
static mode_t mask;

static int setup(void **state)
{
	int r = own_place_renew(state);

	mask = umask(0); /* as in the warden's setup */
	memset(&warden, 0, sizeof(warden));
	warden.shared_fd = own_place_open("shared");
	return r;
}

static int teardown(void **state)
{
	(void)state;
	(void)umask(mask);
	return close(warden.shared_fd);
}

static void check_node(const char *path, unsigned major_number, unsigned minor_number,
		       uint32_t owner)
{
	struct stat st;

	assert_return_code(fstatat(warden.shared_fd, path, &st, AT_SYMLINK_NOFOLLOW), errno);
	assert_int_equal(st.st_mode, S_IFCHR | 0666);
	assert_int_equal(st.st_rdev, makedev(major_number, minor_number));
	assert_int_equal(st.st_uid, owner);
	assert_int_equal(st.st_gid, owner);
}

static void the_shared_nodes_belong_to_root(void **state)
{
	char target[32] = "";

	(void)state;
	assert_int_equal(dev_open(warden.shared_fd), 0);
	check_node("dev/null", 1, 3, 0);
	check_node("dev/zero", 1, 5, 0);
	check_node("dev/full", 1, 7, 0);
	check_node("dev/urandom", 1, 9, 0);
	check_node("dev/tty", 5, 0, 0);
	assert_int_equal(readlinkat(warden.shared_fd, "dev/fd", target, sizeof(target)), 13);
	assert_memory_equal(target, "/proc/self/fd", 13);
	assert_true(is_there(warden.shared_fd, "dev/pts") &&
		    is_there(warden.shared_fd, "dev/mqueue"));
	assert_false(is_there(warden.shared_fd, "dev/mem"));
	assert_true(is_there(warden.shared_fd, "devs"));
	assert_int_equal(dev_open(warden.shared_fd), -EEXIST);
}

static void a_slot_has_nodes_of_its_own(void **state)
{
	struct stat before, after;

	(void)state;
	assert_int_equal(dev_open(warden.shared_fd), 0);
	assert_int_equal(dev_make(&warden, SLOT), 0);
	check_node("devs/5/null", 1, 3, slot_first_id(&warden, SLOT));
	assert_return_code(fstatat(warden.shared_fd, "devs/5", &before, 0), errno);
	assert_int_equal(before.st_uid, slot_first_id(&warden, SLOT));
	assert_int_equal(dev_make(&warden, SLOT), 0); /* they are there */
	assert_return_code(fstatat(warden.shared_fd, "devs/5", &after, 0), errno);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void two_slots_share_no_node(void **state)
{
	static const char *const names[] = { "", "null", "urandom", "tty", "fd", "pts", "shm" };
	char path[64];
	struct stat a, b;

	(void)state;
	assert_int_equal(dev_open(warden.shared_fd), 0);
	assert_int_equal(dev_make(&warden, SLOT), 0);
	assert_int_equal(dev_make(&warden, SLOT + 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "devs/5/%s", names[i]);
		assert_return_code(fstatat(warden.shared_fd, path, &a, AT_SYMLINK_NOFOLLOW), errno);
		path[5] = '6';
		assert_return_code(fstatat(warden.shared_fd, path, &b, AT_SYMLINK_NOFOLLOW), errno);
		assert_int_not_equal(a.st_ino, b.st_ino);
	}
}

static void without_ids_of_its_own_a_slot_has_nodes_of_the_host(void **state)
{
	(void)state;
	assert_int_equal(dev_open(warden.shared_fd), 0);
	warden.disabled = CONTROL_IDMAP;
	assert_int_equal(dev_make(&warden, SLOT), 0);
	check_node("devs/5/null", 1, 3, 0);
}

static void half_made_nodes_are_taken_away(void **state)
{
	(void)state;
	assert_int_equal(dev_make(&warden, SLOT), -ENOENT); /* devs is missing */
	assert_return_code(mount("small", "/tmp/shared", "tmpfs", 0, "nr_inodes=8"), errno);
	(void)close(warden.shared_fd);
	warden.shared_fd = open("/tmp/shared", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_return_code(mkdirat(warden.shared_fd, "devs", 0755), errno);
	assert_int_equal(dev_make(&warden, SLOT), -ENOSPC);
	assert_false(is_there(warden.shared_fd, "devs/5"));
}

static void a_copy_is_a_read_only_mount(void **state)
{
	struct stat st;
	int fd = -1;

	(void)state;
	assert_int_equal(dev_copy(&warden, SLOT, &fd), -ENOENT);
	assert_int_equal(dev_open(warden.shared_fd), 0);
	assert_int_equal(dev_make(&warden, SLOT), 0);
	assert_int_equal(dev_copy(&warden, SLOT, &fd), 0);
	assert_return_code(fstatat(fd, "null", &st, 0), errno);
	assert_int_equal(st.st_uid, slot_first_id(&warden, SLOT));
	assert_int_equal(mkdirat(fd, "more", 0755), -1);
	assert_int_equal(errno, EROFS);
	(void)close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_shared_nodes_belong_to_root),
		T(a_slot_has_nodes_of_its_own),
		T(two_slots_share_no_node),
		T(without_ids_of_its_own_a_slot_has_nodes_of_the_host),
		T(half_made_nodes_are_taken_away),
		T(a_copy_is_a_read_only_mount),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
