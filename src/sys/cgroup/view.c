/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox's agent sees of its cgroups. A descriptor of the directory itself would lead,
 * through "..", to the groups of other sandboxes. The root of a separate mount does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "sys/cgroup/slot.h"
#include "sys/file.h"
#include "sys/mount/mount.h"

#define VIEW_ATTRIBUTES (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static int open_view(const struct cgroup_tree *tree, enum cgroup_controller which,
		     const char *v1_dir, unsigned instance, uint64_t attributes)
{
	char v1_path[64];
	int fd;

	if (tree->fd[which] < 0)
		return -1;
	(void)snprintf(v1_path, sizeof(v1_path), CGROUP_ROOT "/%scay-%u", v1_dir, instance);
	return mount_copy(AT_FDCWD, tree->v2[which] ? tree->v2_path : v1_path,
			  VIEW_ATTRIBUTES | attributes, -1, &fd) < 0
		       ? -1
		       : fd;
}

const char *const cgroup_shown_names[CGROUP_SHOWN_COUNT] = {
	[CGROUP_SHOWN_V2] = "",	      [CGROUP_SHOWN_MEMORY] = "memory",
	[CGROUP_SHOWN_CPU] = "cpu",   [CGROUP_SHOWN_CPUACCT] = "cpuacct",
	[CGROUP_SHOWN_PIDS] = "pids", [CGROUP_SHOWN_CPUSET] = "cpuset",
};

static int copy_setting(int parent_fd, int dir_fd, const char *name)
{
	char text[1024];
	int r = file_read(parent_fd, name, text, sizeof(text));

	return r < 0 ? r : file_write(dir_fd, name, text);
}

/* A group with all processors and memory nodes, which those of the slots below inherit. */
static void open_cpuset(struct cgroup_tree *tree, unsigned instance)
{
	_cleanup_close_ int parent_fd =
		open(CGROUP_ROOT "/cpuset", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int dir_fd = -1;
	char name[32];
	int fd;

	(void)snprintf(name, sizeof(name), "cay-%u", instance);
	if (parent_fd < 0 || faccessat(parent_fd, "tasks", F_OK, 0) < 0 ||
	    (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST))
		return;
	dir_fd = openat(parent_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0 || copy_setting(parent_fd, dir_fd, "cpuset.cpus") < 0 ||
	    copy_setting(parent_fd, dir_fd, "cpuset.mems") < 0 ||
	    file_write(dir_fd, "cgroup.clone_children", "1") < 0 ||
	    mount_copy(parent_fd, name, VIEW_ATTRIBUTES | MOUNT_ATTR_RDONLY, -1, &fd) < 0)
		return;
	tree->shown_fd[CGROUP_SHOWN_CPUSET] = fd;
	tree->cpuset_fd = TAKE_FD(dir_fd);
}

int cgroup_enter_cpuset(const struct cgroup_door *door)
{
	return door->cpuset_fd >= 0 && write(door->cpuset_fd, "0", 1) < 0 ? -errno : 0;
}

static void open_shown(struct cgroup_tree *tree, unsigned instance)
{
	static const enum cgroup_controller of[CGROUP_SHOWN_COUNT] = {
		[CGROUP_SHOWN_V2] = CGROUP_MEMORY, [CGROUP_SHOWN_MEMORY] = CGROUP_MEMORY,
		[CGROUP_SHOWN_CPU] = CGROUP_CPU,   [CGROUP_SHOWN_CPUACCT] = CGROUP_CPUACCT,
		[CGROUP_SHOWN_PIDS] = CGROUP_PIDS,
	};
	bool v2 = tree->v2[CGROUP_MEMORY];
	char dir[16];

	for (int i = 0; i < CGROUP_SHOWN_CPUSET; i++) {
		(void)snprintf(dir, sizeof(dir), "%s/", cgroup_shown_names[i]);
		if (v2 == (i == CGROUP_SHOWN_V2) && (v2 || !tree->v2[of[i]]))
			tree->shown_fd[i] =
				open_view(tree, of[i], dir, instance, MOUNT_ATTR_RDONLY);
	}
	if (!v2)
		open_cpuset(tree, instance);
}

void cgroup_view_open(struct cgroup_tree *tree, unsigned instance)
{
	open_shown(tree, instance);
	tree->groups_view_fd = open_view(tree, CGROUP_FREEZER, "freezer/", instance, 0);
	tree->memory_view_fd =
		open_view(tree, CGROUP_MEMORY, "memory/", instance, MOUNT_ATTR_RDONLY);
}

static int view_slot(int view_fd, unsigned slot)
{
	char path[64];
	int fd;

	if (view_fd < 0 || slot_path(path, slot, "") < 0 ||
	    mount_copy(view_fd, path, 0, -1, &fd) < 0)
		return -1;
	return fd;
}

void cgroup_view_make(const struct cgroup_tree *tree, unsigned slot, struct cgroup_view *ret)
{
	*ret = (struct cgroup_view){
		.groups_fd = view_slot(tree->groups_view_fd, slot),
		.memory_fd = view_slot(tree->memory_view_fd, slot),
	};
}

int cgroup_show(const struct cgroup_tree *tree, unsigned slot, enum cgroup_shown which, int *ret_fd)
{
	char path[64];
	int r = tree->shown_fd[which] < 0 ? -ENOENT : slot_path(path, slot, "");

	return r < 0 ? r : mount_copy(tree->shown_fd[which], path, 0, -1, ret_fd);
}

void cgroup_view_close(struct cgroup_view *view)
{
	if (view->groups_fd >= 0)
		(void)close(view->groups_fd);
	if (view->memory_fd >= 0)
		(void)close(view->memory_fd);
	*view = (struct cgroup_view){ -1, -1 };
}
