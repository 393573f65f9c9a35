/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox's agent sees of its cgroups. A descriptor of the directory itself would lead up,
 * by "..", to the groups of everybody else; the root of a mount of its own does not.
 */
#include <fcntl.h>
#include <sys/mount.h>

#include "sys/cgroup_slot.h"
#include "sys/mount.h"

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

void cgroup_view_open(struct cgroup_tree *tree, unsigned instance)
{
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

void cgroup_view_close(struct cgroup_view *view)
{
	if (view->groups_fd >= 0)
		(void)close(view->groups_fd);
	if (view->memory_fd >= 0)
		(void)close(view->memory_fd);
	*view = (struct cgroup_view){ -1, -1 };
}
