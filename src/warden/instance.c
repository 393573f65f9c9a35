/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several daemons can share one host, and their id ranges and cgroups must not overlap. Each state
 * directory claims a number by a directory /run/cay/N whose "owner" names it. A claim exists while
 * its sandboxes run, also without a warden, and is free again when the state directory is gone.
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

static int text_write(const struct warden *w, const char *path, const char *text)
{
	_cleanup_close_ int fd = -1;
	size_t n = strlen(text);

	fd = openat(w->run_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	return write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
}

static int owner_write(const struct warden *w, unsigned number, const char *state_path)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%u", number);
	return text_write(w, path, state_path);
}

/*
 * The last place of an instance's v2 groups. Only root writes here, but a truncated file must not
 * name another place.
 */
static bool place_read(const struct warden *w, unsigned number, char dst[CGROUP_PATH_SIZE])
{
	char path[32], text[CGROUP_PATH_SIZE];
	int n;

	(void)snprintf(path, sizeof(path), "%u.cgroup", number);
	n = file_read(w->run_fd, path, text, sizeof(text));
	return n > 0 && n < CGROUP_PATH_SIZE - 1 && cgroup_path_resolve("/", text, dst) >= 0;
}

/* Whether this instance's cgroups contain a process. Its ids are then in use. */
static bool instance_busy(const struct warden *w, unsigned number)
{
	char path[64], place[CGROUP_PATH_SIZE];
	uint64_t pids;

	if (place_read(w, number, place) && cgroup_place_busy(w->cgroup_root_fd, place, number))
		return true;
	(void)snprintf(path, sizeof(path), "pids/cay-%u/pids.current", number);
	return file_read_u64(w->cgroup_root_fd, path, &pids) >= 0 && pids > 0;
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

int instance_place(struct warden *w, const char *wanted)
{
	char path[32], last[CGROUP_PATH_SIZE];
	int r;

	if (!cgroup_v2_has_controllers(w->cgroup_root_fd))
		return cgroup_place(w->proc_fd, NULL, w->place);
	r = cgroup_place(w->proc_fd, wanted, w->place);
	if (r < 0)
		return r;
	if (place_read(w, w->instance, last) && strcmp(last, w->place) != 0 &&
	    cgroup_place_busy(w->cgroup_root_fd, last, w->instance)) {
		log_info("sandboxes live in the group %s: it stays in use", last);
		memcpy(w->place, last, sizeof(last));
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%u.cgroup", w->instance);
	return text_write(w, path, w->place);
}

void instance_release(struct warden *w)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%u.cgroup", w->instance);
	(void)unlinkat(w->run_fd, path, 0);
	(void)snprintf(path, sizeof(path), "%u", w->instance);
	(void)unlinkat(w->run_fd, path, 0);
}
