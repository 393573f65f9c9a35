/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is in which group of the agent's: written with the memory, and set up again. Plain
 * files play /proc and the freezer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../own_place.h"
#include "warden/memory/checkpoint.h"

#define SLOT 3

static struct warden warden;
static int images_fd;

static void make_group(unsigned group, const char *file, const char *pids)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "3/%u", group);
	(void)mkdirat(warden.cgroups.fd[CGROUP_FREEZER], path, 0755);
	(void)snprintf(path, sizeof(path), "3/%u/%s", group, file);
	put_text(warden.cgroups.fd[CGROUP_FREEZER], path, pids);
}

static void make_process(int pid, const char *numbers)
{
	char path[32], text[128];

	(void)snprintf(path, sizeof(path), "%d", pid);
	(void)mkdirat(warden.proc_fd, path, 0755);
	(void)snprintf(path, sizeof(path), "%d/status", pid);
	(void)snprintf(text, sizeof(text), "Name:\tx\nNSpid:\t%s\nNSsid:\t1\n", numbers);
	put_text(warden.proc_fd, path, text);
}

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	warden.proc_fd = own_place_open("proc");
	warden.cgroups.fd[CGROUP_FREEZER] = own_place_open("freezer");
	images_fd = own_place_open("images");
	(void)mkdirat(warden.cgroups.fd[CGROUP_FREEZER], "3", 0755);
	/* The agent makes its groups as root inside. */
	(void)!fchownat(warden.cgroups.fd[CGROUP_FREEZER], "3", slot_first_id(&warden, SLOT),
			slot_first_id(&warden, SLOT), 0);
	make_process(101, "101\t1");
	make_process(110, "110\t10");
	make_process(111, "111\t11");
	make_process(112, "112\t12");
	return r;
}

static int teardown(void **state)
{
	(void)state;
	(void)close(warden.proc_fd);
	(void)close(warden.cgroups.fd[CGROUP_FREEZER]);
	return close(images_fd);
}

static void members_are_set_up_again_by_their_numbers_inside(void **state)
{
	struct stat st;

	(void)state;
	make_group(7, "cgroup.procs", "110\n111\n");
	make_group(8, "cgroup.procs", "112\n999\n"); /* 999 has ended */
	assert_return_code(mkdirat(warden.cgroups.fd[CGROUP_FREEZER], "3/notes", 0755), errno);
	assert_int_equal(groups_write(&warden, SLOT, images_fd, "groups"), 0);
	assert_return_code(fstatat(images_fd, "groups", &st, 0), errno);
	assert_int_equal(st.st_size, 3 * 8);
	assert_int_equal(groups_write(&warden, SLOT, images_fd, "groups"), -EEXIST);

	/* Made again: the same numbers inside, others outside. */
	make_process(201, "201\t1");
	make_process(212, "212\t12");
	make_process(213, "213\t13"); /* was in no group */
	make_group(7, "cgroup.procs", "");
	make_group(8, "cgroup.procs", "");
	put_text(warden.cgroups.fd[CGROUP_FREEZER], "3/cgroup.procs", "201\n212\n213\n");
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"), 0);
	assert_text(warden.cgroups.fd[CGROUP_FREEZER], "3/8/cgroup.procs", "212");
	assert_text(warden.cgroups.fd[CGROUP_FREEZER], "3/7/cgroup.procs", "");
}

static void in_version_2_groups_are_threaded(void **state)
{
	(void)state;
	warden.cgroups.v2[CGROUP_FREEZER] = true;
	make_group(7, "cgroup.procs", "");
	make_group(7, "cgroup.threads", "110\n");
	make_group(7, "cgroup.type", "domain");
	assert_int_equal(groups_write(&warden, SLOT, images_fd, "groups"), 0);
	put_text(warden.cgroups.fd[CGROUP_FREEZER], "3/cgroup.procs", "110\n");
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"), 0);
	assert_int_equal(faccessat(warden.cgroups.fd[CGROUP_FREEZER], "3/7/cgroup.type", F_OK, 0),
			 0);
	assert_text(warden.cgroups.fd[CGROUP_FREEZER], "3/7/cgroup.procs", "110");
}

static void a_new_group_belongs_to_the_slot(void **state)
{
	struct stat st;

	(void)state;
	make_group(7, "cgroup.procs", "110\n");
	assert_int_equal(groups_write(&warden, SLOT, images_fd, "groups"), 0);
	assert_return_code(unlinkat(warden.cgroups.fd[CGROUP_FREEZER], "3/7/cgroup.procs", 0),
			   errno);
	assert_return_code(unlinkat(warden.cgroups.fd[CGROUP_FREEZER], "3/7", AT_REMOVEDIR), errno);
	put_text(warden.cgroups.fd[CGROUP_FREEZER], "3/cgroup.procs", "110\n");
	/* A plain directory has no cgroup.procs in it: the write fails, the group is made. */
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"), -ENOENT);
	assert_return_code(fstatat(warden.cgroups.fd[CGROUP_FREEZER], "3/7", &st, 0), errno);
	assert_int_equal(st.st_uid, slot_first_id(&warden, SLOT));
	assert_int_equal(st.st_gid, slot_first_id(&warden, SLOT));
}

static void a_sandbox_without_groups_writes_an_empty_list(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(groups_write(&warden, SLOT, images_fd, "groups"), 0);
	assert_return_code(fstatat(images_fd, "groups", &st, 0), errno);
	assert_int_equal(st.st_size, 0);
	put_text(warden.cgroups.fd[CGROUP_FREEZER], "3/cgroup.procs", "110\n");
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"), 0);
}

static void what_is_missing_is_an_error(void **state)
{
	(void)state;
	assert_true(groups_write(&warden, SLOT + 1, images_fd, "groups") < 0);
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"), -ENOENT);
	put_text(images_fd, "groups", "");
	assert_int_equal(groups_place(&warden, SLOT + 1, images_fd, "groups"), -ENOENT);
	assert_int_equal(groups_place(&warden, SLOT, images_fd, "groups"),
			 -ENOENT); /* no cgroup.procs */
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(members_are_set_up_again_by_their_numbers_inside),
		T(in_version_2_groups_are_threaded),
		T(a_new_group_belongs_to_the_slot),
		T(a_sandbox_without_groups_writes_an_empty_list),
		T(what_is_missing_is_an_error),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
