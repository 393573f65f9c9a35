/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/rand.h"

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

/* Without a privilege the kernel links a descriptor since 6.10; before, /proc is the way. */
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
 * Swaps, looks at what came out, and swaps back when it is not what was expected: there is no
 * moment between a check and the rename in which somebody's change could be lost.
 */
static int exchange(struct temp *temp, const char *name, const struct stat *expected)
{
	struct stat now;

	if (renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_EXCHANGE) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (fstatat(temp->dir_fd, temp->name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	    temp_same(&now, expected))
		return 0; /* temp_done() removes the old one */
	if (renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_EXCHANGE) < 0)
		return -errno;
	return -ESTALE;
}

static int replace(struct temp *temp, const char *name, const struct stat *expected)
{
	struct stat now;
	int r = give_name(temp);

	if (r < 0)
		return r;
	if (expected) {
		r = exchange(temp, name, expected);
		if (r != -EINVAL)
			return r;
		/* A file system that cannot swap. */
		if (fstatat(temp->dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !temp_same(&now, expected))
			return -ESTALE;
	}
	if (renameat(temp->dir_fd, temp->name, temp->dir_fd, name) < 0)
		return -errno;
	temp->name[0] = '\0';
	return 0;
}

int temp_publish(struct temp *temp, const char *name, struct temp_target target)
{
	int r;

	if (target.expected)
		return replace(temp, name, target.expected);
	if (!temp->name[0]) {
		r = link_as(temp, name);
		if (r != -EEXIST)
			return r;
	} else if (renameat2(temp->dir_fd, temp->name, temp->dir_fd, name, RENAME_NOREPLACE) == 0) {
		temp->name[0] = '\0';
		return 0;
	} else if (errno != EEXIST && errno != EINVAL) {
		return -errno;
	}
	return target.must_be_absent ? -EEXIST : replace(temp, name, NULL);
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
