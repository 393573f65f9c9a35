/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts by descriptor, with the kernel's newest features and without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "../../own_place.h"
#include "sys/mount/buildns.h"
#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "sys/process/namespace.h"

#define FIRST_ID 0x300000

static int make_tmpfs(void)
{
	const struct mount_option size = { "size", "1m", -1 };
	int fd = -1;

	assert_int_equal(mount_make("tmpfs", &size, 1, 0, &fd), 0);
	return fd;
}

static void a_file_system_is_made_detached(void **state)
{
	const struct mount_option bad = { "no_such_option", "1", -1 }, flag = { "size", NULL, -1 };
	struct statvfs fs;
	int fd = -1;

	(void)state;
	assert_int_equal(mount_make("no-such-type", NULL, 0, 0, &fd), -ENODEV);
	assert_int_equal(mount_make("tmpfs", &bad, 1, 0, &fd), -EINVAL);
	assert_int_equal(mount_make("tmpfs", &flag, 1, 0, &fd), -EINVAL);
	assert_int_equal(fd, -1);
	fd = make_tmpfs();
	assert_return_code(fstatvfs(fd, &fs), errno);
	assert_int_equal(fs.f_blocks * fs.f_frsize, 1 << 20);
	put_text(fd, "file", "x");
	(void)close(fd);
}

static void options_of_a_file_system_are_changed(void **state)
{
	const struct mount_option larger = { "size", "2m", -1 }, bad = { "size", "many", -1 };
	struct statvfs fs;
	int fd = make_tmpfs();

	(void)state;
	assert_int_equal(mount_reconfigure(fd, &bad, 1), -EINVAL);
	assert_int_equal(mount_reconfigure(fd, &larger, 1), 0);
	assert_return_code(fstatvfs(fd, &fs), errno);
	assert_int_equal(fs.f_blocks * fs.f_frsize, 2 << 20);
	(void)close(fd);
	assert_true(mount_reconfigure(fd, &larger, 1) < 0); /* closed */
}

static void a_copy_has_attributes_of_its_own(void **state)
{
	int dir_fd, copy_fd = -1;

	(void)state;
	dir_fd = own_place_open("dir");
	put_text(dir_fd, "file", "same");
	assert_int_equal(mount_copy(dir_fd, "missing", 0, -1, &copy_fd), -ENOENT);
	assert_int_equal(copy_fd, -1);
	assert_int_equal(mount_copy(dir_fd, "", MOUNT_ATTR_RDONLY, -1, &copy_fd), 0);
	assert_text(copy_fd, "file", "same");
	assert_int_equal(openat(copy_fd, "file", O_WRONLY | O_CLOEXEC), -1);
	assert_int_equal(errno, EROFS);
	put_text(dir_fd, "file", "new"); /* the original is as it was */
	assert_text(copy_fd, "file", "new");
	(void)close(copy_fd);
	assert_int_equal(mount_copy(dir_fd, "file", 0, -1, &copy_fd), 0); /* of a single file */
	(void)close(copy_fd);
	(void)close(dir_fd);
}

static void a_copy_shows_ids_as_a_user_namespace_maps_them(void **state)
{
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC), dir_fd, ns_fd = -1,
	    copy_fd = -1, r;
	struct stat st;

	(void)state;
	dir_fd = own_place_open("dir");
	put_text(dir_fd, "file", "");
	assert_return_code(fchownat(dir_fd, "file", 7, 8, 0), errno);
	assert_int_equal(userns_make(proc_fd, FIRST_ID, &ns_fd), 0);
	r = mount_copy(dir_fd, "", 0, ns_fd, &copy_fd);
	if (r == -EINVAL) {
		print_message("skipped: this kernel maps no ids of a tmpfs\n");
		skip();
	}
	assert_int_equal(r, 0);
	assert_return_code(fstatat(copy_fd, "file", &st, 0), errno);
	assert_int_equal(st.st_uid, FIRST_ID + 7);
	assert_int_equal(st.st_gid, FIRST_ID + 8);
	assert_int_equal(mount_copy(dir_fd, "", 0, proc_fd, &copy_fd),
			 -EINVAL); /* no user namespace */
	(void)close(copy_fd);
	(void)close(ns_fd);
	(void)close(dir_fd);
	(void)close(proc_fd);
}

static void a_target_is_never_reached_through_a_link(void **state)
{
	int root_fd, fd = make_tmpfs();

	(void)state;
	root_fd = own_place_open("root");
	(void)mkdirat(root_fd, "real", 0755);
	(void)mkdirat(root_fd, "real/below", 0755);
	assert_return_code(symlinkat("real", root_fd, "link"), errno);
	assert_return_code(symlinkat("/", root_fd, "out"), errno);
	put_text(root_fd, "file", "");
	assert_int_equal(mount_attach(fd, root_fd, "missing"), -ENOENT);
	assert_int_equal(mount_attach(fd, root_fd, "link/below"), -ELOOP);
	assert_int_equal(mount_attach(fd, root_fd, "out/tmp"), -ELOOP);
	assert_int_equal(mount_attach(fd, root_fd, "file/below"), -ENOTDIR);
	assert_int_equal(mount_attach(fd, root_fd, "link"), -ENOTDIR); /* a directory over a link */
	assert_int_equal(mount_attach(fd, root_fd, "file"), -ENOTDIR);
	put_text(fd, "inside", "mounted");
	assert_int_equal(mount_attach(fd, root_fd, "../../../real/below"),
			 0); /* up is the root at most */
	assert_text(root_fd, "real/below/inside", "mounted");
	(void)umount2("/tmp/root/real/below", MNT_DETACH);
	(void)close(fd);
	(void)close(root_fd);
}

static void a_file_is_not_mounted_over_a_directory(void **state)
{
	int root_fd, fd = -1;

	(void)state;
	root_fd = own_place_open("root");
	put_text(root_fd, "file", "from");
	put_text(root_fd, "target", "");
	(void)mkdirat(root_fd, "dir", 0755);
	assert_int_equal(mount_copy(root_fd, "file", 0, -1, &fd), 0);
	assert_int_equal(mount_attach(fd, root_fd, "dir"), -ENOTDIR);
	assert_int_equal(mount_attach(fd, root_fd, "target"), 0);
	assert_text(root_fd, "target", "from");
	(void)umount2("/tmp/root/target", MNT_DETACH);
	(void)close(fd);
	(void)close(root_fd);
}

/* ---- in processes of their own, whose root changes ---- */

static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int become_root(void)
{
	const struct mount_option size = { "size", "1m", -1 };
	int fd = -1;

	if (mount_unshare() < 0 || mount_make("tmpfs", &size, 1, 0, &fd) < 0 ||
	    mkdirat(fd, "new", 0755) < 0)
		return 1;
	if (mount_become_root(fd) < 0)
		return 2;
	if (access("/new", F_OK) < 0 || access("/tmp", F_OK) == 0)
		return 3;
	return mount_become_root(fd) < 0 ? 0 : 4; /* attached by now */
}

/* As on the oldest supported kernel: mounts are copied and mounted into while they are attached. */
static int build_without_features(void)
{
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC), outer = -1, inner = -1,
	    copy = -1;
	char unknown[32], name[MOUNT_NAME_SIZE];

	if (probe_disable("all", unknown, sizeof(unknown)) < 0 || buildns_is_open())
		return 1;
	if (mount_unshare() < 0 || buildns_open(proc_fd) < 0 || !buildns_is_open())
		return 2;
	if (mount_make("tmpfs", NULL, 0, 0, &outer) < 0 || mkdirat(outer, "at", 0755) < 0 ||
	    mount_make("tmpfs", NULL, 0, 0, &inner) < 0 || mkdirat(inner, "found", 0755) < 0)
		return 3;
	if (mount_keep(outer) < 0 || mount_attach(inner, outer, "at") < 0)
		return 4;
	mount_name(outer, name);
	buildns_enter();
	if (access(name, F_OK) < 0)
		return 5;
	buildns_leave();
	if (access(name, F_OK) == 0) /* sandboxes do not start where it is seen */
		return 6;
	if (mount_copy(outer, "", MOUNT_ATTR_RDONLY, -1, &copy) < 0 ||
	    mkdirat(copy, "x", 0755) == 0)
		return 7;
	if (mount_settle(&outer) < 0 || faccessat(outer, "at/found", F_OK, 0) < 0)
		return 8;
	buildns_enter();
	mount_close(outer);
	return fcntl(outer, F_GETFD) < 0 ? 0 : 9;
}

static int build_with_features(void)
{
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC), fd = -1, same;

	probe_all();
	if (!probe_has(PROBE_OVERLAY_FD) || !probe_has(PROBE_DETACHED_COPY) ||
	    !probe_has(PROBE_DETACHED_TARGET))
		return 0; /* this kernel is the other test's */
	if (buildns_open(proc_fd) < 0 || buildns_is_open() ||
	    mount_make("tmpfs", NULL, 0, 0, &fd) < 0)
		return 1;
	same = fd;
	if (mount_keep(fd) < 0 || mount_settle(&fd) < 0 || fd != same)
		return 2;
	mount_close(fd);
	mount_close(-1);
	return fcntl(fd, F_GETFD) < 0 ? 0 : 3;
}

static void a_mount_becomes_the_root(void **state)
{
	(void)state;
	assert_int_equal(in_child(become_root), 0);
}

static void the_build_namespace_replaces_missing_features(void **state)
{
	(void)state;
	assert_int_equal(in_child(build_without_features), 0);
}

static void without_need_there_is_no_build_namespace(void **state)
{
	(void)state;
	assert_int_equal(in_child(build_with_features), 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup(fn, own_place_renew)
	const struct CMUnitTest tests[] = {
		T(a_file_system_is_made_detached),
		T(options_of_a_file_system_are_changed),
		T(a_copy_has_attributes_of_its_own),
		T(a_copy_shows_ids_as_a_user_namespace_maps_them),
		T(a_target_is_never_reached_through_a_link),
		T(a_file_is_not_mounted_over_a_directory),
		T(a_mount_becomes_the_root),
		T(the_build_namespace_replaces_missing_features),
		T(without_need_there_is_no_build_namespace),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
