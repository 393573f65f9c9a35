/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several daemons share one host, and their id ranges and cgroups must never meet. Each state
 * directory claims a number by a directory /run/cay/N whose "owner" names it; a claim stays while
 * its sandboxes live, also without a warden, and is free again when the state directory is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/log.h"
#include "sys/file.h"
#include "warden/warden.h"

#define RUN_DIRECTORY "/run/cay"

static int owner_read(const struct warden *w, unsigned number, char dst[PATH_MAX])
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%u", number);
	return file_read(w->run_fd, path, dst, PATH_MAX);
}

static int owner_write(const struct warden *w, unsigned number, const char *state_path)
{
	char path[32];
	_cleanup_close_ int fd = -1;
	size_t n = strlen(state_path);

	(void)snprintf(path, sizeof(path), "%u", number);
	fd = openat(w->run_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	return write(fd, state_path, n) == (ssize_t)n ? 0 : -EIO;
}

/* Is anything alive in this instance's pids (or other) cgroups? Then its ids are in use. */
static bool instance_busy(const struct warden *w, unsigned number)
{
	char path[64];
	uint64_t pids;

	(void)snprintf(path, sizeof(path), "pids/cay-%u/pids.current", number);
	if (file_read_u64(w->cgroup_root_fd, path, &pids) < 0) {
		(void)snprintf(path, sizeof(path), "cay-%u/pids.current", number);
		if (file_read_u64(w->cgroup_root_fd, path, &pids) < 0)
			return false;
	}
	return pids > 0;
}

static int claim_locked(struct warden *w, const char *state_path)
{
	char owner[PATH_MAX];
	int vacant = -1;

	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		int n = owner_read(w, i, owner);

		if (n > 0 && strcmp(owner, state_path) == 0) {
			w->instance = i;
			return 0;
		}
		if (vacant >= 0)
			continue;
		if (n <= 0 || (access(owner, F_OK) < 0 && errno == ENOENT && !instance_busy(w, i)))
			vacant = (int)i;
	}
	if (vacant < 0) {
		log_error("all %d instances of this host are in use: see " RUN_DIRECTORY,
			  INSTANCES_MAX);
		return -EUSERS;
	}
	w->instance = (unsigned)vacant;
	return owner_write(w, w->instance, state_path);
}

int instance_claim(struct warden *w, const char *state_path)
{
	_cleanup_close_ int lock = -1;

	if (mkdir(RUN_DIRECTORY, 0755) < 0 && errno != EEXIST)
		return -errno;
	w->run_fd = open(RUN_DIRECTORY, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (w->run_fd < 0)
		return -errno;
	lock = openat(w->run_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return -errno;
	return claim_locked(w, state_path);
}

void instance_release(struct warden *w)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%u", w->instance);
	(void)unlinkat(w->run_fd, path, 0);
}
