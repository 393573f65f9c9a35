/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the warden needs to create a storage pool, and which storage it would use. Changes nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "cli/doctor/doctor.h"
#include "sys/module.h"

#define GROUP "Storage"
/* The same as in the warden (pool.c). */
#define POOL_SHARE_PERCENT 60
#define POOL_MIN_BYTES (512ULL << 20)
#define WITHOUT_POOL                                                                  \
	"Without it the files of sandboxes are in plain directories: no disk limits " \
	"(disk_limit: unenforced), no snapshots, forks or hibernation. "

/* In the running kernel, or as a module that is loaded on first use. */
static const char *filesystem_from(const char *name)
{
	char path[256];
	struct utsname u;

	if (module_has_filesystem(name))
		return "in the kernel";
	if (uname(&u) < 0)
		return NULL;
	(void)snprintf(path, sizeof(path), "/lib/modules/%s/kernel/fs/%s%s", u.release, name,
		       strcmp(name, "overlay") == 0 ? "fs" : "");
	return access(path, F_OK) == 0 ? "as a module; the warden loads it" : NULL;
}

/* The warden starts it from these two directories, whatever PATH is. */
static const char *find_mkfs(void)
{
	static const char *const paths[] = { "/sbin/mkfs.btrfs", "/usr/sbin/mkfs.btrfs" };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

/* Adds a row for each requirement of a pool. Returns what is missing to mount one, or NULL. */
static const char *check_parts(struct doctor *d, const char *mkfs)
{
	const char *overlay = filesystem_from("overlay"), *btrfs = filesystem_from("btrfs");
	bool loop = access("/dev/loop-control", F_OK) == 0;
	struct check *c;

	c = doctor_add(d, GROUP, overlay != NULL ? CHECK_OK : CHECK_FAIL, "overlayfs", "%s",
		       overlay != NULL ? overlay : "missing");
	if (overlay == NULL)
		doctor_next(c, "Sandboxes share their template through it: modprobe overlay. If "
			       "that finds no module, install the modules of this kernel.");
	c = doctor_add(d, GROUP, btrfs != NULL ? CHECK_OK : CHECK_WARN, "btrfs", "%s",
		       btrfs != NULL ? btrfs : "missing");
	if (btrfs == NULL)
		doctor_next(c, WITHOUT_POOL
			    "Load the module: modprobe btrfs. If that finds none, install the "
			    "modules of this "
			    "kernel (Ubuntu: apt install linux-modules-extra-$(uname -r)).");
	c = doctor_add(d, GROUP, loop ? CHECK_OK : CHECK_WARN, "loop devices", "%s",
		       loop ? "/dev/loop-control" : "missing");
	if (!loop)
		doctor_next(c, WITHOUT_POOL "Load the module: modprobe loop");
	c = doctor_add(d, GROUP, mkfs != NULL ? CHECK_OK : CHECK_WARN, "mkfs.btrfs", "%s",
		       mkfs != NULL ? mkfs : "missing");
	if (mkfs == NULL)
		doctor_next(c, WITHOUT_POOL "Install it: apt install btrfs-progs");
	return btrfs == NULL ? "no btrfs" : !loop ? "no loop devices" : NULL;
}

/* 0, or -errno if the state directory cannot be read. */
static int look(const char *state, bool *ret_pool, bool *ret_volumes)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *dir;

	*ret_pool = *ret_volumes = false;
	if (access(state, F_OK) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (access(state, X_OK) < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/pool.btrfs", state);
	*ret_pool = access(path, F_OK) == 0;
	(void)snprintf(path, sizeof(path), "%s/volumes", state);
	dir = opendir(path);
	if (dir == NULL)
		return errno == ENOENT ? 0 : -errno;
	while (!*ret_volumes && (entry = readdir(dir)) != NULL)
		*ret_volumes = entry->d_name[0] == 'v';
	(void)closedir(dir);
	return 0;
}

static uint64_t pool_bytes(const char *state)
{
	struct statvfs fs;

	if (statvfs(access(state, F_OK) == 0 ? state : "/var/lib", &fs) < 0)
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize / 100 * POOL_SHARE_PERCENT;
}

static void say_directories(struct doctor *d, const char *why)
{
	struct check *c =
		doctor_add(d, GROUP, CHECK_WARN, "storage", "plain directories (%s)", why);

	doctor_next(c, "disk_size_mb does not limit anything (disk_limit: unenforced): one sandbox "
		       "can fill the disk. Snapshots, forks and hibernation are not available. "
		       "See \"Storage\" in docs/reference/config.md.");
}

static void say_wrong(struct doctor *d, const char *what, const char *why, const char *next)
{
	struct check *c = doctor_add(d, GROUP, CHECK_FAIL, "storage", "%s%s", what, why);

	doctor_next(c, "The warden does not start. %s", next);
}

/* The decision of storage_open() in the warden. */
static void check_choice(struct doctor *d, const char *unmountable, const char *unmakeable)
{
	bool directory = strcmp(d->storage, "directory") == 0;
	bool pool, volumes;
	int r = look(d->state, &pool, &volumes);

	if (geteuid() != 0 && access(d->state, W_OK) == 0)
		(void)doctor_add(d, GROUP, CHECK_OK, "storage",
				 "the local engine uses directories in %s/local", d->state);
	else if (r < 0)
		(void)doctor_add(d, GROUP, CHECK_OK, "storage",
				 "not checked: only root can look into %s", d->state);
	else if (directory && pool)
		say_wrong(d, "storage = directory, but a btrfs pool exists", "",
			  "Set storage = auto, or move pool.btrfs out of the state directory.");
	else if (directory)
		say_directories(d, "storage = directory");
	else if (pool && unmountable != NULL)
		say_wrong(d, "a btrfs pool exists, but cannot be mounted: ", unmountable,
			  "Sandboxes and snapshots are in the pool: see the rows above.");
	else if (pool)
		(void)doctor_add(d, GROUP, CHECK_OK, "storage", "the btrfs pool %s/pool.btrfs",
				 d->state);
	else if (volumes && strcmp(d->storage, "btrfs") != 0)
		say_directories(d, "the state directory began with them");
	else if (unmakeable == NULL)
		(void)doctor_add(d, GROUP, CHECK_OK, "storage",
				 "a new btrfs pool of up to %llu MiB in %s",
				 (unsigned long long)(pool_bytes(d->state) >> 20), d->state);
	else if (strcmp(d->storage, "btrfs") == 0)
		say_wrong(d, "storage = btrfs, but no pool can be made: ", unmakeable,
			  "See the rows above, or set storage = auto.");
	else
		say_directories(d, unmakeable);
}

void doctor_storage(struct doctor *d)
{
	const char *mkfs = find_mkfs();
	const char *unmountable = check_parts(d, mkfs);

	check_choice(d, unmountable,
		     unmountable != NULL		     ? unmountable
		     : mkfs == NULL			     ? "no mkfs.btrfs"
		     : pool_bytes(d->state) < POOL_MIN_BYTES ? "less than 900 MB free"
							     : NULL);
}
