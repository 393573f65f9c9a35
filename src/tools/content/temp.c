/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/content/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/rand.h"
#include "tools/op.h"

#define TURN_MS 2000

void temp_make_name(char dst[32])
{
	uint64_t random;

	rand_bytes(&random, sizeof(random));
	(void)snprintf(dst, 32, ".cay-%016llx", (unsigned long long)random);
}

bool temp_is_name(const char *name)
{
	return strncmp(name, ".cay-", 5) == 0 && strlen(name) == 21 &&
	       strspn(name + 5, "0123456789abcdef") == 16;
}

int temp_open(struct temp *temp, int dir_fd, mode_t mode)
{
	int r;

	*temp = TEMP_INIT;
	temp->dir_fd = dir_fd;
	temp->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (temp->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	temp_make_name(temp->name);
	temp->fd = openat(dir_fd, temp->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			  mode);
	if (temp->fd >= 0)
		return 0;
	r = -errno;
	temp->name[0] = '\0';
	return r;
}

/* Since Linux 6.10 an unprivileged process can link a descriptor; before, it must use /proc. */
static int link_as(const struct temp *temp, const char *name)
{
	char self[32];

	if (linkat(temp->fd, "", temp->dir_fd, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EPERM)
		return -errno;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", temp->fd);
	return linkat(AT_FDCWD, self, temp->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int give_name(struct temp *temp)
{
	char name[sizeof(temp->name)];
	int r;

	if (temp->name[0])
		return 0;
	temp_make_name(name);
	r = link_as(temp, name);
	if (r == 0)
		memcpy(temp->name, name, sizeof(name));
	return r;
}

bool temp_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/*
 * If several processes swap and swap back at once, one may remove what another one published.
 * Processes of this program that expect the same file therefore take turns: the one that holds a
 * socket named after its inode number. The socket leaves nothing in the tree and ends with its
 * holder. -EBUSY: it is held for too long. Without sockets there are no turns, and -1 is returned
 * as success.
 */
static int take_turn(const struct stat *expected)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "cay-turn-%llx-%llx",
			 (unsigned long long)expected->st_dev,
			 (unsigned long long)expected->st_ino);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (unsigned i = 0; fd >= 0 && i < TURN_MS && !op_stopped(); i++) {
		if (bind(fd, (const struct sockaddr *)&name, size) == 0)
			return TAKE_FD(fd);
		if (errno != EADDRINUSE)
			return -1;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return fd < 0 ? -1 : -EBUSY;
}

static bool is_still(const struct temp *temp, const char *name, const struct stat *expected)
{
	struct stat now;

	return fstatat(temp->dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       temp_same(&now, expected);
}

/*
 * Swaps, checks what came out, and swaps back if it is not the expected file: there is no time
 * between a check and the rename in which another change could be lost.
 */
static int exchange(struct temp *temp, const char *name, const struct stat *expected)
{
	_cleanup_close_ int turn = take_turn(expected);

	if (turn == -EBUSY || !is_still(temp, name, expected))
		return -ESTALE;
	if (renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_EXCHANGE) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (is_still(temp, temp->name, expected))
		return 0; /* temp_done() removes the old one */
	if (renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_EXCHANGE) < 0)
		return -errno;
	return -ESTALE;
}

static int replace(struct temp *temp, const char *name, const struct stat *expected)
{
	int r = give_name(temp);

	if (r < 0)
		return r;
	if (expected) {
		r = exchange(temp, name, expected);
		if (r != -EINVAL)
			return r;
		/* A file system that does not support swapping. */
		if (!is_still(temp, name, expected))
			return -ESTALE;
	}
	if (renameat(temp->dir_fd, temp->name, temp->dir_fd, name) < 0)
		return -errno;
	temp->name[0] = '\0';
	return 0;
}

/*
 * -EEXIST if there is a file, also where the file system cannot detect that without replacing it.
 */
static int put_new(struct temp *temp, const char *name)
{
	if (!temp->name[0])
		return link_as(temp, name);
	/* As a new link, not by a rename, so that a watch reports the file as new. */
	if (linkat(temp->dir_fd, temp->name, temp->dir_fd, name, 0) == 0)
		(void)unlinkat(temp->dir_fd, temp->name, 0);
	else if (errno == EEXIST ||
		 renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_NOREPLACE) < 0)
		return errno == EINVAL ? -EEXIST : -errno;
	temp->name[0] = '\0';
	return 0;
}

int temp_publish(struct temp *temp, const char *name, struct temp_target target)
{
	int r;

	if (target.expected)
		return replace(temp, name, target.expected);
	r = put_new(temp, name);
	return r == -EEXIST && !target.must_be_absent ? replace(temp, name, NULL) : r;
}

void temp_done(struct temp *temp)
{
	if (temp->name[0])
		(void)unlinkat(temp->dir_fd, temp->name, 0);
	if (temp->fd >= 0)
		(void)close(temp->fd);
	*temp = TEMP_INIT;
}

int temp_sync_dir(int dir_fd)
{
	_cleanup_close_ int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}
