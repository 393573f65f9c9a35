/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the limit program prepares once, before anything is timed: a mount namespace without the
 * host's mounts, the detached trees, and one cgroup directory per hierarchy.
 */
#include "limit-box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define STAGE "/dev/shm" /* where the empty root is built, visible only in our own namespace */

static const char *const controllers[BOX_CONTROLLERS] = { "cpu", "memory", "pids", "freezer",
							  "devices" };

bool box_in_child;

uint64_t box_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void box_mark(struct box_host *host, const char *name)
{
	struct box_marks *marks = &host->marks;

	if (!marks->on || marks->count == BOX_MARKS_MAX)
		return;
	marks->name[marks->count] = name;
	marks->at_ns[marks->count++] = box_now_ns();
}

void box_die(const char *what)
{
	fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
	if (box_in_child)
		_exit(1);
	exit(1); /* runs the cleanup registered by main */
}

static void write_at(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		box_die(name);
	close(fd);
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		box_die(path);
	return fd;
}

/* The device rules are set on the parent, and new directories inherit them, as in an engine. */
static void cgroup_open(struct box_host *host)
{
	static const char *const rules[] = { "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm",
					     "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm" };
	char path[160];

	snprintf(host->cgroup_name, sizeof(host->cgroup_name), "cay-limit.%d", (int)getpid());
	host->cgroup_root_fd = open_dir(CGROUP_ROOT);
	for (int i = 0; i < BOX_CONTROLLERS; i++) {
		snprintf(path, sizeof(path), CGROUP_ROOT "/%s/%s", controllers[i],
			 host->cgroup_name);
		if (mkdir(path, 0755) < 0)
			box_die(path);
		host->cgroup_fd[i] = open_dir(path);
	}
	write_at(host->cgroup_fd[4], "devices.deny", "a");
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		write_at(host->cgroup_fd[4], "devices.allow", rules[i]);
	/*
	 * If no other group had a quota, each first and last one would patch kernel text (a static
	 * key). A busy host does not pay that, so one group keeps the key enabled.
	 */
	if (mkdirat(host->cgroup_fd[0], "keep", 0755) < 0)
		box_die("cpu/keep");
	int keep = openat(host->cgroup_fd[0], "keep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	write_at(keep, "cpu.cfs_quota_us", "100000");
	close(keep);
}

static void cgroup_close(struct box_host *host)
{
	char path[160];

	for (int i = 0; i < BOX_CONTROLLERS; i++) {
		for (unsigned number = 0; number < host->numbers; number++) {
			snprintf(path, sizeof(path), "%s/%s/b%u", controllers[i], host->cgroup_name,
				 number);
			unlinkat(host->cgroup_root_fd, path, AT_REMOVEDIR);
		}
		snprintf(path, sizeof(path), "%s/%s/keep", controllers[i], host->cgroup_name);
		unlinkat(host->cgroup_root_fd, path, AT_REMOVEDIR);
		snprintf(path, sizeof(path), "%s/%s", controllers[i], host->cgroup_name);
		unlinkat(host->cgroup_root_fd, path, AT_REMOVEDIR);
	}
}

static void dev_populate(void)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} nodes[] = { { "d/null", 1, 3 },   { "d/zero", 1, 5 },	   { "d/full", 1, 7 },
		      { "d/random", 1, 8 }, { "d/urandom", 1, 9 }, { "d/tty", 5, 0 } };

	umask(0);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
		    0)
			box_die(nodes[i].path);
	if (mkdir("d/pts", 0755) < 0 || mkdir("d/shm", 0755) < 0 ||
	    symlink("pts/ptmx", "d/ptmx") < 0 || symlink("/proc/self/fd", "d/fd") < 0 ||
	    symlink("/proc/self/fd/0", "d/stdin") < 0 ||
	    symlink("/proc/self/fd/1", "d/stdout") < 0 ||
	    symlink("/proc/self/fd/2", "d/stderr") < 0)
		box_die("/dev tree");
	if (mount(NULL, "d", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) <
	    0)
		box_die("read-only /dev tree");
}

static void init_copy(const char *path)
{
	char block[65536];
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = open("i/init", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ssize_t n;

	if (from < 0 || to < 0)
		box_die(path);
	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			box_die("copy of init");
	close(from);
	close(to);
}

/* The namespace that every box copies: an almost empty root with the trees that a box binds. */
static void root_open(struct box_host *host)
{
	if (mount("limit", STAGE, "tmpfs", 0, "mode=755") < 0 || chdir(STAGE) < 0)
		box_die(STAGE);
	if (mkdir("r", 0755) < 0 || mkdir("d", 0755) < 0 || mkdir("i", 0755) < 0 ||
	    mkdir("empty", 0555) < 0 || mkdir("old", 0700) < 0)
		box_die("stage");
	if (mount("limit", "d", "tmpfs", 0, "mode=755") < 0)
		box_die("/dev tree");
	dev_populate();
	init_copy(host->init_path);
	if (mount("i", "i", NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, "i", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
		    0 ||
	    mount("empty", "empty", NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, "empty", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		box_die("init tree");
	int null_fd = open("null", O_CREAT | O_CLOEXEC, 0444);
	if (null_fd < 0 || mount("null", "null", NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, "null", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		box_die("null");
	close(null_fd);
	if (syscall(SYS_pivot_root, ".", "old") < 0 || umount2("old", MNT_DETACH) < 0 ||
	    chdir("/") < 0)
		box_die("pivot_root");
}

static const char *storage_kind(int fd)
{
	struct statfs stat;

	if (fstatfs(fd, &stat) < 0)
		box_die("statfs");
	switch ((unsigned long)stat.f_type) {
	case BTRFS_SUPER_MAGIC:
		return "btrfs";
	case TMPFS_MAGIC:
		return "tmpfs";
	case EXT4_SUPER_MAGIC:
		return "ext4";
	default:
		return "other";
	}
}

void box_host_open(struct box_host *host)
{
	host->filter = box_filter();
	host->proc_fd = open_dir("/proc");
	cgroup_open(host);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		box_die("own mount namespace");
	if (host->storage_dir == NULL) {
		if (mount("limit", "/sys", "tmpfs", 0, "mode=700") < 0)
			box_die("tmpfs storage");
		host->storage_dir = "/sys";
	}
	host->storage_fd = (int)syscall(SYS_open_tree, AT_FDCWD, host->storage_dir,
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	host->template_fd = (int)syscall(SYS_open_tree, AT_FDCWD, host->template_dir,
					 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (host->storage_fd < 0 || host->template_fd < 0)
		box_die(host->storage_fd < 0 ? host->storage_dir : host->template_dir);
	host->storage_kind = storage_kind(host->storage_fd);
	root_open(host);
}

void box_host_close(struct box_host *host)
{
	if (host->alive > 0) {
		kill(host->alive, SIGKILL);
		waitpid(host->alive, NULL, 0);
	}
	cgroup_close(host);
}
