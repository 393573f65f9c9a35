/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "sys/process/timens.h"

#define TIME_TRIES 3

const struct probe_row probe_rows[PROBE_COUNT] = {
	[PROBE_OVERLAY_FD] = { "overlay-fd", 6013, "overlay layers by descriptor",
			       "layers by name in the warden's private mount namespace",
			       "two mounts per slot stay attached" },
	[PROBE_DETACHED_COPY] = { "detached-copy", 6015, "copies of detached mounts",
				  "mounts attached in the warden's private mount namespace",
				  "a root takes longer to prepare, ahead of the create" },
	[PROBE_DETACHED_TARGET] = { "detached-target", 6015, "mounting into a detached tree",
				    "roots are assembled attached and copied as a tree",
				    "a root takes longer to prepare, ahead of the create" },
	[PROBE_EXACT_TIMES] = { "exact-times", 6013, "exact file times",
				"no root is used a second time",
				"a new volume and root for each sandbox" },
	[PROBE_SIMPLE_QUOTA] = { "simple-quota", 6007, "simple quotas of btrfs",
				 "group quotas of btrfs",
				 "snapshots and large writes take longer" },
	[PROBE_TIME_AT_EXEC] = { "time-at-exec", 6003, "entering a time namespace at exec",
				 "sandboxes show the uptime of the host", "none" },
};

static enum probe_state states[PROBE_COUNT];

static int make_tmpfs(int *ret_fd)
{
	const struct mount_option size = { "size", "64k", -1 };

	return mount_make("tmpfs", &size, 1, 0, ret_fd);
}

static int probe_overlay_fd(void)
{
	_cleanup_close_ int layer_fd = -1, fs_fd = -1;
	int r = make_tmpfs(&layer_fd);

	if (r < 0)
		return r;
	fs_fd = fsopen("overlay", FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return -errno;
	return fsconfig(fs_fd, FSCONFIG_SET_FD, "lowerdir+", NULL, layer_fd) < 0 ? -errno : 0;
}

static int probe_detached_copy(void)
{
	_cleanup_close_ int from_fd = -1, copy_fd = -1;
	int r = make_tmpfs(&from_fd);

	return r < 0 ? r : mount_copy(from_fd, "", 0, -1, &copy_fd);
}

static int probe_detached_target(void)
{
	_cleanup_close_ int outer_fd = -1, inner_fd = -1;
	int r = make_tmpfs(&outer_fd);

	if (r >= 0)
		r = make_tmpfs(&inner_fd);
	if (r >= 0)
		r = mkdirat(outer_fd, "target", 0755) < 0 ? -errno : 0;
	return r < 0 ? r : mount_attach(inner_fd, outer_fd, "target");
}

static int probe_exact_times(void)
{
	_cleanup_close_ int fd = -1, dir_fd = -1;
	int r = make_tmpfs(&fd);

	if (r < 0)
		return r;
	dir_fd = openat(fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	return probe_times_exact(dir_fd) ? 0 : -EOPNOTSUPP;
}

/*
 * Reads the module's feature list, so the module must be loaded. The quota itself can only be tried
 * on a btrfs file system.
 */
static int probe_simple_quota(void)
{
	if (access("/sys/fs/btrfs/features", F_OK) < 0)
		return -EACCES; /* module not loaded: unknown */
	return access("/sys/fs/btrfs/features/simple_quota", F_OK) < 0 ? -errno : 0;
}

static int (*const probes[PROBE_COUNT])(void) = {
	[PROBE_OVERLAY_FD] = probe_overlay_fd,
	[PROBE_DETACHED_COPY] = probe_detached_copy,
	[PROBE_DETACHED_TARGET] = probe_detached_target,
	[PROBE_EXACT_TIMES] = probe_exact_times,
	[PROBE_SIMPLE_QUOTA] = probe_simple_quota,
	[PROBE_TIME_AT_EXEC] = timens_follows_exec,
};

bool probe_times_exact(int dir_fd)
{
	for (int i = 0; i < TIME_TRIES; i++) {
		struct stat before, after;

		if (fstat(dir_fd, &before) < 0 || fchmod(dir_fd, before.st_mode & 07777) < 0 ||
		    fstat(dir_fd, &after) < 0)
			return false;
		if (memcmp(&before.st_ctim, &after.st_ctim, sizeof(after.st_ctim)) == 0)
			return false;
	}
	return true;
}

/* The feature of this name, PROBE_COUNT for "all", or -1. */
static int find(const char *name, size_t n)
{
	for (int i = 0; i < PROBE_COUNT; i++)
		if (strlen(probe_rows[i].name) == n && memcmp(probe_rows[i].name, name, n) == 0)
			return i;
	return n == 3 && memcmp(name, "all", 3) == 0 ? PROBE_COUNT : -1;
}

int probe_disable(const char *list, char *ret_unknown, size_t size)
{
	bool off[PROBE_COUNT + 1] = { false };

	while (list && *list) {
		size_t n = strcspn(list, ",");
		int which = find(list, n);

		if (which < 0) {
			(void)snprintf(ret_unknown, size, "%.*s", (int)MIN(n, (size_t)64), list);
			return -EINVAL;
		}
		off[which] = true;
		list += n + (list[n] == ',');
	}
	for (size_t i = 0; i < PROBE_COUNT; i++)
		if (off[i] || off[PROBE_COUNT])
			states[i] = PROBE_DISABLED;
	return 0;
}

void probe_names(char *dst, size_t size)
{
	size_t n = 0;

	dst[0] = '\0';
	for (size_t i = 0; i < PROBE_COUNT && n < size; i++)
		n += (size_t)snprintf(dst + n, size - n, "%s%s", i ? ", " : "", probe_rows[i].name);
}

void probe_all(void)
{
	for (size_t i = 0; i < PROBE_COUNT; i++) {
		int r;

		if (states[i] != PROBE_UNKNOWN)
			continue;
		r = probes[i]();
		if (r == -EPERM || r == -EACCES || r == -ENOMEM || r == -EMFILE)
			continue; /* does not say anything about the kernel */
		states[i] = r < 0 ? PROBE_MISSING : PROBE_PRESENT;
	}
}

enum probe_state probe_state(enum probe_feature feature)
{
	return states[feature];
}

bool probe_has(enum probe_feature feature)
{
	if (states[feature] == PROBE_UNKNOWN)
		probe_all();
	return states[feature] == PROBE_PRESENT;
}
