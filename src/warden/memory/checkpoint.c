/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/memory/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/time.h"
#include "sys/mount/btrfs.h"
#include "sys/file.h"
#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "warden/root/programs.h"
#include "wire/agent.h"

#define LET_GO_MS 5000
#define DUMP_LIMIT_MS 300000
#define COMPARE_BYTES 65536

/* ---- before the freeze ---- */

/* No reply is read, only the end: the agent is not trusted. */
static int wait_for_end(int fd)
{
	int64_t end_ms = time_boot_ms() + LET_GO_MS;
	char space[4096];

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t left_ms = end_ms - time_boot_ms();
		ssize_t n;

		if (left_ms <= 0 || poll(&p, 1, (int)left_ms) <= 0)
			return -ETIMEDOUT;
		n = recv(fd, space, sizeof(space), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return 0;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
	}
}

static int ask_to_let_go(struct warden *w, unsigned slot)
{
	_cleanup_close_ int net_fd = attach_open_net(w, slot), fd = -1;
	char frame[FRAME_HEADER_SIZE];
	int r;

	if (net_fd < 0)
		return net_fd;
	r = netns_dial(w->home.net_fd, net_fd, &fd);
	if (r < 0)
		return r;
	agent_pack_empty(frame, AGENT_LET_GO);
	if (send(fd, frame, sizeof(frame), MSG_NOSIGNAL) != (ssize_t)sizeof(frame))
		return -EPIPE;
	return wait_for_end(fd);
}

/* System V objects belong to no process, and the new namespace has none. */
static int check_ipc(struct warden *w, unsigned slot)
{
	static const char *const lists[] = { "sysvipc/shm", "sysvipc/sem", "sysvipc/msg" };
	_cleanup_close_ int fd = -1;
	char text[1024], *line;

	(void)snprintf(text, sizeof(text), "%d/ns/ipc", w->rows[slot].pid);
	fd = openat(w->proc_fd, text, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWIPC) < 0) /* permanently: this is a job's process */
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		int r = file_read(w->proc_fd, lists[i], text, sizeof(text));

		line = r > 0 ? strchr(text, '\n') : NULL;
		if (line && line[1])
			return -EBUSY;
	}
	return 0;
}

static bool same_content(int a_fd, int b_fd)
{
	static char a[COMPARE_BYTES], b[COMPARE_BYTES]; /* in a job's process */
	ssize_t n;

	do {
		n = read(a_fd, a, sizeof(a));
		if (n < 0 || read(b_fd, b, sizeof(b)) != n || memcmp(a, b, (size_t)n) != 0)
			return false;
	} while (n);
	return true;
}

/*
 * Mapped files must be the same when the memory is restored, so only files that we still have are
 * accepted.
 */
static int check_agent(struct warden *w, unsigned slot)
{
	_cleanup_close_ int our_fd = openat(w->shared_fd, "bin/agent", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int its_fd = -1;
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/exe", w->rows[slot].pid);
	its_fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (our_fd < 0 || its_fd < 0)
		return -errno;
	return same_content(our_fd, its_fd) ? 0 : -ESTALE;
}

bool checkpoint_same_programs(struct warden *w, int images_fd)
{
	static const char *const names[] = { "agent", "tools" };
	char ours[32], its[32];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_close_ int our_fd = -1, its_fd = -1;

		(void)snprintf(ours, sizeof(ours), "bin/%s", names[i]);
		(void)snprintf(its, sizeof(its), CHECKPOINT_PROGRAMS "/%s", names[i]);
		our_fd = openat(w->shared_fd, ours, O_RDONLY | O_CLOEXEC);
		its_fd = openat(images_fd, its, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (our_fd < 0 && its_fd < 0)
			continue; /* without tools, then and now */
		if (our_fd < 0 || its_fd < 0 || !same_content(our_fd, its_fd))
			return false;
	}
	return true;
}

static int fail(char why[CRIU_WHY_SIZE], const char *words, int r)
{
	if (r < 0)
		(void)snprintf(why, CRIU_WHY_SIZE, "%s", words);
	return r;
}

int checkpoint_let_go(struct warden *w, unsigned slot, char why[CRIU_WHY_SIZE])
{
	struct slot_row *row = &w->rows[slot];
	int r = fail(why, "its agent is of another version", check_agent(w, slot));

	if (r >= 0)
		r = fail(why, "System V shared memory, semaphores or queues are in use",
			 check_ipc(w, slot));
	if (r < 0)
		return r;
	if (row->frozen) {
		row->held = 1; /* first: a warden that finds it freezes it again */
		slots_note_frozen(w, slot);
		r = cgroup_freeze(&w->cgroups, slot, false);
	}
	if (r >= 0)
		r = ask_to_let_go(w, slot);
	return fail(why, "its agent did not let go", r);
}

/* ---- frozen ---- */

static void name_mounts(struct criu_run *run)
{
	static const struct {
		const char *target;
		enum criu_outer outer;
	} known[] = {
		{ "/dev", CRIU_DEV },
		{ "/run/cay", CRIU_AGENT },
		{ IDENTITY_MARK, CRIU_FORKED },
		{ "/proc/sys/kernel/random/boot_id", CRIU_BOOT },
		{ "/etc/machine-id", CRIU_MACHINE },
	};
	const struct warden *w = run->w;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		criu_arg(run, "--external");
		criu_argf(run, "mnt[%s]:%s", known[i].target, criu_outer_names[known[i].outer]);
	}
	cover_dump(run);
	for (unsigned i = 0; i < w->mask_count; i++) {
		criu_arg(run, "--external");
		criu_argf(run, "mnt[%s]:%s", w->masks[i].target,
			  mask_sources[w->masks[i].from].name);
	}
}

static int copy_program(struct warden *w, int to_dir_fd, const char *name)
{
	char path[32];
	_cleanup_close_ int from = -1, to = -1;
	struct stat st;
	off_t at = 0;

	(void)snprintf(path, sizeof(path), "bin/%s", name);
	from = openat(w->shared_fd, path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return errno == ENOENT ? 0 : -errno;
	to = openat(to_dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (to < 0 || fstat(from, &st) < 0 || fchmod(to, st.st_mode & 0777) < 0)
		return -errno;
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return errno ? -errno : -EIO;
	return 0;
}

static int copy_programs(struct warden *w, int images_fd)
{
	static const char *const names[] = { "agent", "tools", "forked" };
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (mkdirat(images_fd, CHECKPOINT_PROGRAMS, 0755) < 0 ||
	    fchmodat(images_fd, CHECKPOINT_PROGRAMS, 0755, 0) < 0)
		return -errno;
	fd = openat(images_fd, CHECKPOINT_PROGRAMS, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(names); i++)
		r = copy_program(w, fd, names[i]);
	return r;
}

static int on_written(struct criu_run *run, int pid)
{
	struct checkpoint *c = run->arg;
	_cleanup_close_ int fd = -1;
	int r;

	(void)pid;
	fault_point(c->w, "checkpoint.written");
	fd = openat(c->dir_fd, CHECKPOINT_UNFINISHED, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : groups_write(c->w, c->slot, fd, CHECKPOINT_GROUPS);
	if (r >= 0)
		r = copy_programs(c->w, fd);
	if (r >= 0)
		r = cover_save(c->w, c->slot, fd);
	if (r >= 0)
		r = c->copy(c->arg);
	c->copied = r >= 0;
	fault_point(c->w, "checkpoint.copied");
	return r;
}

static int dump(struct checkpoint *c, struct criu_run *run)
{
	struct warden *w = c->w;
	struct cgroup_view view;
	int fd, r;

	run->pid = w->rows[c->slot].pid;
	run->outlives_us = true;
	run->limit_ms = DUMP_LIMIT_MS;
	run->on_stage = on_written;
	run->arg = c;
	cgroup_view_make(&w->cgroups, c->slot, &view);
	r = criu_mount(run, "freezer", false, TAKE_FD(view.groups_fd));
	cgroup_view_close(&view);
	if (r >= 0)
		r = mount_copy(c->dir_fd, CHECKPOINT_UNFINISHED,
			       MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, &fd);
	if (r >= 0)
		r = criu_mount(run, "images", false, fd);
	if (r < 0)
		return r;
	for (const char *const *arg =
		     (const char *const[]){ "criu", "dump", "--images-dir", "/images", "--work-dir",
					    "/work", "--freeze-cgroup", "/freezer",
					    "--manage-cgroups=ignore", "--leave-running",
					    "--tcp-close", "--file-locks", "--link-remap",
					    "--ghost-limit", "512M", "--action-script",
					    "/cay/" CRIU_HOOK_NAME, "--tree", NULL };
	     *arg; arg++)
		criu_arg(run, *arg);
	criu_argf(run, "%d", run->pid);
	name_mounts(run);
	return criu_run(run);
}

int checkpoint_take(struct checkpoint *c)
{
	struct criu_run run;
	_cleanup_close_ int fd = -1;
	int r = btrfs_subvolume_make(c->dir_fd, CHECKPOINT_UNFINISHED);

	if (r < 0)
		return fail(c->why, "no place for it", r);
	criu_init(&run, c->w, c->slot);
	r = dump(c, &run);
	memcpy(c->why, run.why, sizeof(c->why));
	criu_done(&run);
	fault_point(c->w, "checkpoint.ended");
	if (r < 0)
		return fail(c->why, *c->why ? run.why : "it could not be written", r);
	if (c->temporary)
		return 0;
	fd = openat(c->dir_fd, CHECKPOINT_UNFINISHED, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : btrfs_snapshot(fd, c->dir_fd, CHECKPOINT_MEMORY, true);
	if (r >= 0)
		r = btrfs_subvolume_remove(c->dir_fd, CHECKPOINT_UNFINISHED);
	fault_point(c->w, "checkpoint.sealed");
	return fail(c->why, "it could not be kept", r);
}
