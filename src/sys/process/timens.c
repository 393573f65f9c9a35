/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/process/timens.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "sys/file.h"

int timens_begin(const char *proc_path)
{
	char path[64], text[96];
	struct timespec mono, boot;

	if (clock_gettime(CLOCK_MONOTONIC, &mono) < 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
		return -errno;
	/* Whole seconds, rounded so that neither clock becomes negative. */
	(void)snprintf(path, sizeof(path), "%s/self/timens_offsets", proc_path);
	(void)snprintf(text, sizeof(text), "monotonic %lld 0\nboottime %lld 0\n",
		       -(long long)mono.tv_sec, -(long long)boot.tv_sec);
	return file_write(AT_FDCWD, path, text);
}

/* Waits after its exec until standard input ends; ready_fd closes with the exec. */
static _noreturn_ void probe_child(int in_fd, int ready_fd)
{
	static char name[] = "cat";
	char *const argv[] = { name, NULL }, *const envp[] = { NULL };
	unsigned char why;

	if (unshare(CLONE_NEWTIME) == 0 && dup2(in_fd, 0) == 0)
		(void)execve("/bin/cat", argv, envp);
	why = (unsigned char)MIN(errno, UINT8_MAX);
	(void)!write(ready_fd, &why, 1);
	_exit(1);
}

static int namespace_of(pid_t pid, char *dst, size_t size)
{
	char path[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/time", pid);
	n = readlink(path, dst, size - 1);
	if (n < 0)
		return -errno;
	dst[n] = '\0';
	return 0;
}

static int compare(pid_t pid, int ready_fd)
{
	char ours[64], its[64];
	unsigned char why = 0;
	int r;

	/*
	 * The child could not start. If that was for lack of privileges, it says nothing about the
	 * kernel.
	 */
	if (read(ready_fd, &why, 1) != 0)
		return why == EPERM ? -EPERM : -EOPNOTSUPP;
	r = namespace_of(getpid(), ours, sizeof(ours));
	if (r >= 0)
		r = namespace_of(pid, its, sizeof(its));
	return r < 0 ? r : strcmp(ours, its) == 0 ? -EOPNOTSUPP : 0;
}

int timens_follows_exec(void)
{
	int in[2] = { -1, -1 }, ready[2] = { -1, -1 }, r;
	pid_t pid = -1;

	r = pipe2(in, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0 ? -errno : 0;
	if (r >= 0)
		pid = fork();
	if (pid == 0) {
		(void)close(in[1]);
		probe_child(in[0], ready[1]);
	}
	if (ready[1] >= 0)
		(void)close(ready[1]);
	if (r >= 0)
		r = pid < 0 ? -EAGAIN : compare(pid, ready[0]);
	for (int i = 0; i < 2; i++)
		if (in[i] >= 0)
			(void)close(in[i]);
	if (ready[0] >= 0)
		(void)close(ready[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return r;
}
