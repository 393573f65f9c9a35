/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that an engine with this isolation must take for one box, and no others. */
#include "limit-box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc's sys/mount/mount.h and linux/mount.h cannot be included together. */
extern int mount(const char *, const char *, const char *, unsigned long, const void *);
#define MS_NOSUID 2
#define MS_NODEV 4
#define MS_NOEXEC 8
#define MS_RDONLY 1
#define MS_REMOUNT 32
#define MS_BIND 4096
#define MS_MOVE 8192

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define PIDFD_GET_USER_NAMESPACE_ _IO(0xff, 9) /* Linux 6.11; not in Debian 12's headers */
#define RANGE 65536u
#define RANGES 1000u
#define STACK_SIZE 65536

/* What package managers need inside; all other capabilities leave the bounding set. */
#define KEPT_CAPS                                                                         \
	(1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID | \
	 1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID | 1u << CAP_SETPCAP |       \
	 1u << CAP_NET_BIND_SERVICE | 1u << CAP_SETFCAP)

static char child_stack[STACK_SIZE] __attribute__((aligned(64)));

static unsigned range_base(const struct box_parts *parts)
{
	return (16 + parts->number % RANGES) * RANGE;
}

static __attribute__((noreturn)) int user_hold(void *arg)
{
	for (;;)
		pause();
}

/* A user namespace needs a process to be created; it has ended before the box exists. */
static int user_open(struct box_host *host, const struct box_parts *parts)
{
	char map[64], path[64];
	int pid_fd;
	int len = snprintf(map, sizeof(map), "0 %u %u", range_base(parts), RANGE);
	pid_t pid = clone(user_hold, child_stack + STACK_SIZE,
			  CLONE_VM | CLONE_NEWUSER | CLONE_PIDFD | SIGCHLD, NULL, &pid_fd);

	if (pid < 0)
		box_die("clone user namespace");
	host->alive = pid;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%d/%cid_map", (int)pid, "ug"[i]);
		int fd = openat(host->proc_fd, path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, map, (size_t)len) != len)
			box_die(path);
		close(fd);
	}
	int fd = ioctl(pid_fd, PIDFD_GET_USER_NAMESPACE_, 0);
	if (fd < 0)
		box_die("user namespace");
	syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
	waitpid(pid, NULL, 0);
	host->alive = 0;
	close(pid_fd);
	return fd;
}

int box_lo_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int status = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &request);

	close(fd);
	return status;
}

static __attribute__((noreturn)) int net_open_child(void *arg)
{
	struct box_parts *parts = arg;

	parts->net_fd = unshare(CLONE_NEWNET) < 0 || box_lo_up() < 0 ? -1 : 0;
	for (;;)
		pause();
}

/* Stock only: a namespace created by a short-lived process and kept by its descriptor. */
static int net_open(struct box_host *host, struct box_parts *parts)
{
	char path[64];
	pid_t pid;

	parts->net_fd = -2;
	pid = clone(net_open_child, child_stack + STACK_SIZE, CLONE_VM | SIGCHLD, parts);
	if (pid < 0)
		box_die("clone net namespace");
	host->alive = pid;
	while (*(volatile int *)&parts->net_fd == -2)
		sched_yield();
	snprintf(path, sizeof(path), "%d/ns/net", (int)pid);
	int fd = openat(host->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || parts->net_fd < 0)
		box_die("net namespace");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	host->alive = 0;
	return fd;
}

static void limit_write(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		box_die(name);
	close(fd);
}

static void cgroup_open(struct box_host *host, struct box_parts *parts)
{
	static const char *const limits[BOX_CONTROLLERS][2] = {
		{ "cpu.cfs_quota_us", "100000" },
		{ "memory.limit_in_bytes", "1073741824" },
		{ "pids.max", "512" },
	};
	char name[16];

	snprintf(name, sizeof(name), "b%u", parts->number);
	for (int i = 0; i < BOX_CONTROLLERS; i++) {
		char path[48];

		if (mkdirat(host->cgroup_fd[i], name, 0755) < 0)
			box_die("cgroup");
		if (limits[i][0] != NULL) {
			snprintf(path, sizeof(path), "%s/%s", name, limits[i][0]);
			limit_write(host->cgroup_fd[i], path, limits[i][1]);
		}
		snprintf(path, sizeof(path), "%s/tasks", name);
		parts->tasks_fd[i] = openat(host->cgroup_fd[i], path, O_WRONLY | O_CLOEXEC);
		if (parts->tasks_fd[i] < 0)
			box_die("tasks");
	}
}

void box_parts_make(struct box_host *host, struct box_parts *parts, unsigned number)
{
	parts->number = number;
	if (host->numbers <= number)
		host->numbers = number + 1;
	parts->net_fd = -1;
	parts->user_fd = user_open(host, parts);
	box_mark(host, "user namespace, maps, descriptor");
	if (host->ready_parts)
		parts->net_fd = net_open(host, parts);
	cgroup_open(host, parts);
	box_mark(host, "5 cgroups: mkdir, limits, open tasks");
}

static void upper_open(struct box_host *host, struct box *box)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "b%u", box->parts.number);
	if (strcmp(host->storage_kind, "btrfs") == 0) {
		struct btrfs_ioctl_vol_args args = { 0 };
		memcpy(args.name, name, sizeof(name));
		fd = openat(host->storage_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0)
			box_die("subvolume");
		close(fd);
	} else if (mkdirat(host->storage_fd, name, 0700) < 0) {
		box_die("upper");
	}
	fd = openat(host->storage_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "u", 0755) < 0 || mkdirat(fd, "w", 0700) < 0)
		box_die("upper");
	box->upper_fd = openat(fd, "u", O_PATH | O_DIRECTORY | O_CLOEXEC);
	box->work_fd = openat(fd, "w", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (box->upper_fd < 0 || box->work_fd < 0 ||
	    fchownat(fd, "u", range_base(&box->parts), range_base(&box->parts), 0) < 0)
		box_die("upper");
	close(fd);
}

static void config(int fd, unsigned command, const char *key, const void *value, int aux)
{
	if (syscall(SYS_fsconfig, fd, command, key, value, aux) < 0)
		box_die(key != NULL ? key : "overlay");
}

/* Builds the whole root by descriptor; the child only attaches it. */
static int root_open(struct box_host *host, struct box *box)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY,
				   .userns_fd = (uint64_t)box->parts.user_fd };
	int lower = (int)syscall(SYS_open_tree, host->template_fd, "",
				 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (lower < 0 ||
	    syscall(SYS_mount_setattr, lower, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		box_die("idmapped template");
	box_mark(host, "idmapped template");
	int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
	if (fs < 0)
		box_die("fsopen");
	config(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lower);
	config(fs, FSCONFIG_SET_FD, "upperdir", NULL, box->upper_fd);
	config(fs, FSCONFIG_SET_FD, "workdir", NULL, box->work_fd);
	config(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0);
	config(fs, FSCONFIG_SET_STRING, "index", "off", 0);
	config(fs, FSCONFIG_SET_STRING, "xino", "off", 0);
	config(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	int root = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
	if (root < 0)
		box_die("fsmount");
	close(fs);
	close(lower);
	close(box->upper_fd);
	close(box->work_fd);
	return root;
}

static void bind_path(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
		box_die(to);
}

static void child_proc(struct box_host *host)
{
	/*
	 * Files that everyone could read and that describe the host. All others belong to the
	 * host's root, whose id does not exist inside.
	 */
	static const char *const files[] = { "interrupts",  "keys",	"key-users",  "zoneinfo",
					     "config.gz",   "kallsyms", "timer_list", "softirqs",
					     "sched_debug", "iomem",	"ioports" };
	static const char *const dirs[] = {
		"acpi", "asound", "scsi", "pressure", "irq", "bus", "fs"
	};
	char path[64];

	if (mount("proc", "/r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		box_die("proc");
	box_mark(host, "mount proc");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/r/proc/%s", files[i]);
		bind_path("/null", path);
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "/r/proc/%s", dirs[i]);
		bind_path("/empty", path);
	}
	box_mark(host, "mask /proc");
}

static void child_mounts(struct box_host *host, struct box *box, int root)
{
	char options[96];

	if (syscall(SYS_move_mount, root, "", AT_FDCWD, "/r", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		box_die("attach root");
	box_mark(host, "attach root");
	child_proc(host);
	bind_path("/d", "/r/dev");
	bind_path("/i", "/r/mnt");
	box_mark(host, "bind /dev and init trees");
	snprintf(options, sizeof(options), "newinstance,ptmxmode=0666,mode=0620,gid=%u,max=64",
		 range_base(&box->parts) + 5);
	if (mount("devpts", "/r/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) < 0)
		box_die("devpts");
	box_mark(host, "mount devpts");
	if (mount("shm", "/r/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m") < 0)
		box_die("shm");
	box_mark(host, "mount shm");
	if (chdir("/r") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		box_die("enter root");
	box_mark(host, "MS_MOVE, chroot");
}

static void child_privileges(struct box_host *host, struct box *box)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { KEPT_CAPS, KEPT_CAPS, 0 }, { 0, 0, 0 } };

	/*
	 * Entering a user namespace fills every capability set again, including the bounding set,
	 * so they are reduced afterwards. Raw calls, because glibc's set*id signal other threads.
	 */
	if (setns(box->parts.user_fd, CLONE_NEWUSER) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
	    syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		box_die("enter user namespace");
	box_mark(host, "setns user, ids");
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
		if ((cap > 31 || !(KEPT_CAPS >> cap & 1)) &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			box_die("bounding set");
	box_mark(host, "bounding set (31 prctl)");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &host->filter) < 0)
		box_die("seccomp");
	box_mark(host, "seccomp filter");
	if (syscall(SYS_capset, &header, data) < 0)
		box_die("capset");
}

struct child {
	struct box_host *host;
	struct box *box;
	int root;
};

/* Shares the parent's memory (vfork): only raw system calls and time stamps until the exec. */
static int child_main(void *arg)
{
	struct child *child = arg;
	struct box_host *host = child->host;
	struct box_parts *parts = &child->box->parts;
	char *argv[] = { (char[]){ "init" }, NULL }, *env[] = { NULL };

	box_in_child = true;
	box_mark(host, "clone with namespaces");
	for (int i = 0; i < BOX_CONTROLLERS; i++)
		if (write(parts->tasks_fd[i], "0", 1) != 1)
			box_die("attach to cgroup");
	box_mark(host, "5 cgroups: attach");
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWTIME) < 0)
		box_die("cgroup and time namespaces");
	box_mark(host, "unshare cgroup, time");
	if (parts->net_fd >= 0 ? setns(parts->net_fd, CLONE_NEWNET) < 0 : box_lo_up() < 0)
		box_die("network");
	box_mark(host, "lo up");
	child_mounts(host, child->box, child->root);
	if (sethostname("limit", 5) < 0 || setsid() < 0)
		box_die("sethostname");
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null_fd, fd) < 0)
			box_die("/dev/null");
	if (dup2(child->box->child_fd, 3) < 0)
		box_die("control socket");
	child_privileges(host, child->box);
	box_mark(host, "capset, stdio");
	execve("/mnt/init", argv, env);
	box_die("init");
}

void box_create(struct box_host *host, struct box *box)
{
	struct child child = { .host = host, .box = box };
	int pair[2], flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC;
	char hello;

	upper_open(host, box);
	box_mark(host, "upper on the storage");
	child.root = root_open(host, box);
	box_mark(host, "overlay");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		box_die("socketpair");
	box->control_fd = pair[0];
	box->child_fd = pair[1];
	if (box->parts.net_fd < 0)
		flags |= CLONE_NEWNET;
	box->pid =
		clone(child_main, child_stack + STACK_SIZE,
		      flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &child, &box->pid_fd);
	if (box->pid < 0)
		box_die("clone");
	box_in_child = false;
	host->alive = box->pid;
	box_mark(host, "exec init");
	close(pair[1]);
	close(child.root);
	close(box->parts.user_fd);
	if (box->parts.net_fd >= 0)
		close(box->parts.net_fd);
	for (int i = 0; i < BOX_CONTROLLERS; i++)
		close(box->parts.tasks_fd[i]);
	if (recv(box->control_fd, &hello, 1, 0) != 1)
		box_die("init did not answer");
	box_mark(host, "init answers");
}

void box_exec(struct box *box, const char *request, size_t len, struct box_result *result)
{
	struct {
		int status;
		char output[BOX_OUTPUT_MAX];
	} reply;

	if (send(box->control_fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
		box_die("send");
	ssize_t n = recv(box->control_fd, &reply, sizeof(reply), 0);
	if (n < (ssize_t)sizeof(reply.status))
		box_die("no reply");
	result->status = reply.status;
	result->output_len = (size_t)n - sizeof(reply.status);
	memcpy(result->output, reply.output, result->output_len);
}

static void upper_drop(struct box_host *host, struct box *box)
{
	static const char *const inside[] = { "w/work/incompat/volatile", "w/work/incompat",
					      "w/work", "w", "u" };
	char name[32];

	snprintf(name, sizeof(name), "b%u", box->parts.number);
	if (strcmp(host->storage_kind, "btrfs") == 0) {
		struct btrfs_ioctl_vol_args args = { 0 };
		memcpy(args.name, name, sizeof(name));
		int fd = openat(host->storage_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || ioctl(fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0)
			box_die("drop subvolume");
		close(fd);
		return;
	}
	int fd = openat(host->storage_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unlinkat(fd, "w/work/incompat/volatile/dirty", 0);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		unlinkat(fd, inside[i], AT_REMOVEDIR);
	close(fd);
	if (unlinkat(host->storage_fd, name, AT_REMOVEDIR) < 0)
		box_die("drop upper");
}

void box_destroy(struct box_host *host, struct box *box)
{
	char name[16];

	if (syscall(SYS_pidfd_send_signal, box->pid_fd, SIGKILL, NULL, 0) < 0 ||
	    waitpid(box->pid, NULL, 0) != box->pid)
		box_die("kill");
	host->alive = 0;
	close(box->pid_fd);
	close(box->control_fd);
	box_mark(host, "kill, reap");
	snprintf(name, sizeof(name), "b%u", box->parts.number);
	for (int i = 0; i < BOX_CONTROLLERS; i++)
		if (unlinkat(host->cgroup_fd[i], name, AT_REMOVEDIR) < 0)
			box_die("rmdir cgroup");
	box_mark(host, "5 cgroups: rmdir");
	upper_drop(host, box);
	box_mark(host, "drop upper");
}
