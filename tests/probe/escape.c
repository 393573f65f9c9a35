/* SPDX-License-Identifier: Apache-2.0 */
/* Escape attempts: namespaces, mounts, roots, handles, device nodes, terminals, pid 1. */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>

static const struct {
	const char *name;
	uint64_t flag;
} ns_flags[] = {
	{ "mnt", 0x00020000 }, { "cgroup", 0x02000000 }, { "uts", 0x04000000 },
	{ "ipc", 0x08000000 }, { "user", 0x10000000 },	 { "pid", 0x20000000 },
	{ "net", 0x40000000 }, { "time", 0x00000080 },
};

struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

/* A child created with a new namespace exits at once; only the result of the call matters. */
static void try_clone(const char *name, uint64_t flag)
{
	struct clone3_args args = { .flags = flag, .exit_signal = SIGCHLD };
	long pid;

	if (flag != 0x80) { /* clone(2) has no room for the time flag */
		pid = syscall(SYS_clone, (long)flag | SIGCHLD, 0L, 0L, 0L, 0L);
		if (pid == 0)
			_exit(0);
		report(pid < 0 ? -1 : 0, "clone.%s", name);
		if (pid > 0)
			waitpid((pid_t)pid, NULL, 0);
	}
	pid = syscall(NR_CLONE3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	report(pid < 0 ? -1 : 0, "clone3.%s", name);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
}

static uint64_t current_flag;

static void try_unshare(const char *key)
{
	report(syscall(SYS_unshare, (long)current_flag), "%s", key);
}

int probe_clone(int argc, char **argv)
{
	static const char *const owners[] = { "self", "1" };
	static const char *const kinds[] = { "mnt",  "cgroup", "uts", "ipc",
					     "user", "pid",    "net", "time" };
	char text[64];

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof(ns_flags) / sizeof(ns_flags[0]); i++) {
		try_clone(ns_flags[i].name, ns_flags[i].flag);
		snprintf(text, sizeof(text), "unshare.%s", ns_flags[i].name);
		current_flag = ns_flags[i].flag;
		in_child(text, 500, try_unshare);
		snprintf(text, sizeof(text), "unshare.high.%s", ns_flags[i].name);
		current_flag = ns_flags[i].flag | 0x100000000ULL;
		in_child(text, 500, try_unshare);
	}
	/* User together with others: what a nested sandbox would request. */
	try_clone("user+net", 0x10000000 | 0x40000000);
	try_clone("all", 0x7e020000);
	for (size_t o = 0; o < 2; o++) {
		for (size_t k = 0; k < 8; k++) {
			int fd;

			snprintf(text, sizeof(text), "/proc/%s/ns/%s", owners[o], kinds[k]);
			fd = open(text, O_RDONLY | O_CLOEXEC);
			if (fd < 0) {
				report(-1, "setns.%s.%s", owners[o], kinds[k]);
				continue;
			}
			report(syscall(SYS_setns, fd, 0L), "setns.%s.%s", owners[o], kinds[k]);
			close(fd);
		}
	}
	return 0;
}

static void try_mount(const char *type, const char *source, const char *data)
{
	report(mount(source, "/tmp/mnt", type, 0, data), "mount.%s", type);
}

static void try_mount_fds(void)
{
	struct {
		uint64_t set, clr, propagation, userns_fd;
	} attr = { .clr = 1 };
	long fd = syscall(NR_FSOPEN, "tmpfs", 1L);

	report(fd < 0 ? -1 : 0, "fsopen");
	report(syscall(NR_FSCONFIG, fd, 6L, NULL, NULL, 0L), "fsconfig");
	report(syscall(NR_FSMOUNT, fd, 1L, 0L) < 0 ? -1 : 0, "fsmount");
	report(syscall(NR_FSPICK, -100L, "/", 0L) < 0 ? -1 : 0, "fspick");
	fd = syscall(NR_OPEN_TREE, -100L, "/", 1L);
	report(fd < 0 ? -1 : 0, "open_tree.clone");
	report(syscall(NR_MOVE_MOUNT, fd, "", -100L, "/tmp/mnt", 4L), "move_mount");
	report(syscall(NR_MOUNT_SETATTR, -100L, "/proc", 0L, &attr, sizeof(attr)), "mount_setattr");
	report(syscall(NR_OPEN_TREE_ATTR, -100L, "/", 1L, &attr, sizeof(attr)) < 0 ? -1 : 0,
	       "open_tree_attr");
}

/* Every mount point: its protection must not be removable. */
static void try_remounts(void)
{
	FILE *info = fopen("/proc/self/mountinfo", "re");
	char line[4096], point[1024];

	while (info && fgets(line, sizeof(line), info)) {
		if (sscanf(line, "%*s %*s %*s %*s %1023s", point) != 1)
			continue;
		report(mount(NULL, point, NULL, MS_REMOUNT | MS_BIND, NULL), "remount.%s", point);
		report(umount2(point, MNT_DETACH), "umount.%s", point);
	}
	if (info)
		fclose(info);
}

int probe_mounts(int argc, char **argv)
{
	static const char *const types[] = { "tmpfs",	"proc",	       "sysfs",	 "ramfs", "cgroup",
					     "cgroup2", "devpts",      "mqueue", "fuse",  "bpf",
					     "tracefs", "binfmt_misc", "debugfs" };

	(void)argc;
	(void)argv;
	mkdir("/tmp/mnt", 0755);
	mkdir("/tmp/upper", 0755);
	mkdir("/tmp/work", 0755);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		try_mount(types[i], "none", NULL);
	try_mount("overlay", "none", "lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work");
	try_mount("ext4", "/dev/vda", NULL);
	report(mount("/", "/tmp/mnt", NULL, MS_BIND | MS_REC, NULL), "mount.bind");
	report(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), "mount.shared");
	try_mount_fds();
	try_remounts();
	return 0;
}

/* ESC-19: the classic chroot breakout and its relatives. */
int probe_root(int argc, char **argv)
{
	struct stat before = { 0 }, after = { 0 };
	int saved = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	stat("/", &before);
	mkdir("/tmp/jail", 0755);
	report(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	report(chroot("/tmp/jail"), "chroot");
	if (saved < 0 || fchdir(saved) < 0)
		report(-1, "fchdir");
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			break;
	chroot(".");
	stat(".", &after);
	printf("root %s\n",
	       before.st_ino == after.st_ino && before.st_dev == after.st_dev ? "same" : "moved");
	return 0;
}

struct guessed_handle {
	unsigned bytes;
	int type;
	unsigned char data[32];
};

/* ESC-17, "shocker": inode 2 of ext4, the roots of btrfs subvolumes, on every mount. */
int probe_handles(int argc, char **argv)
{
	static const char *const points[] = {
		"/", "/tmp", "/proc", "/dev", "/dev/shm", "/workspace"
	};
	struct guessed_handle real = { .bytes = sizeof(real.data) };
	int mount_id;

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		int dir = open(points[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct guessed_handle ext4 = { .bytes = 8, .type = 1, .data = { 2 } };
		struct guessed_handle btrfs = { .bytes = 20, .type = 0x4d, .data = { 0, 1 } };

		if (dir < 0)
			continue;
		btrfs.data[8] = 5;
		report(syscall(SYS_open_by_handle_at, dir, &ext4, O_RDONLY) < 0 ? -1 : 0,
		       "handle.ext4.%s", points[i]);
		report(syscall(SYS_open_by_handle_at, dir, &btrfs, O_RDONLY) < 0 ? -1 : 0,
		       "handle.btrfs.%s", points[i]);
		real.bytes = sizeof(real.data);
		if (syscall(SYS_name_to_handle_at, dir, "", &real, &mount_id, 0x1000L) == 0)
			report(syscall(SYS_open_by_handle_at, dir, &real, O_RDONLY) < 0 ? -1 : 0,
			       "handle.own.%s", points[i]);
		close(dir);
	}
	return 0;
}

int probe_mknod(int argc, char **argv)
{
	static const struct {
		const char *name;
		mode_t type;
		unsigned major, minor;
	} nodes[] = {
		{ "vda", S_IFBLK, 254, 0 },	 { "loop0", S_IFBLK, 7, 0 },
		{ "mem", S_IFCHR, 1, 1 },	 { "kvm", S_IFCHR, 10, 232 },
		{ "fuse", S_IFCHR, 10, 229 },	 { "tun", S_IFCHR, 10, 200 },
		{ "loopctl", S_IFCHR, 10, 237 }, { "console", S_IFCHR, 5, 1 },
		{ "kmsg", S_IFCHR, 1, 11 },	 { "btrfsctl", S_IFCHR, 10, 234 },
	};
	static const char *const places[] = { "",	  "/tmp",	"/dev",
					      "/dev/shm", "/workspace", "/home/sandbox" };

	(void)argc;
	(void)argv;
	for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
		for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
			char path[96];
			int fd;

			snprintf(path, sizeof(path), "%s/cayprobe-%s", places[p], nodes[i].name);
			report(mknod(path, nodes[i].type | 0666,
				     makedev(nodes[i].major, nodes[i].minor)),
			       "mknod.%s.%s", nodes[i].name, places[p]);
			fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
			if (fd >= 0 || errno != ENOENT)
				report(fd < 0 ? -1 : 0, "open.%s.%s", nodes[i].name, places[p]);
			if (fd >= 0)
				close(fd);
			unlink(path);
		}
	}
	return 0;
}

#define IOC_TIOCSTI 0x5412L
#define IOC_TIOCLINUX 0x541cL
#define IOC_FIFREEZE 0xc0045877L
#define IOC_FS_SETFLAGS 0x40086602L

int probe_ioctl(int argc, char **argv)
{
	int ptmx = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0, peer, file, flags = 0x10; /* immutable */
	char byte = 'x', name[32];

	(void)argc;
	(void)argv;
	if (ptmx < 0) {
		report(-1, "ptmx");
		return 1;
	}
	ioctl(ptmx, TIOCSPTLCK, &unlock);
	peer = ioctl(ptmx, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	report(peer < 0 ? -1 : 0, "ptmx.peer");
	if (fork() == 0) {
		setsid();
		report(ioctl(peer, TIOCSCTTY, 0), "tiocsctty");
		report(syscall(SYS_ioctl, peer, IOC_TIOCSTI, &byte), "tiocsti");
		report(syscall(SYS_ioctl, peer, IOC_TIOCSTI | 0x100000000L, &byte), "tiocsti.high");
		byte = 6;
		report(syscall(SYS_ioctl, peer, IOC_TIOCLINUX, &byte), "tioclinux");
		report(syscall(SYS_ioctl, peer, IOC_TIOCLINUX | (1L << 63), &byte),
		       "tioclinux.high");
		_exit(0);
	}
	wait(NULL);
	snprintf(name, sizeof(name), "/tmp/cayprobe-flags");
	file = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	report(ioctl(file, IOC_FS_SETFLAGS, &flags), "immutable");
	close(file);
	report(unlink(name), "immutable.unlink");
	file = open("/", O_RDONLY | O_CLOEXEC);
	report(syscall(SYS_ioctl, file, IOC_FIFREEZE, 0L), "fifreeze");
	/* BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE, QUOTA_CTL, QGROUP_LIMIT, TREE_SEARCH, INO_LOOKUP */
	report(syscall(SYS_ioctl, file, 0x50009401L, NULL), "btrfs.snap_create");
	report(syscall(SYS_ioctl, file, 0x5000940eL, NULL), "btrfs.subvol_create");
	report(syscall(SYS_ioctl, file, 0xc0109428L, NULL), "btrfs.quota_ctl");
	report(syscall(SYS_ioctl, file, 0x8030942bL, NULL), "btrfs.qgroup_limit");
	report(syscall(SYS_ioctl, file, 0xd0009411L, NULL), "btrfs.tree_search");
	report(syscall(SYS_ioctl, file, 0xd0009412L, NULL), "btrfs.ino_lookup");
	return 0;
}

/*
 * Pid 1 is ours: it must not be readable, writable, traceable, limited or signalled, and its
 * descriptors not be taken.
 */
int probe_init(int argc, char **argv)
{
	char buf[64];
	struct iovec local = { buf, sizeof(buf) }, remote = { (void *)0x400000, sizeof(buf) };
	int fd, pidfd;

	(void)argc;
	(void)argv;
	report(ptrace(PTRACE_SEIZE, 1, 0, 0), "ptrace.seize");
	report(ptrace(PTRACE_ATTACH, 1, 0, 0), "ptrace.attach");
	report(syscall(SYS_process_vm_readv, 1L, &local, 1L, &remote, 1L, 0L), "vm_readv");
	report(syscall(SYS_process_vm_writev, 1L, &local, 1L, &remote, 1L, 0L), "vm_writev");
	fd = open("/proc/1/mem", O_RDWR | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "mem.write");
	fd = open("/proc/1/mem", O_RDONLY | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "mem.read");
	fd = open("/proc/1/exe", O_WRONLY | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "exe.write");
	fd = open("/proc/1/root/etc", O_RDONLY | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "root.read");
	fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
	report(fd < 0 ? -1 : read(fd, buf, sizeof(buf)), "environ");
	fd = open("/proc/1/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "fd.list");
	fd = open("/proc/1/fd/3", O_RDWR | O_CLOEXEC);
	report(fd < 0 ? -1 : 0, "fd.open");
	pidfd = (int)syscall(NR_PIDFD_OPEN, 1L, 0L);
	for (int i = 0; i < 8; i++) {
		fd = (int)syscall(NR_PIDFD_GETFD, pidfd, i, 0L);
		report(fd < 0 ? -1 : 0, "pidfd_getfd.%d", i);
	}
	return 0;
}

int probe_caps(int argc, char **argv)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");

	(void)argc;
	(void)argv;
	while (status && fgets(line, sizeof(line), status)) {
		char name[32], value[64];

		if (sscanf(line, "%31[^:]: %63s", name, value) == 2 &&
		    (strncmp(name, "Cap", 3) == 0 || strcmp(name, "NoNewPrivs") == 0 ||
		     strncmp(name, "Seccomp", 7) == 0))
			printf("%s %s\n", name, value);
	}
	if (status)
		fclose(status);
	for (int cap = 0; cap <= 40; cap++)
		report(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0), "ambient.%d", cap);
	return 0;
}

/* NSP-08. kill(-1) does not reach the caller, but everything else in its pid namespace. */
int probe_kill(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	report(kill(1, SIGSTOP), "stop.1");
	report(kill(1, SIGTERM), "term.1");
	report(kill(1, SIGSEGV), "segv.1");
	report(kill(1, SIGKILL), "kill.1");
	report(kill(-1, SIGKILL), "kill.all");
	return 0;
}

int probe_lease(int argc, char **argv)
{
	int fd = open(argc > 0 ? argv[0] : "/tmp/lease", O_CREAT | O_RDWR | O_CLOEXEC, 0644);

	report(fcntl(fd, F_SETLEASE, F_WRLCK), "lease");
	fflush(stdout);
	close(1);
	close(2);
	sleep(60);
	return 0;
}

/* ESC-13: splice, vmsplice and sendfile of a shared lower-layer file must never alter it. */
int probe_splice(int argc, char **argv)
{
	const char *path = argc > 0 ? argv[0] : "/bin/ls";
	char junk[4096];
	struct iovec vec = { junk, sizeof(junk) };
	int fd = open(path, O_RDONLY | O_CLOEXEC), ends[2], pair[2];
	loff_t at = 0;
	off_t off = 0;

	memset(junk, 'X', sizeof(junk));
	if (fd < 0 || pipe(ends) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 1;
	/* Dirty Pipe: leave mergeable flags in every slot, then splice a page and write after it.
	 */
	for (int i = 0; i < 16; i++)
		if (write(ends[1], junk, sizeof(junk)) < 0)
			break;
	for (int i = 0; i < 16; i++)
		if (read(ends[0], junk, sizeof(junk)) < 0)
			break;
	memset(junk, 'X', sizeof(junk));
	report(splice(fd, &at, ends[1], NULL, 1, 0), "splice");
	report(write(ends[1], junk, 64), "write.after");
	report(sendfile(pair[0], fd, &off, 4096), "sendfile");
	report(syscall(SYS_vmsplice, ends[1], &vec, 1L, 0L), "vmsplice");
	report(open(path, O_WRONLY | O_CLOEXEC) < 0 ? -1 : 0, "open.write");
	report(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0,
	       "mmap.shared");
	return 0;
}
