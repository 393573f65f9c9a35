/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warden that a person started ("cay up") is in the group of that login session and would end
 * with it. A scope is systemd's way to delegate a group to processes that it did not start:
 * systemd-run creates one for its own process and executes us in it, with the same pid. The scope
 * is removed with its last process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "warden/warden.h"

#define SYSTEMD_RUN "/usr/bin/systemd-run"
#define ARGV_MAX 64

/* The first is what sd_booted(3) checks; the second is root's socket to systemd. */
static bool has_systemd(void)
{
	return access("/run/systemd/system", F_OK) == 0 &&
	       access("/run/systemd/private", F_OK) == 0 && access(SYSTEMD_RUN, X_OK) == 0;
}

static bool has_v2(void)
{
	_cleanup_close_ int fd = open(CGROUP_ROOT, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	return fd >= 0 && cgroup_v2_has_controllers(fd);
}

int scope_hold(void)
{
	_cleanup_close_ int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	char place[CGROUP_PATH_SIZE], path[CGROUP_PATH_SIZE + sizeof(CGROUP_ROOT)];
	struct notify notify;
	int r = cgroup_place(proc_fd, ".", place);

	notify_open(&notify);
	if (r >= 0 && has_v2()) {
		(void)snprintf(path, sizeof(path), CGROUP_ROOT "%s", place);
		fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : cgroup_vacate(fd);
		if (r < 0)
			log_error("%s: %s", path, strerror(-r));
	}
	if (r < 0)
		return r;
	notify_send(&notify, "READY=1");
	for (;;)
		(void)pause();
}

int scope_enter(const struct warden_options *options, char **argv)
{
	/* A sandbox's first process ignores SIGTERM: a poweroff would wait for it. */
	static const char *const prefix[] = { SYSTEMD_RUN,
					      "--scope",
					      "--quiet",
					      "--collect",
					      "--slice=system.slice",
					      "--property=Delegate=yes",
					      "--property=TasksMax=infinity",
					      "--property=TimeoutStopSec=5s",
					      "--description=cay sandboxes",
					      "--" };
	static char self[PATH_MAX];
	const char *args[ARGV_MAX];
	/* The cast is only for exec()'s type. */
	union {
		const char *const *in;
		char *const *out;
	} all = { .in = args };
	size_t n = ARRAY_LEN(prefix);

	if (options->cgroup || geteuid() != 0 || !has_systemd() || !has_v2())
		return 0;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return -errno;
	memcpy(args, prefix, sizeof(prefix));
	args[n++] = self;
	for (argv++; *argv && n < ARGV_MAX - 3; argv++)
		args[n++] = *argv;
	if (*argv)
		return -E2BIG;
	args[n++] = "--cgroup";
	args[n++] = ".";
	args[n] = NULL;
	(void)execv(SYSTEMD_RUN, all.out);
	return -errno;
}
