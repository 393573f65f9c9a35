/* SPDX-License-Identifier: Apache-2.0 */
/* What lies over parts of /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "../../own_place.h"
#include "warden/root/programs.h"

static struct warden warden;
static mode_t mask;

/* A /proc of the test's own making. */
static int setup(void **state)
{
	static const char *const directories[] = { "fs",	 "sys",
						   "sys/fs",	 "sys/fs/inotify",
						   "sys/kernel", "sys/kernel/pty" };
	int r = own_place_renew(state);

	mask = umask(0); /* as in the warden's setup */
	memset(&warden, 0, sizeof(warden));
	warden.proc_fd = own_place_open("proc");
	for (size_t i = 0; i < ARRAY_LEN(directories); i++)
		(void)mkdirat(warden.proc_fd, directories[i], 0755);
	put_text(
		warden.proc_fd, "cgroups",
		"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t77\t1\ncpu\t5\t12\t0\n");
	put_text(warden.proc_fd, "locks", "1: FLOCK\n");
	put_text(warden.proc_fd, "sys/fs/file-max", "1234\n");
	put_text(warden.proc_fd, "sys/fs/file-nr", "99\t0\t1234\n");
	put_text(warden.proc_fd, "sys/fs/inotify/max_user_watches", "5678\n");
	put_text(warden.proc_fd, "sys/kernel/pty/max", "4096\n");
	put_text(warden.proc_fd, "sys/kernel/pty/nr", "17\n");
	put_text(warden.proc_fd, "sys/kernel/pid_max", "32768\n");
	(void)!fchmodat(warden.proc_fd, "locks", 0444, 0);
	(void)!fchmodat(warden.proc_fd, "cgroups", 0444, 0);
	(void)!fchmodat(warden.proc_fd, "sys/kernel/pid_max", 0644, 0);
	return r;
}

static int teardown(void **state)
{
	(void)state;
	(void)umask(mask);
	return close(warden.proc_fd);
}

static const struct mask *mask_of(const char *target)
{
	for (unsigned i = 0; i < warden.mask_count; i++)
		if (strcmp(warden.masks[i].target, target) == 0)
			return &warden.masks[i];
	return NULL;
}

static void what_the_kernel_has_is_covered(void **state)
{
	(void)state;
	mask_find(&warden);
	assert_int_equal(mask_of("/proc/locks")->from, MASK_EMPTY);
	assert_int_equal(mask_of("/proc/fs")->from, MASK_VOID);
	assert_int_equal(mask_of("/proc/cgroups")->from, MASK_GROUPS);
	assert_int_equal(mask_of("/proc/sys/fs")->from, MASK_FS);
	assert_int_equal(mask_of("/proc/sys/kernel/pty")->from, MASK_PTY);
	assert_int_equal(mask_of("/proc/sys/kernel/pid_max")->from, MASK_PID_MAX);
	assert_null(mask_of("/proc/keys")); /* this kernel has none */
}

static void what_only_its_owner_can_read_needs_no_cover(void **state)
{
	(void)state;
	assert_return_code(fchmodat(warden.proc_fd, "locks", 0400, 0), errno);
	mask_find(&warden);
	assert_null(mask_of("/proc/locks"));
}

static void the_control_can_be_switched_off(void **state)
{
	(void)state;
	warden.disabled = CONTROL_PROCMASK;
	mask_find(&warden);
	assert_int_equal(warden.mask_count, 0);
}

static void settings_are_copied_and_counters_are_not(void **state)
{
	int fd = own_place_open("layer");

	(void)state;
	assert_int_equal(mask_fill(&warden, fd), 0);
	assert_text(fd, MASK_DIR "/empty", "");
	assert_true(is_there(fd, MASK_DIR "/void"));
	assert_text(
		fd, MASK_DIR "/cgroups",
		"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t1\t1\ncpu\t5\t1\t0\n");
	assert_text(fd, MASK_DIR "/settings/file-max", "1234\n");
	assert_text(fd, MASK_DIR "/settings/inotify/max_user_watches", "5678\n");
	assert_text(fd, MASK_DIR "/settings/file-nr", "0\t0\t9223372036854775807\n");
	assert_false(is_there(fd, MASK_DIR "/settings/nr_open")); /* this kernel has none */
	assert_text(fd, MASK_DIR "/terminals/max", "4096\n");
	assert_text(fd, MASK_DIR "/terminals/nr", "0\n");
	assert_text(fd, MASK_DIR "/pid_max", "32768\n");
	assert_int_equal(mask_fill(&warden, fd), -EEXIST);
	(void)close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(what_the_kernel_has_is_covered),
		T(what_only_its_owner_can_read_needs_no_cover),
		T(the_control_can_be_switched_off),
		T(settings_are_copied_and_counters_are_not),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
