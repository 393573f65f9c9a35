/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

int file_write(int dir_fd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t n = strlen(text);
	ssize_t w;

	if (fd < 0)
		return -errno;
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

int file_read(int dir_fd, const char *path, char *dst, size_t size)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t n = 0;

	if (fd < 0)
		return -errno;
	while (n < size - 1) {
		ssize_t r = read(fd, dst + n, size - 1 - n);

		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	dst[n] = '\0';
	return (int)n;
}

static int parse_u64(const char *text, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (strncmp(text, "max", 3) == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -errno;
	*ret = value;
	return 0;
}

int file_read_u64(int dir_fd, const char *path, uint64_t *ret)
{
	char text[64];
	int r = file_read(dir_fd, path, text, sizeof(text));

	return r < 0 ? r : parse_u64(text, ret);
}

int file_read_field(int dir_fd, const char *path, const char *key, uint64_t *ret)
{
	char text[4096] = "";
	size_t n = strlen(key);
	int r = file_read(dir_fd, path, text, sizeof(text));

	if (r < 0)
		return r;
	for (char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return parse_u64(line + n + 1, ret);
	}
	return -ENOENT;
}

int file_open_own(int dir_fd, const char *path, int flags, int *ret_fd)
{
	_cleanup_close_ int fd =
		openat(dir_fd, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
		return -EPERM;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int file_lock(int dir_fd, const char *path, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	char pid[32];
	int n, r;

	r = file_open_own(dir_fd, path, O_RDWR | O_CREAT, &fd);
	if (r < 0)
		return r;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	/* In this order the block that a file of an earlier process has is used on a full disk. */
	errno = 0;
	if (pwrite(fd, pid, (size_t)n, 0) != n || ftruncate(fd, n) < 0)
		return errno ? -errno : -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
