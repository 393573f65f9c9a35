/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "sys/file.h"

#define LOCK_NAME "cayd.lock"
#define URL_NAME "url"
#define URL_LAST_NAME "url.last" /* while the daemon is not ready */
#define PATH_SIZE 4096
/* Owned by root, writable by our group, sticky: we can create files but not touch the warden's. */
#define STATE_MODE 01770

static int make_parents(const char *dir)
{
	char path[PATH_SIZE];

	if (snprintf(path, sizeof(path), "%s", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		*at = '/';
	}
	return 0;
}

/* By descriptor: a link that is put there meanwhile is not followed. */
static int make_owned(int parent_fd, const char *name, mode_t mode, const struct isolate_user *user,
		      int *ret_fd)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(parent_fd, name, 0750) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (user && (fchown(fd, geteuid(), user->gid) < 0 || fchmod(fd, mode) < 0))
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int state_prepare(const char *dir, const struct isolate_user *user, struct err *err)
{
	_cleanup_close_ int fd = -1, logs_fd = -1;
	int r = make_parents(dir);

	if (r == 0)
		r = make_owned(AT_FDCWD, dir, STATE_MODE, user, &fd);
	if (r == 0)
		r = make_owned(fd, "logs", 0750, user, &logs_fd);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot prepare %s", dir) : 0;
}

/*
 * The lock belongs to the daemon's user, however the daemon was started: systemd starts it as that
 * user, `cay up` as root. A file that root created is handed over; the user cannot replace it while
 * root owns it, because the directory is sticky.
 */
static int lock_as(int dir_fd, const struct isolate_user *user, int *ret_fd)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct stat st;
	int r;

	if (!user)
		return file_lock(dir_fd, LOCK_NAME, ret_fd);
	if (fstatat(dir_fd, LOCK_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid &&
	    S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	    fchownat(dir_fd, LOCK_NAME, user->uid, user->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (setegid(user->gid) < 0 || seteuid(user->uid) < 0)
		return -errno;
	r = file_lock(dir_fd, LOCK_NAME, ret_fd);
	if (seteuid(uid) < 0 || setegid(gid) < 0)
		return -errno;
	return r;
}

int state_lock(const char *dir, const struct isolate_user *user, int *ret_fd, struct err *err)
{
	_cleanup_close_ int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (dir_fd < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot open %s", dir);
	r = lock_as(dir_fd, user, ret_fd);
	if (r == -EWOULDBLOCK)
		return err_set(err, ERR_CONFLICT, "another cayd runs on %s; stop it or use --state",
			       dir);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot lock %s/" LOCK_NAME, dir) : 0;
}

/* A file of an earlier daemon is written over in place, which works on a full disk. */
static int open_url(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	(void)unlink(path);
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
}

int state_write_url(const char *dir, const char *url, struct err *err)
{
	char path[PATH_SIZE], last[PATH_SIZE], line[PATH_SIZE];
	_cleanup_close_ int fd = -1;
	int n = snprintf(line, sizeof(line), "%s\n", url);

	(void)snprintf(path, sizeof(path), "%s/" URL_NAME, dir);
	(void)snprintf(last, sizeof(last), "%s/" URL_LAST_NAME, dir);
	fd = open_url(last);
	if (fd < 0 || pwrite(fd, line, (size_t)n, 0) != n || ftruncate(fd, n) < 0 ||
	    rename(last, path) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot write %s", path);
	return 0;
}

void state_hide_url(const char *dir)
{
	char path[PATH_SIZE], last[PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/" URL_NAME, dir);
	(void)snprintf(last, sizeof(last), "%s/" URL_LAST_NAME, dir);
	if (rename(path, last) < 0)
		(void)unlink(path);
}

uint16_t state_url_port(struct str url)
{
	uint64_t port = 0;
	size_t at = url.n;

	while (at > 0 && url.p[at - 1] != ':')
		at--;
	if (str_to_u64((struct str){ url.p + at, url.n - at }, UINT16_MAX, &port) < 0)
		return 0;
	return (uint16_t)port;
}

uint16_t state_last_port(const char *dir)
{
	char path[PATH_SIZE], text[512];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/" URL_NAME, dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) { /* the last daemon ended before it was ready */
		(void)snprintf(path, sizeof(path), "%s/" URL_LAST_NAME, dir);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
	return n > 0 ? state_url_port(str_trim((struct str){ text, (size_t)n }, "\n")) : 0;
}
