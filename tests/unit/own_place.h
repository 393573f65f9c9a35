/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs of tests that mount, or change links and routes: a mount namespace of their own with
 * an empty tmpfs as /tmp, so that the host sees nothing of it and nothing is left behind. Include
 * it behind cmocka.h.
 */
#ifndef CAY_TESTS_OWN_PLACE_H
#define CAY_TESTS_OWN_PLACE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_PLACE_SKIPPED 77 /* the exit status by which Meson knows a skipped test */

/* more: further namespaces, for example CLONE_NEWNET. */
static inline bool own_place_enter(int more)
{
	if (unshare(CLONE_NEWNS | more) == 0 &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=0755,size=512m") == 0)
		return true;
	print_message("skipped: no namespace of its own: %s\n", strerror(errno));
	return false;
}

/* A fresh directory below /tmp, which begins empty in every test. */
static inline int own_place_open(const char *name)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/%s", name);
	assert_return_code(mkdir(path, 0755), errno);
	fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_return_code(fd, errno);
	return fd;
}

static inline int own_place_renew(void **state)
{
	(void)state;
	(void)umount2("/tmp", MNT_DETACH);
	return mount("tmpfs", "/tmp", "tmpfs", 0, "mode=0755,size=512m");
}

static inline void put_text(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_return_code(fd, errno);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

/* Its length, or -1; what is read is text. */
static inline int get_text(int dir_fd, const char *name, char *dst, size_t size)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC), n;

	if (fd < 0)
		return -1;
	n = (int)read(fd, dst, size - 1);
	(void)close(fd);
	dst[n < 0 ? 0 : n] = '\0';
	return n;
}

static inline void assert_text(int dir_fd, const char *name, const char *text)
{
	char found[4096];

	assert_int_not_equal(get_text(dir_fd, name, found, sizeof(found)), -1);
	assert_string_equal(found, text);
}

static inline bool is_there(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

#endif
