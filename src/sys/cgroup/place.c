/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of the sandboxes in the v2 hierarchy. systemd owns every group that it did not
 * delegate, so cay stays inside a delegated one: that of a unit or of a scope (docs/decisions/024).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/cgroup/slot.h"

#define VACATED_NAME "cay-host"
/* processes may fork while they are moved; after this many rounds the caller gets EBUSY */
#define VACATE_ROUNDS 16

int cgroup_open_unified(int root_fd)
{
	int fd;

	if (faccessat(root_fd, "cgroup.controllers", F_OK, 0) == 0)
		return cgroup_open_dir(root_fd, ".");
	fd = cgroup_open_dir(root_fd, "unified");
	if (fd >= 0 && faccessat(fd, "cgroup.controllers", F_OK, 0) < 0) {
		(void)close(fd);
		return -ENOENT;
	}
	return fd;
}

bool cgroup_v2_has_controllers(int root_fd)
{
	_cleanup_close_ int fd = cgroup_open_unified(root_fd);
	char have[256];

	return fd >= 0 && file_read(fd, "cgroup.controllers", have, sizeof(have)) > 1;
}

int cgroup_path_parse(const char *text, char dst[CGROUP_PATH_SIZE])
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		size_t n;

		line += *line == '\n';
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line += 3;
		n = strcspn(line, "\n");
		if (n >= CGROUP_PATH_SIZE)
			return -ENAMETOOLONG;
		memcpy(dst, line, n);
		dst[n] = '\0';
		return 0;
	}
	return -ENOENT;
}

static bool is_dot(const char *name, size_t n)
{
	return n == 0 || (n == 1 && name[0] == '.');
}

static bool is_dots(const char *name, size_t n)
{
	return n == 2 && name[0] == '.' && name[1] == '.';
}

/* Appends path to dst component by component; ".." removes one. */
static int append(char dst[CGROUP_PATH_SIZE], const char *path)
{
	size_t used = strlen(dst);

	while (*path) {
		size_t n = strcspn(path, "/");

		if (is_dots(path, n)) {
			if (!used)
				return -EINVAL;
			while (dst[--used] != '/')
				;
			dst[used] = '\0';
		} else if (!is_dot(path, n)) {
			if (used + n + 1 >= CGROUP_PATH_SIZE)
				return -ENAMETOOLONG;
			dst[used] = '/';
			memcpy(dst + used + 1, path, n);
			used += n + 1;
			dst[used] = '\0';
		}
		path += n + (path[n] == '/');
	}
	return 0;
}

int cgroup_path_resolve(const char *own, const char *wanted, char dst[CGROUP_PATH_SIZE])
{
	char path[CGROUP_PATH_SIZE] = "";
	bool is_relative = strcmp(wanted, ".") == 0 || strncmp(wanted, "../", 3) == 0;
	int r;

	if (wanted[0] != '/' && !is_relative)
		return -EINVAL;
	r = is_relative ? append(path, own) : 0;
	if (r >= 0)
		r = append(path, wanted);
	if (r < 0)
		return r;
	memcpy(dst, *path ? path : "/", *path ? strlen(path) + 1 : 2);
	return 0;
}

int cgroup_place(int proc_fd, const char *wanted, char dst[CGROUP_PATH_SIZE])
{
	char text[4096], own[CGROUP_PATH_SIZE];
	int r;

	if (!wanted)
		return cgroup_path_resolve("/", "/", dst);
	r = file_read(proc_fd, "self/cgroup", text, sizeof(text));
	if (r >= 0)
		r = cgroup_path_parse(text, own);
	return r < 0 ? r : cgroup_path_resolve(own, wanted, dst);
}

bool cgroup_place_busy(int root_fd, const char *place, unsigned instance)
{
	_cleanup_close_ int fd = cgroup_open_unified(root_fd);
	char path[CGROUP_PATH_SIZE + 64];
	uint64_t populated = 0;

	(void)snprintf(path, sizeof(path), ".%s/cay-%u/cgroup.events", place, instance);
	return fd >= 0 && file_read_field(fd, path, "populated", &populated) >= 0 && populated;
}

/* Moves the processes of the group itself, one at a time; kernel threads stay. */
static int vacate_once(int group_fd)
{
	_cleanup_close_ int fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *members = fd < 0 ? NULL : fdopen(fd, "r");
	char text[16];
	int pid, moved = 0;

	if (!members)
		return -errno;
	fd = -1;
	while (fscanf(members, "%d", &pid) == 1) {
		if (pid <= 0)
			continue; /* in another pid namespace */
		(void)snprintf(text, sizeof(text), "%d", pid);
		moved += file_write(group_fd, VACATED_NAME "/cgroup.procs", text) >= 0;
	}
	(void)fclose(members);
	return moved;
}

int cgroup_vacate(int group_fd)
{
	char first[16];
	int moved = 1;

	if (faccessat(group_fd, "cgroup.type", F_OK, 0) < 0 ||
	    file_read(group_fd, "cgroup.procs", first, sizeof(first)) <= 0)
		/* the root of the hierarchy, which may contain processes; or the group has none */
		return 0;
	if (mkdirat(group_fd, VACATED_NAME, 0755) < 0 && errno != EEXIST)
		return -errno;
	for (int round = 0; round < VACATE_ROUNDS && moved > 0; round++)
		moved = vacate_once(group_fd);
	return moved < 0 ? moved : 0;
}

int cgroup_enable(int group_fd, const char *controller)
{
	char text[32];
	int r;

	/*
	 * This must be first: cpu could be enabled beside processes, but that makes the group
	 * threaded, which prevents other controllers.
	 */
	r = cgroup_vacate(group_fd);
	(void)snprintf(text, sizeof(text), "+%s", controller);
	return r < 0 ? r : file_write(group_fd, "cgroup.subtree_control", text);
}
