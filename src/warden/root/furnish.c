/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of a sandbox's root besides its files: /dev, the agent, a machine id. They are
 * prepared together with the root; only /proc needs the sandbox's own pid namespace, so the child
 * mounts it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>

#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "warden/root/dev.h"
#include "warden/root/programs.h"

#define PTS_MAX "256"

static int mount_dev(struct warden *w, const struct root *root, unsigned slot)
{
	_cleanup_close_ int fd = -1;
	int r = dev_copy(w, slot, &fd);

	return r < 0 ? r : mount_attach(fd, root->fd, "dev");
}

static int mount_pts(struct warden *w, const struct root *root, uint32_t first_id)
{
	_cleanup_close_ int fd = -1;
	char gid[16];
	int r;

	(void)snprintf(gid, sizeof(gid), "%u", first_id + 5);
	const struct mount_option options[] = {
		{ "newinstance", NULL, -1 },
		{ "ptmxmode", "0666", -1 },
		{ "mode", "0620", -1 },
		{ "gid", gid, -1 },
		{ "max", control_on(w, CONTROL_PTSMAX) ? PTS_MAX : "1048576", -1 },
	};
	r = mount_make("devpts", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
		       &fd);
	return r < 0 ? r : mount_attach(fd, root->fd, "dev/pts");
}

static int mount_shm(const struct root *root, uint32_t first_id)
{
	_cleanup_close_ int fd = -1;
	struct shm_size size;
	char uid[16];
	int r;

	shm_size_of(root->shm_memory_mb, &size);
	(void)snprintf(uid, sizeof(uid), "%u", first_id);
	const struct mount_option options[] = {
		{ "mode", "1777", -1 },
		{ "size", size.bytes, -1 },
		{ "nr_inodes", size.inodes, -1 },
		{ "uid", uid, -1 },
		{ "gid", uid, -1 },
	};
	r = mount_make("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		       &fd);
	return r < 0 ? r : mount_attach(fd, root->fd, "dev/shm");
}

static int mount_agent(struct warden *w, const struct root *root, unsigned slot)
{
	_cleanup_close_ int fd = -1;
	int r = programs_copy(w, slot, "", 0, &fd);

	return r < 0 ? r : mount_attach(fd, root->fd, "run/cay");
}

static int mount_machine_id(struct warden *w, const struct root *root, unsigned slot)
{
	char path[IDENTITY_PATH_SIZE];
	_cleanup_close_ int fd = -1;
	int r;

	identity_path(path, IDENTITY_MACHINE, slot);
	r = mount_copy(w->names_fd, path, 0, -1, &fd);
	if (r < 0)
		return r;
	r = mount_attach(fd, root->fd, "etc/machine-id");
	/* The owner of the files may have put something else there: there is then no machine id. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

int root_furnish(struct warden *w, unsigned slot, struct root *root, const char **ret_step)
{
	bool mapped = control_on(w, CONTROL_IDMAP) && control_on(w, CONTROL_USERNS);
	uint32_t first_id = mapped ? slot_first_id(w, slot) : 0;
	int r;

	*ret_step = "mount dev";
	r = mount_dev(w, root, slot);
	if (r >= 0)
		r = mount_pts(w, root, first_id);
	if (r >= 0)
		r = mount_shm(root, first_id);
	if (r < 0)
		return r;
	*ret_step = "mount sys";
	r = cover_furnish(w, slot, root);
	if (r < 0)
		return r;
	*ret_step = "mount agent";
	r = mount_agent(w, root, slot);
	if (r < 0)
		return r;
	*ret_step = "mount identity";
	return mount_machine_id(w, root, slot);
}

/*
 * Looks up what the child mounts over and what almost every command uses, so that it is in the
 * cache, because a lookup in two file systems is expensive. Only in a root that was not written to.
 */
void root_warm(const struct root *root)
{
	static const char *const paths[] = {
		"proc",
		"bin",
		"lib",
		"lib64",
		"etc/group",
		"etc/ld.so.cache",
		"etc/ld.so.preload",
		"etc/passwd",
		"run/cay/agent",
		"usr/bin/bash",
		"usr/bin/sh",
		"usr/lib/locale/locale-archive",
		"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
		"usr/lib/x86_64-linux-gnu/libc.so.6",
		"usr/lib64/ld-linux-x86-64.so.2",
		"workspace",
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		int fd = sys_openat2(root->fd, paths[i], O_PATH | O_CLOEXEC | O_NOFOLLOW,
				     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

		if (fd >= 0)
			(void)close(fd);
	}
}
