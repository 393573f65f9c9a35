/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of /proc that show the host, and what lies over them in every sandbox: nothing, or a text
 * that never changes. The files are one layer of each slot's programs (programs.c), so every
 * sandbox has inodes of its own. What shows the limits of a sandbox is in cover.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/file.h"
#include "warden/root/programs.h"

#define TEXT_SIZE 4096

const struct mask_source mask_sources[MASK_SOURCE_COUNT] = {
	[MASK_EMPTY] = { "empty", "ext/empty", true },
	[MASK_VOID] = { "void", "ext/void", false },
	[MASK_GROUPS] = { "cgroups", "ext/cgroups", true },
	[MASK_FS] = { "settings", "ext/settings", false },
	[MASK_PTY] = { "terminals", "ext/terminals", false },
	[MASK_PID_MAX] = { "pid_max", "ext/pid_max", true },
};

/*
 * What of /proc tells about the host or about other sandboxes. Much of it is 0400 and belongs to
 * the host's root, whose id does not exist inside: only what others may read needs a cover. Almost
 * every sysctl is out of reach for the same reason. tests/security/test_proc.py has the reason why
 * the rest may be seen.
 */
static const char *const hidden[] = {
	"allocinfo",   "asound",	"bootconfig",	"buddyinfo",
	"cmdline",     "config.gz",	"diskstats",	"dynamic_debug",
	"fs",	       "interrupts",	"irq",		"kallsyms",
	"kcore",       "key-users",	"keys",		"kmsg",
	"kpagecgroup", "kpagecount",	"kpageflags",	"latency_stats",
	"lock_stat",   "lockdep",	"locks",	"mdstat",
	"modules",     "partitions",	"pagetypeinfo", "pressure",
	"sched_debug", "schedstat",	"scsi",		"slabinfo",
	"softirqs",    "sysrq-trigger", "timer_list",	"timer_stats",
	"vmallocinfo", "zoneinfo",
};

/* Those with a text. kernel.pid_max belongs to the pid namespace since Linux 6.14 (decision 016).
 */
static const struct {
	const char *name;
	enum mask_from from;
} replaced[] = {
	{ "cgroups", MASK_GROUPS }, /* counts the groups of all sandboxes */
	{ "sys/fs", MASK_FS },	    /* counts open files, inodes and names of the whole host */
	{ "sys/kernel/pty", MASK_PTY },
};

/* ---- at the start: what this kernel has ---- */

static void add(struct warden *w, const char *name, enum mask_from from)
{
	struct mask *mask = &w->masks[w->mask_count];
	struct stat st;

	if (w->mask_count == MASKS_MAX || fstatat(w->proc_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !(st.st_mode & 07))
		return;
	(void)snprintf(mask->target, sizeof(mask->target), "/proc/%s", name);
	mask->from = from == MASK_EMPTY && S_ISDIR(st.st_mode) ? MASK_VOID : from;
	w->mask_count++;
}

void mask_find(struct warden *w)
{
	if (!control_on(w, CONTROL_PROCMASK))
		return;
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		add(w, hidden[i], MASK_EMPTY);
	for (size_t i = 0; i < ARRAY_LEN(replaced); i++)
		add(w, replaced[i].name, replaced[i].from);
	w->mask_usual = w->mask_count;
	/* It belongs to the pid namespace since Linux 6.14, and CRIU makes one inside (016). */
	add(w, "sys/kernel/pid_max", MASK_PID_MAX);
}

/* ---- their files ---- */

static int put(int dir_fd, const char *name, const char *text)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	size_t n = strlen(text);

	if (fd < 0)
		return -errno;
	return write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
}

/* A setting of the host's, as it is now; one that this kernel does not have is left out. */
static int copy(const struct warden *w, const char *from, int dir_fd, const char *name)
{
	char path[64], text[TEXT_SIZE];
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", from, name);
	r = file_read(w->proc_fd, path, text, sizeof(text));
	return r < 0 ? 0 : put(dir_fd, name, text);
}

/* "name, hierarchy, number of groups, enabled": the number is that of the whole host. */
static int put_groups(const struct warden *w, int dir_fd)
{
	char text[TEXT_SIZE], out[TEXT_SIZE];
	int used = 0, r = file_read(w->proc_fd, "cgroups", text, sizeof(text));
	char *rest = text;

	if (r < 0)
		return put(dir_fd, mask_sources[MASK_GROUPS].name, "");
	for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
		char name[64];
		unsigned hierarchy, enabled;

		if (sscanf(line, "%63s %u %*u %u", name, &hierarchy, &enabled) == 3)
			r = snprintf(out + used, sizeof(out) - (size_t)used, "%s\t%u\t1\t%u\n",
				     name, hierarchy, enabled);
		else
			r = snprintf(out + used, sizeof(out) - (size_t)used, "%s\n", line);
		used = MIN(used + r, (int)sizeof(out) - 1);
	}
	out[used] = '\0';
	return put(dir_fd, mask_sources[MASK_GROUPS].name, out);
}

/* Programs read the settings; the counters beside them show what others do. */
static int put_fs(const struct warden *w, int dir_fd)
{
	static const char *const directories[] = { "epoll", "fanotify", "inotify", "mqueue" };
	static const char *const settings[] = {
		"aio-max-nr",
		"dentry-negative",
		"dir-notify-enable",
		"epoll/max_user_watches",
		"fanotify/max_queued_events",
		"fanotify/max_user_groups",
		"fanotify/max_user_marks",
		"file-max",
		"inotify/max_queued_events",
		"inotify/max_user_instances",
		"inotify/max_user_watches",
		"lease-break-time",
		"leases-enable",
		"mount-max",
		"mqueue/msg_default",
		"mqueue/msg_max",
		"mqueue/msgsize_default",
		"mqueue/msgsize_max",
		"mqueue/queues_max",
		"nr_open",
		"overflowgid",
		"overflowuid",
		"pipe-max-size",
		"pipe-user-pages-hard",
		"pipe-user-pages-soft",
		"protected_fifos",
		"protected_hardlinks",
		"protected_regular",
		"protected_symlinks",
		"suid_dumpable",
	};
	static const struct {
		const char *name, *text;
	} counters[] = {
		{ "aio-nr", "0\n" },
		{ "dentry-state", "0\t0\t45\t0\t0\t0\n" },
		{ "file-nr", "0\t0\t9223372036854775807\n" },
		{ "inode-nr", "0\t0\n" },
		{ "inode-state", "0\t0\t0\t0\t0\t0\t0\n" },
	};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(directories); i++)
		r = mkdirat(dir_fd, directories[i], 0555) < 0 ? -errno : 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(settings); i++)
		r = copy(w, "sys/fs", dir_fd, settings[i]);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(counters); i++)
		r = put(dir_fd, counters[i].name, counters[i].text);
	return r;
}

static int put_pty(const struct warden *w, int dir_fd)
{
	int r = copy(w, "sys/kernel/pty", dir_fd, "max");

	if (r >= 0)
		r = copy(w, "sys/kernel/pty", dir_fd, "reserve");
	return r < 0 ? r : put(dir_fd, "nr", "0\n");
}

static int fill_directory(const struct warden *w, int dir_fd, enum mask_from from,
			  int (*fill)(const struct warden *w, int dir_fd))
{
	const char *name = mask_sources[from].name;
	_cleanup_close_ int fd = -1;

	if (mkdirat(dir_fd, name, 0555) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fill ? fill(w, fd) : 0;
}

int mask_fill(const struct warden *w, int layer_fd)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdirat(layer_fd, MASK_DIR, 0555) < 0)
		return -errno;
	fd = openat(layer_fd, MASK_DIR, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = put(fd, mask_sources[MASK_EMPTY].name, "");
	if (r >= 0)
		r = fill_directory(w, fd, MASK_VOID, NULL);
	if (r >= 0)
		r = put_groups(w, fd);
	if (r >= 0)
		r = fill_directory(w, fd, MASK_FS, put_fs);
	if (r >= 0)
		r = fill_directory(w, fd, MASK_PTY, put_pty);
	return r < 0 ? r : copy(w, "sys/kernel", fd, mask_sources[MASK_PID_MAX].name);
}
