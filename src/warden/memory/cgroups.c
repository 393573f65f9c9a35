/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent puts every process that it starts into a separate freezer group (docs/decisions/009).
 * Only the kernel knows the membership. It is saved with the memory, by the pids inside, and set up
 * again before any process runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "sys/file.h"
#include "warden/memory/checkpoint.h"

#define MEMBERS_MAX 32768 /* maximum number of processes of a sandbox */

struct member {
	uint32_t group;
	int32_t pid; /* inside */
};

struct members {
	struct member *list;
	size_t count;
};

/* The last number of NSpid: 0 if it is gone. */
static int pid_inside(const struct warden *w, int pid)
{
	char path[32], text[4096], *at, *end;
	uint64_t inside;

	(void)snprintf(path, sizeof(path), "%d/status", pid);
	if (file_read(w->proc_fd, path, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nNSpid:");
	end = at ? strchr(at + 1, '\n') : NULL;
	if (!end)
		return 0;
	*end = '\0';
	at = strrchr(at, '\t');
	return at && str_to_u64(str_of(at + 1), INT32_MAX, &inside) >= 0 ? (int)inside : 0;
}

static int add_group(struct warden *w, int freezer_fd, const char *name, struct members *m)
{
	char path[64];
	unsigned group;
	FILE *file;
	int fd, pid;

	if (sscanf(name, "%u", &group) != 1)
		return 0;
	/*
	 * v2: the group is threaded; a thread other than the first is not a process inside and is
	 * ignored
	 */
	(void)snprintf(path, sizeof(path), "%u/%s", group,
		       w->cgroups.v2[CGROUP_FREEZER] ? "cgroup.threads" : "cgroup.procs");
	fd = openat(freezer_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file) {
		if (fd >= 0)
			(void)close(fd);
		return 0;
	}
	while (m->count < MEMBERS_MAX && fscanf(file, "%d", &pid) == 1) {
		int inside = pid_inside(w, pid);

		if (inside > 1)
			m->list[m->count++] = (struct member){ group, inside };
	}
	(void)fclose(file);
	return m->count == MEMBERS_MAX ? -E2BIG : 0;
}

static int open_freezer(const struct warden *w, unsigned slot)
{
	char name[16];
	int fd;

	(void)snprintf(name, sizeof(name), "%u", slot);
	fd = openat(w->cgroups.fd[CGROUP_FREEZER], name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int groups_write(struct warden *w, unsigned slot, int dir_fd, const char *name)
{
	_cleanup_free_ struct member *list = calloc(MEMBERS_MAX, sizeof(*list));
	struct members m = { list, 0 };
	_cleanup_close_ int out = -1;
	int fd = open_freezer(w, slot), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	ssize_t size;

	if (!list || !dir) {
		if (dir)
			(void)closedir(dir);
		else if (fd >= 0)
			(void)close(fd);
		return -ENOMEM;
	}
	for (struct dirent *e = readdir(dir); r >= 0 && e; e = readdir(dir))
		if (e->d_type == DT_DIR && e->d_name[0] >= '0' && e->d_name[0] <= '9')
			r = add_group(w, dirfd(dir), e->d_name, &m);
	(void)closedir(dir);
	if (r < 0)
		return r;
	out = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size = (ssize_t)(m.count * sizeof(*list));
	if (out < 0 || write(out, list, (size_t)size) != size)
		return errno ? -errno : -EIO;
	return 0;
}

/* Created as root inside, because the agent will use it. */
static int make_group(struct warden *w, unsigned slot, int freezer_fd, uint32_t group)
{
	uint32_t id = slot_first_id(w, slot);
	char path[32];
	int r;

	(void)snprintf(path, sizeof(path), "%u", group);
	(void)setfsgid(id);
	(void)setfsuid(id);
	r = mkdirat(freezer_fd, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
	(void)setfsuid(0);
	(void)setfsgid(0);
	if (r < 0 || !w->cgroups.v2[CGROUP_FREEZER])
		return r;
	(void)snprintf(path, sizeof(path), "%u/cgroup.type", group);
	return file_write(freezer_fd, path, "threaded"); /* like the agent's */
}

static int place_one(struct warden *w, unsigned slot, int freezer_fd, int pid,
		     const struct members *m)
{
	int inside = pid_inside(w, pid), r;
	char path[32], text[16];

	for (size_t i = 0; i < m->count; i++) {
		if (m->list[i].pid != inside)
			continue;
		r = make_group(w, slot, freezer_fd, m->list[i].group);
		(void)snprintf(path, sizeof(path), "%u/cgroup.procs", m->list[i].group);
		(void)snprintf(text, sizeof(text), "%d", pid);
		return r < 0 ? r : file_write(freezer_fd, path, text);
	}
	return 0; /* the agent itself, or processes that it started without a group */
}

int groups_place(struct warden *w, unsigned slot, int dir_fd, const char *name)
{
	_cleanup_free_ struct member *list = calloc(MEMBERS_MAX, sizeof(*list));
	_cleanup_free_ int *pids = calloc(MEMBERS_MAX, sizeof(*pids));
	_cleanup_close_ int in = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_close_ int freezer_fd = open_freezer(w, slot);
	struct members m = { list, 0 };
	size_t count = 0;
	FILE *file;
	ssize_t n;
	int fd, r = 0;

	if (!list || !pids || in < 0 || freezer_fd < 0)
		return -ENOENT;
	n = read(in, list, MEMBERS_MAX * sizeof(*list));
	m.count = n < 0 ? 0 : (size_t)n / sizeof(*list);
	/* Listed first, because moving one changes the list. */
	fd = openat(freezer_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file) {
		if (fd >= 0)
			(void)close(fd);
		return -errno;
	}
	while (count < MEMBERS_MAX && fscanf(file, "%d", &pids[count]) == 1)
		count++;
	(void)fclose(file);
	for (size_t i = 0; r >= 0 && m.count && i < count; i++)
		r = place_one(w, slot, freezer_fd, pids[i], &m);
	return r;
}
