/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* clang-format off */
#define ERRNO_NAMES(X)                                                                             \
	X(EPERM)                                                                                   \
	X(ENOENT)                                                                                  \
	X(ESRCH)                                                                                   \
	X(EINTR) X(EIO) X(ENXIO) X(E2BIG) X(ENOEXEC) X(EBADF) X(ECHILD) X(EAGAIN) X(ENOMEM) X(     \
		EACCES) X(EFAULT) X(ENOTBLK) X(EBUSY) X(EEXIST) X(EXDEV) X(ENODEV) X(ENOTDIR)      \
		X(EISDIR) X(EINVAL) X(ENFILE) X(EMFILE) X(ENOTTY) X(ETXTBSY) X(EFBIG) X(ENOSPC) X( \
			ESPIPE) X(EROFS) X(EMLINK) X(EPIPE) X(EDOM) X(ERANGE) X(EDEADLK)           \
			X(ENAMETOOLONG) X(ENOLCK) X(ENOSYS) X(ENOTEMPTY) X(ELOOP) X(               \
				EPROTONOSUPPORT) X(ESOCKTNOSUPPORT) X(EOPNOTSUPP) X(EPFNOSUPPORT)  \
				X(EAFNOSUPPORT) X(EADDRINUSE) X(ENETUNREACH) X(ENOBUFS)            \
					X(ENOTCONN) X(ECONNREFUSED) X(ETIMEDOUT) X(ESTALE)         \
						X(EDQUOT) X(EPROTOTYPE) X(ENOKEY) X(EKEYREJECTED)  \
							X(EUSERS) X(EOVERFLOW) X(ENOTSOCK)         \
								X(EDESTADDRREQ)
/* clang-format on */

const char *errno_text(int error)
{
	static char unknown[16];

	switch (error) {
#define X(name)    \
	case name: \
		return #name;
		ERRNO_NAMES(X)
#undef X
	}
	snprintf(unknown, sizeof(unknown), "E%d", error);
	return unknown;
}

void report(long ret, const char *fmt, ...)
{
	int error = errno;
	char line[256];
	va_list args;
	size_t length;

	va_start(args, fmt);
	vsnprintf(line, 200, fmt, args);
	va_end(args);
	length = strlen(line);
	if (ret >= 0)
		snprintf(line + length, sizeof(line) - length, " ok:%ld\n", ret);
	else
		snprintf(line + length, sizeof(line) - length, " %s\n", errno_text(error));
	/* One write per line: children of the probe share the pipe. */
	if (write(1, line, strlen(line)) < 0)
		_exit(9);
}

/* Waits for the child without signals: an attacked kernel interface may block for ever. */
static int wait_bounded(pid_t pid, unsigned timeout_ms, int *ret_status)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned waited = 0; waited <= timeout_ms; waited++) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return 0;
		nanosleep(&pause, NULL);
		pause.tv_nsec = waited < 5 ? 200000 : 1000000;
	}
	kill(pid, SIGKILL);
	waitpid(pid, ret_status, 0);
	return -1;
}

void in_child(const char *key, unsigned timeout_ms, void (*fn)(const char *key))
{
	int status;
	pid_t pid = fork();

	if (pid < 0) {
		report(-1, "%s.fork", key);
		return;
	}
	if (pid == 0) {
		fn(key);
		_exit(0);
	}
	if (wait_bounded(pid, timeout_ms, &status) < 0)
		printf("%s timeout\n", key);
	else if (WIFSIGNALED(status))
		printf("%s sig:%d\n", key, WTERMSIG(status));
	fflush(stdout);
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "syscalls", probe_syscalls },
	{ "sockets", probe_sockets },
	{ "abi", probe_abi },
	{ "filter", probe_filter },
	{ "keys", probe_keys },
	{ "clock", probe_clock },
	{ "seccomp", probe_seccomp },
	{ "clone", probe_clone },
	{ "mounts", probe_mounts },
	{ "root", probe_root },
	{ "handles", probe_handles },
	{ "mknod", probe_mknod },
	{ "ioctl", probe_ioctl },
	{ "init", probe_init },
	{ "caps", probe_caps },
	{ "kill", probe_kill },
	{ "lease", probe_lease },
	{ "splice", probe_splice },
	{ "bomb-mem", bomb_mem },
	{ "bomb-fork", bomb_fork },
	{ "bomb-fd", bomb_fd },
	{ "bomb-pty", bomb_pty },
	{ "bomb-disk", bomb_disk },
	{ "bomb-inode", bomb_inode },
	{ "bomb-pagetable", bomb_pagetable },
	{ "bomb-pipe", bomb_pipe },
	{ "bomb-zombie", bomb_zombie },
	{ "bomb-cpu", bomb_cpu },
	{ "bomb-ipc", bomb_ipc },
	{ "bomb-dentry", bomb_dentry },
	{ "bomb-stopped", bomb_stopped },
	{ "bomb-lock", bomb_lock },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Several probes would harm the machine if they succeeded on a host. */
	if (!getenv("CAY_PROBE_INSIDE")) {
		fputs("probe: set CAY_PROBE_INSIDE=1, and only inside a sandbox\n", stderr);
		return 2;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	fputs("probe: unknown command\n", stderr);
	return 2;
}
