/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/str.h"
#include "base/time.h"

int lock_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd >= 0 ? fd : -errno;
}

/*
 * The daemon's user can create files in this directory, too: no links, and no file of another user.
 */
static int open_lock(const char *dir, const char *name, int flags)
{
	_cleanup_close_ int dir_fd = -1;
	struct stat st;
	int fd;

	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0644);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    ((flags & O_CREAT) && (st.st_uid != geteuid() || st.st_nlink != 1))) {
		(void)close(fd);
		return -EBADF;
	}
	return fd;
}

int lock_take(const char *dir, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	char text[32];
	int n;

	fd = open_lock(dir, name, O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	/* In this order the block that a file of an earlier process has is used on a full disk. */
	if (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) < 0)
		return -EIO;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * Searches the kernel's list of locks. Device numbers there are the superblock's and differ from
 * stat's on btrfs and overlayfs, so only the inode is compared. pid 0 means any. Returns true if
 * the list cannot be read.
 */
static bool kernel_lists(int fd, pid_t pid)
{
	struct stat st;
	FILE *locks;
	char line[256];
	bool listed = false;

	if (fstat(fd, &st) < 0)
		return false;
	locks = fopen("/proc/locks", "re");
	if (locks == NULL)
		return true;
	while (!listed && fgets(line, sizeof(line), locks) != NULL) {
		unsigned long long inode;
		int holder;

		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%llu", &holder, &inode) == 2)
			listed = (pid == 0 || holder == pid) && inode == st.st_ino;
	}
	(void)fclose(locks);
	return listed;
}

/*
 * 1: held, 0: free, -errno. Trying a lock takes it for a moment, and a program that starts just
 * then would be refused. Therefore it is tried only if the kernel lists a holder.
 */
static int try_held(int fd)
{
	if (!kernel_lists(fd, 0))
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
		(void)flock(fd, LOCK_UN);
		return 0;
	}
	return errno == EWOULDBLOCK ? 1 : -errno;
}

static int read_pid(int fd, pid_t *ret)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	struct str line;
	uint64_t pid;

	if (n < 0)
		return -errno;
	line = str_trim((struct str){ text, (size_t)n }, " \t\r\n");
	if (str_to_u64(line, INT32_MAX, &pid) < 0 || pid == 0)
		return -EAGAIN;
	*ret = (pid_t)pid;
	return 0;
}

int lock_find(const char *dir, const char *name, struct lock_holder *ret)
{
	_cleanup_close_ int fd = -1, pidfd = -1;
	pid_t pid = 0;
	int r;

	fd = open_lock(dir, name, O_RDONLY);
	if (fd < 0)
		return fd;
	r = try_held(fd);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	r = read_pid(fd, &pid);
	if (r < 0)
		return r;
	pidfd = lock_pidfd(pid);
	if (pidfd < 0)
		return -EAGAIN;
	/* Only now is the pid pinned: if it still holds the lock, the pidfd is the holder's. */
	r = try_held(fd);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	/* The content of the file is only its owner's claim. */
	if (!kernel_lists(fd, pid))
		return -EBADMSG;
	*ret = (struct lock_holder){ .pid = pid, .pidfd = TAKE_FD(pidfd) };
	return 0;
}

bool lock_is_held(const char *dir, const char *name)
{
	_cleanup_close_ int fd = open_lock(dir, name, O_RDONLY);

	return fd >= 0 && try_held(fd) == 1;
}

int lock_signal(const struct lock_holder *holder, int signum)
{
	if (syscall(SYS_pidfd_send_signal, holder->pidfd, signum, NULL, 0) < 0)
		return -errno;
	return 0;
}

int lock_wait(const struct lock_holder *holder, int timeout_ms)
{
	int64_t end_ms = time_boot_ms() + timeout_ms;

	for (;;) {
		struct pollfd poll_fd = { .fd = holder->pidfd, .events = POLLIN };
		int64_t left_ms = end_ms - time_boot_ms();
		int n = poll(&poll_fd, 1, left_ms > 0 ? (int)left_ms : 0);

		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

void lock_holder_done(struct lock_holder *holder)
{
	if (holder->pidfd >= 0)
		(void)close(holder->pidfd);
	holder->pidfd = -1;
}
