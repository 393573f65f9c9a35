/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that cover those of /proc which would show the host: a small tmpfs per slot, mounted as
 * /sys when a root is prepared. Its directory .cay, closed to all processes inside, contains the
 * files, and the child binds them one by one (docs/decisions/027). The live ones belong to root
 * inside, because the agent writes its cgroups' values to them; they are created again for the
 * slot's next sandbox. Everything else belongs to root of the host, so root inside cannot write to
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/time.h"
#include "sys/mount/buildns.h"
#include "sys/file.h"
#include "sys/mount/mount.h"
#include "sys/procfile.h"
#include "sys/syscalls.h"
#include "warden/memory/criu.h"

#define COVER_BYTES                                                                   \
	"1m" /* 256 processors need 400 KiB; what its sandbox writes is charged to it \
	      */
#define COVER_INODES "64"
#define COVER_COPY_MAX (1U << 20)

const struct cover covers[COVER_COUNT] = {
	{ COVER_DIR "/meminfo", "/proc/meminfo", "ext/meminfo", NULL },
	{ COVER_DIR "/stat", "/proc/stat", "ext/stat", NULL },
	{ COVER_DIR "/loadavg", "/proc/loadavg", "ext/loadavg", NULL },
	{ COVER_DIR "/cpuinfo", "/proc/cpuinfo", "ext/cpuinfo", NULL },
	{ COVER_DIR "/swaps", "/proc/swaps", "ext/swaps",
	  "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" },
	/* Counters that vmstat and psutil read; the kernel has them only for the whole host. */
	{ COVER_DIR "/vmstat", "/proc/vmstat", "ext/vmstat",
	  "nr_free_pages 0\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n"
	  "oom_kill 0\n" },
};

static int write_file(int dir_fd, const char *name, const char *text, size_t n, uint32_t id)
{
	_cleanup_close_ int fd = -1;

	(void)unlinkat(dir_fd, name, 0);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	if (fd < 0)
		return -errno;
	if (write(fd, text, n) != (ssize_t)n)
		return -EIO;
	return fchown(fd, id, id) < 0 ? -errno : 0;
}

void cover_open(struct warden *w)
{
	int n = file_read(w->proc_fd, "cpuinfo", w->cpuinfo, sizeof(w->cpuinfo));

	w->cpuinfo[n < 0 ? 0 : n] = '\0';
}

static int make_directories(int fd)
{
	static const char *const names[] = { COVER_DIR, "fs", "fs/cgroup" };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(names); i++)
		r = mkdirat(fd, names[i], i ? 0555 : 0700) < 0 ? -errno : 0;
	for (size_t i = 0; r >= 0 && i < CGROUP_SHOWN_COUNT; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "fs/cgroup/%s", cgroup_shown_names[i]);
		r = *cgroup_shown_names[i] && mkdirat(fd, path, 0555) < 0 ? -errno : 0;
	}
	return r;
}

int cover_make(struct warden *w, unsigned slot)
{
	static const struct mount_option options[] = { { "size", COVER_BYTES, -1 },
						       { "nr_inodes", COVER_INODES, -1 },
						       { "mode", "0555", -1 } };
	_cleanup_close_ int fd = -1;
	mode_t mask = umask(0);
	int r;

	if (w->covers_fd[slot] >= 0) {
		(void)umask(mask);
		return 0;
	}
	r = mount_make("tmpfs", options, ARRAY_LEN(options),
		       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &fd);
	if (r >= 0)
		r = make_directories(fd);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(covers); i++)
		if (covers[i].text)
			r = write_file(fd, covers[i].name, covers[i].text, strlen(covers[i].text),
				       0);
	(void)umask(mask);
	if (r >= 0)
		r = mount_keep(fd);
	if (r >= 0)
		w->covers_fd[slot] = TAKE_FD(fd);
	return r;
}

unsigned cover_cpus(const struct warden_limits *limits)
{
	return procfile_cpus(limits->cpu_milli, 1000);
}

static uint64_t host_memory(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 ? UINT64_MAX : (uint64_t)info.totalram * info.mem_unit;
}

/* For a sandbox that has used nothing yet; the agent writes the next version. */
int cover_renew(struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	static char text[PROCFILE_CPUS_MAX * PROCFILE_CPUINFO_BLOCK]; /* touched as far as used */
	bool mapped = control_on(w, CONTROL_IDMAP) && control_on(w, CONTROL_USERNS);
	uint32_t id = mapped ? slot_first_id(w, slot) : 0;
	unsigned cpus = cover_cpus(limits);
	const struct proc_memory memory = {
		.total = MIN((uint64_t)limits->memory_mb << 20, host_memory()),
	};
	const struct proc_cpu cpu = {
		.count = cpus,
		.boot_s = time_real_ms() / 1000,
		.running = 1,
	};
	const struct proc_load load = { .running = 1, .total = 1, .last_pid = 1 };
	int fd = w->covers_fd[slot], r;

	if (fd < 0)
		return 0;
	r = write_file(fd, COVER_DIR "/meminfo", text,
		       procfile_meminfo(text, sizeof(text), &memory), id);
	if (r >= 0)
		r = write_file(fd, COVER_DIR "/stat", text, procfile_stat(text, sizeof(text), &cpu),
			       id);
	if (r >= 0)
		r = write_file(fd, COVER_DIR "/loadavg", text,
			       procfile_loadavg(text, sizeof(text), &load), id);
	if (r >= 0)
		r = write_file(fd, COVER_DIR "/cpuinfo", text,
			       procfile_cpuinfo(text, sizeof(text), str_of(w->cpuinfo), cpus), id);
	if (r >= 0) /* df finds it by this path; nothing is below it */
		r = write_file(fd, "fs/disk", text, procfile_disk(text, sizeof(text), 0, 0), id);
	return r;
}

/* ---- in a root ---- */

static int mount_groups(struct warden *w, unsigned slot, const struct root *root)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < CGROUP_SHOWN_COUNT; i++) {
		_cleanup_close_ int fd = -1;
		char path[32];

		(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s", cgroup_shown_names[i]);
		if (cgroup_show(&w->cgroups, slot, (enum cgroup_shown)i, &fd) >= 0)
			r = mount_attach(fd, root->fd, path);
	}
	return r;
}

int cover_furnish(struct warden *w, unsigned slot, struct root *root)
{
	_cleanup_close_ int fd = -1;
	int r = mount_copy(w->covers_fd[slot], "", 0, -1, &fd);

	root->has_covers = false;
	if (r < 0)
		return r;
	r = mount_attach(fd, root->fd, "sys");
	/*
	 * The owner of the files may have put something else there: the kernel's files are then
	 * visible.
	 */
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	root->has_covers = r >= 0;
	return r < 0 ? r : mount_groups(w, slot, root);
}

/* ---- with memory: an open file must have the same length when it is opened again ---- */

static int copy_file(int from_dir, const char *from, int to_dir, const char *to, uint32_t id)
{
	static char text[COVER_COPY_MAX]; /* in a job's process */
	_cleanup_close_ int fd =
		sys_openat2(from_dir, from, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
			    RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	n = pread(fd, text, sizeof(text), 0);
	return n < 0 ? -errno : write_file(to_dir, to, text, (size_t)n, id);
}

int cover_save(struct warden *w, unsigned slot, int dir_fd)
{
	_cleanup_close_ int root_fd = -1;
	char path[32];
	int r = 0;

	(void)snprintf(path, sizeof(path), "%d/root", w->rows[slot].pid);
	root_fd = openat(w->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(covers); i++) {
		(void)snprintf(path, sizeof(path), "cay-%s", covers[i].outer + strlen("ext/"));
		if (!covers[i].text)
			r = copy_file(root_fd, covers[i].target, dir_fd, path, 0);
	}
	return r;
}

static void load(struct warden *w, unsigned slot, int dir_fd)
{
	bool mapped = control_on(w, CONTROL_IDMAP) && control_on(w, CONTROL_USERNS);
	char path[32];

	for (size_t i = 0; i < ARRAY_LEN(covers); i++) {
		(void)snprintf(path, sizeof(path), "cay-%s", covers[i].outer + strlen("ext/"));
		if (!covers[i].text) /* missing in memory of an earlier version */
			(void)!copy_file(dir_fd, path, w->covers_fd[slot], covers[i].name,
					 mapped ? slot_first_id(w, slot) : 0);
	}
}

#define SYS_OUTER "ext/sys"

static const struct {
	const char *target, *outer;
} groups[CGROUP_SHOWN_COUNT] = {
	[CGROUP_SHOWN_V2] = { "/sys/fs/cgroup", "ext/group" },
	[CGROUP_SHOWN_MEMORY] = { "/sys/fs/cgroup/memory", "ext/group-memory" },
	[CGROUP_SHOWN_CPU] = { "/sys/fs/cgroup/cpu", "ext/group-cpu" },
	[CGROUP_SHOWN_CPUACCT] = { "/sys/fs/cgroup/cpuacct", "ext/group-cpuacct" },
	[CGROUP_SHOWN_PIDS] = { "/sys/fs/cgroup/pids", "ext/group-pids" },
	[CGROUP_SHOWN_CPUSET] = { "/sys/fs/cgroup/cpuset", "ext/group-cpuset" },
};

static void name_outer(struct criu_run *run, const char *target, const char *outer)
{
	criu_arg(run, "--external");
	criu_argf(run, "mnt[%s]:%s", target, outer);
}

void cover_dump(struct criu_run *run)
{
	name_outer(run, "/sys", SYS_OUTER);
	for (size_t i = 0; i < ARRAY_LEN(covers); i++)
		name_outer(run, covers[i].target, covers[i].outer);
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		name_outer(run, groups[i].target, groups[i].outer);
}

static int give(struct criu_run *run, const char *outer, bool is_file, int fd)
{
	int r = criu_mount(run, outer, is_file, fd);

	criu_arg(run, "--external");
	criu_argf(run, "mnt[%s]:/%s", outer, outer);
	return r;
}

int cover_wake(struct criu_run *run, int images_fd)
{
	struct warden *w = run->w;
	int fd, r;

	load(w, run->slot, images_fd);
	r = mount_copy(w->covers_fd[run->slot], "", 0, -1, &fd);
	if (r >= 0)
		r = give(run, SYS_OUTER, false, fd);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(covers); i++) {
		r = mount_copy(w->covers_fd[run->slot], covers[i].name, 0, -1, &fd);
		if (r >= 0)
			r = give(run, covers[i].outer, true, fd);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(groups); i++)
		if (cgroup_show(&w->cgroups, run->slot, (enum cgroup_shown)i, &fd) >= 0)
			r = give(run, groups[i].outer, false, fd);
	return r;
}
