/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is loaded into CRIU when it writes a sandbox to disk. CRIU lets a child test
 * whether root of the sandbox's user namespace can enter its mount and time namespaces, and refuses
 * otherwise: it expects them to be owned by that user namespace. Ours belong to the host's, so that
 * root inside has no power over them (docs/decisions/001). It is only a test: CRIU reads both as
 * root of the host, and creates new ones for a restore. The child, recognized by a flag that only
 * it sets (criu/namespaces.c, check_user_ns), therefore exits with success as soon as it has
 * entered the user namespace.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "warden/memory/criu_hook.h"

int setns(int fd, int type)
{
	int asks = type == CLONE_NEWUSER && prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) == 1;
	long r = syscall(SYS_setns, fd, type);

	if (r == 0 && asks)
		_exit(0);
	return (int)r;
}

/*
 * CRIU freezes and thaws the sandbox's cgroup from within its cgroup namespace. If cgroup v2 is
 * mounted as systemd mounts it (nsdelegate), the kernel refuses that for a file that was opened
 * there, so the warden opened it outside.
 */
int open64(const char *path, int flags, ...)
{
	va_list values;
	int mode, fd;

	va_start(values, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(values, int) : 0;
	va_end(values);
	if (strcmp(path, CRIU_FREEZE_FILE) == 0) {
		fd = fcntl(CRIU_FREEZE_FD, F_DUPFD_CLOEXEC, CRIU_FREEZE_FD + 1);
		if (fd >= 0)
			return fd;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
