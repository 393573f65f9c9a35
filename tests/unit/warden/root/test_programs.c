/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay through which a slot sees programs and masks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "../../own_place.h"
#include "warden/root/programs.h"

#define SLOTS 3

static struct warden warden;
static int programs_fd[SLOTS];

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	warden.programs_fd = programs_fd;
	for (size_t i = 0; i < SLOTS; i++)
		programs_fd[i] = -1;
	warden.shared_fd = own_place_open("shared");
	(void)mkdirat(warden.shared_fd, PROGRAMS_DIR, 0755);
	(void)mkdirat(warden.shared_fd, PROGRAMS_MASKS, 0755);
	(void)mkdirat(warden.shared_fd, PROGRAMS_MASKS "/" MASK_DIR, 0755);
	put_text(warden.shared_fd, PROGRAMS_DIR "/agent", "a program");
	put_text(warden.shared_fd, PROGRAMS_MASKS "/" MASK_DIR "/empty", "");
	return r < 0 ? r : programs_open(&warden, warden.shared_fd);
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < SLOTS; i++)
		if (programs_fd[i] >= 0)
			(void)close(programs_fd[i]);
	(void)close(warden.layers_fd[0]);
	(void)close(warden.layers_fd[1]);
	return close(warden.shared_fd);
}

static int open_in(int fd, const char *path)
{
	int file_fd = openat(fd, path, O_RDONLY | O_CLOEXEC);

	assert_return_code(file_fd, errno);
	return file_fd;
}

static void a_slot_sees_both_layers_read_only(void **state)
{
	int fd = -1;

	(void)state;
	assert_int_equal(programs_make(&warden, 1), 0);
	assert_int_equal(programs_make(&warden, 1), 0); /* it is there */
	assert_int_equal(programs_copy(&warden, 1, "", 0, &fd), 0);
	assert_text(fd, "agent", "a program");
	assert_text(fd, MASK_DIR "/empty", "");
	assert_int_equal(openat(fd, "agent", O_WRONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(mkdirat(fd, "more", 0755), -1);
	assert_int_equal(programs_copy(&warden, 1, "missing", 0, &fd), -ENOENT);
	(void)close(fd);
}

static bool locks_meet(unsigned one, unsigned other)
{
	int a = open_in(programs_fd[one], "agent"), b = open_in(programs_fd[other], "agent");
	bool meet;

	assert_return_code(flock(a, LOCK_EX | LOCK_NB), errno);
	meet = flock(b, LOCK_EX | LOCK_NB) < 0;
	(void)close(a);
	(void)close(b);
	return meet;
}

static bool opens_show(unsigned one, unsigned other)
{
	char path[64], event[512];
	int watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), number;
	bool show;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/agent", programs_fd[one]);
	number = inotify_add_watch(watcher, path, IN_ALL_EVENTS);
	assert_true(number >= 0);
	(void)close(open_in(programs_fd[other], "agent"));
	show = read(watcher, event, sizeof(event)) > 0;
	(void)close(watcher);
	return show;
}

static void two_slots_share_no_inode(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(programs_make(&warden, i), 0);
	assert_true(locks_meet(1, 1) && opens_show(1, 1)); /* the test can tell */
	assert_false(locks_meet(1, 2));
	assert_false(opens_show(1, 2));
	assert_false(locks_meet(0, 1));
}

static void without_the_control_they_do(void **state)
{
	(void)state;
	warden.disabled = CONTROL_INODES;
	assert_int_equal(programs_make(&warden, 1), 0);
	assert_int_equal(programs_make(&warden, 2), 0);
	assert_true(locks_meet(1, 2));
	assert_true(opens_show(1, 2));
}

static void other_programs_have_an_overlay_of_their_own(void **state)
{
	int dir_fd = own_place_open("images"), fd[2] = { -1, -1 };

	(void)state;
	(void)mkdirat(dir_fd, "bin", 0755);
	put_text(dir_fd, "bin/agent", "an older one");
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(programs_copy_other(&warden, dir_fd, "bin", &fd[i]), 0);
	assert_text(fd[0], "agent", "an older one");
	assert_text(fd[0], MASK_DIR "/empty", "");
	programs_fd[0] = fd[0];
	programs_fd[1] = fd[1];
	assert_false(locks_meet(0, 1));
	assert_int_equal(programs_copy_other(&warden, dir_fd, "none", &fd[0]), -ENOENT);
	(void)close(dir_fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_slot_sees_both_layers_read_only),
		T(two_slots_share_no_inode),
		T(without_the_control_they_do),
		T(other_programs_have_an_overlay_of_their_own),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
