/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is loaded into CRIU. When it writes a sandbox to disk, CRIU lets a child test
 * whether root of the sandbox's user namespace can enter its mount and time namespaces, and refuses
 * otherwise: it expects them to be owned by that user namespace. Ours belong to the host's, so that
 * root inside has no power over them (docs/decisions/001). It is only a test: CRIU reads both as
 * root of the host, and creates new ones for a restore. The child, recognized by a flag that only
 * it sets (criu/namespaces.c, check_user_ns), therefore exits with success as soon as it has
 * entered the user namespace.
 *
 * Every user namespace is owned by an id of its own sandbox (sys/process/namespace.c). CRIU
 * therefore creates one as that id, and reads the limits of processes as that id where root of the
 * host lacks CAP_SYS_RESOURCE, as in a container.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- as the owner of a user namespace, with all capabilities ---- */

typedef long call_fn(long number, ...);

/* libc's; the one below takes its place for CRIU. */
static call_fn *real_call(void)
{
	static union {
		void *found;
		call_fn *fn;
	} real;

	if (!real.found)
		real.found = dlsym(RTLD_NEXT, "syscall");
	return real.fn;
}

static int become(uint32_t id)
{
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	if (bits >= 0 && prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) == 0 &&
	    real_call()(SYS_setresuid, -1L, (long)id, -1L) == 0)
		return bits;
	return -1;
}

/*
 * The child of a clone keeps the id: it is root of its new namespace. A change of ids hides the
 * files in /proc of a process from itself, which is undone.
 */
static void become_root(int bits, int is_child)
{
	if (!is_child && real_call()(SYS_setresuid, -1L, 0L, -1L) != 0)
		_exit(125);
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
		_exit(125);
}

static uint32_t owner_of(int pid)
{
	unsigned inside, outside = 0, count;
	char path[32];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%u %u %u", &inside, &outside, &count) != 3)
		outside = 0;
	if (file)
		(void)fclose(file);
	return outside;
}

/* prlimit64(pid, which, limit, old) */
static long read_limit(const long args[4])
{
	long r = real_call()(SYS_prlimit64, args[0], args[1], args[2], args[3]);
	uint32_t owner = r < 0 && errno == EPERM && !args[2] ? owner_of((int)args[0]) : 0;
	int bits = owner ? become(owner) : -1;

	if (bits < 0)
		return r;
	r = real_call()(SYS_prlimit64, args[0], args[1], args[2], args[3]);
	become_root(bits, 0);
	return r;
}

static long clone_as_owner(const struct clone_args *args, long size)
{
	const char *owner = getenv(CRIU_OWNER);
	int bits = owner ? become((uint32_t)strtoul(owner, NULL, 10)) : -1, error;
	long pid = real_call()(SYS_clone3, args, size);

	error = errno;
	if (bits >= 0)
		become_root(bits, pid == 0);
	errno = error;
	return pid;
}

long syscall(long number, ...)
{
	long args[6];
	va_list values;

	va_start(values, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(values, long);
	va_end(values);
	if (number == SYS_prlimit64)
		return read_limit(args);
	if (number == SYS_clone3) {
		const struct clone_args *how;

		memcpy(&how, &args[0], sizeof(how));
		if (how->flags & CLONE_NEWUSER)
			return clone_as_owner(how, args[1]);
	}
	return real_call()(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
