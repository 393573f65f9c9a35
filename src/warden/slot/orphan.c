/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that run and have no row, because warden.slots was lost or exchanged. Their slot
 * numbers and host ids look free and are not, so the groups are compared with the table at every
 * start. What was in the row cannot all be found again, so an orphan is ended. Its files are kept
 * as after a restart of the host (salvage.c) if it can be found whose they are: the id is the host
 * name inside, which nothing inside can change, and the volume is the upper layer of its root.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sys/file.h"
#include "warden/warden.h"

#define END_TRIES 500
#define END_WAIT_US 10000

/* What is known of one. */
struct orphan {
	struct warden *w;
	int pid; /* of its first process; 0: not found */
};

static void find_first(void *arg, int pid)
{
	struct orphan *o = arg;
	char path[32], text[4096], *at;
	int outer, inner;

	(void)snprintf(path, sizeof(path), "%d/status", pid);
	if (o->pid || file_read(o->w->proc_fd, path, text, sizeof(text)) < 0)
		return;
	at = strstr(text, "\nNSpid:");
	if (at && sscanf(at, "\nNSpid: %d %d", &outer, &inner) == 2 && inner == 1)
		o->pid = pid;
}

/* A name belongs to the namespace of the process that asks for it, so a child asks from inside. */
static _noreturn_ void tell_host_name(int uts_fd, int pipe_fd)
{
	struct utsname name;

	if (setns(uts_fd, CLONE_NEWUTS) < 0 || uname(&name) < 0)
		_exit(1);
	_exit(write(pipe_fd, name.nodename, strlen(name.nodename)) > 0 ? 0 : 1);
}

static int read_id(const struct orphan *o, char dst[WARDEN_ID_SIZE])
{
	_cleanup_close_ int uts_fd = -1, read_fd = -1, write_fd = -1;
	char path[32];
	int fds[2], status, pid;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%d/ns/uts", o->pid);
	uts_fd = openat(o->w->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (uts_fd < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		tell_host_name(uts_fd, write_fd);
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		return -ESRCH;
	n = read(read_fd, dst, WARDEN_ID_SIZE - 1);
	if (n <= 0)
		return -EIO;
	memset(dst + n, 0, WARDEN_ID_SIZE - (size_t)n);
	return bounds_id(str_of(dst)) ? 0 : -EINVAL;
}

static int read_volume(const struct orphan *o, uint64_t *ret)
{
	char path[32], text[4096];
	const char *at;
	int n;

	(void)snprintf(path, sizeof(path), "%d/mountinfo", o->pid);
	n = file_read(o->w->proc_fd, path, text, sizeof(text)); /* the root is the first line */
	if (n < 0)
		return n;
	at = strstr(text, "upperdir=/v");
	return at && sscanf(at, "upperdir=/v%16" SCNx64, ret) == 1 ? 0 : -ENOENT;
}

/* What salvage() needs of a row. */
static int describe(const struct orphan *o, struct slot_row *row)
{
	int r = o->pid ? read_id(o, row->id) : -ESRCH;

	if (r >= 0)
		r = read_volume(o, &row->volume);
	if (r >= 0)
		r = storage_volume_template(o->w, row->volume, row->template_hash);
	return r;
}

static bool end(struct warden *w, unsigned slot)
{
	for (int i = 0; i < END_TRIES; i++) {
		cgroup_thaw_below(&w->cgroups, slot);
		if (cgroup_kill(&w->cgroups, slot) >= 0 && cgroup_is_empty(&w->cgroups, slot))
			return true;
		(void)usleep(END_WAIT_US);
	}
	return false;
}

static void end_orphan(struct warden *w, unsigned slot)
{
	struct orphan o = { .w = w };
	struct slot_row found = { .state = SLOT_LIVE }, *row = &w->rows[slot];
	bool ended;
	int r;

	cgroup_each_member(&w->cgroups, slot, find_first, &o);
	r = describe(&o, &found);
	ended = end(w, slot);
	if (ended && r >= 0)
		r = salvage_one(w, &found);
	log_warn("a sandbox ran in slot %u without a row in warden.slots: %s%s, its files are %s",
		 slot, found.id[0] ? found.id : "of unknown id",
		 ended ? " was ended" : " does not end yet", ended && r >= 0 ? "kept" : "lost");
	/* Nothing gets this slot, and so its host ids, before the group is empty. */
	*row = (struct slot_row){ .state = SLOT_DYING, .has_cgroups = 1 };
	slots_used(w, slot);
}

void orphans_end(struct warden *w)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (w->rows[i].state == SLOT_FREE && cgroup_exists(&w->cgroups, i) &&
		    !cgroup_is_empty(&w->cgroups, i))
			end_orphan(w, i);
}
