/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount/loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LOOP_SCAN_MAX 256
#define LOOP_TRIES 16

/*
 * A container has the device nodes that existed at its start. The node of a device that the kernel
 * created later is made here.
 */
static int open_node(int number, char *path, size_t size)
{
	char known[48];
	int fd;

	(void)snprintf(path, size, "/dev/loop%d", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? -errno : fd;
	(void)snprintf(known, sizeof(known), "/sys/block/loop%d", number);
	if (access(known, F_OK) < 0 ||
	    mknod(path, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)number)) < 0)
		return -ENOENT;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int find_existing(const struct stat *file, char *path, size_t size, int *ret_fd)
{
	for (int i = 0; i < LOOP_SCAN_MAX; i++) {
		struct loop_info64 info;
		int fd;

		fd = open_node(i, path, size);
		if (fd < 0)
			continue;
		if (ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file->st_ino &&
		    info.lo_device == file->st_dev) {
			*ret_fd = fd;
			return 0;
		}
		(void)close(fd);
	}
	return -ENOENT;
}

static int set_up(int loop_fd, int file_fd)
{
	struct loop_config config = {
		.fd = (uint32_t)file_fd,
		.block_size = 4096,
		/* Direct I/O: without it every page of the pool would be cached twice. */
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
	};

	if (ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0)
		return 0;
	config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	config.block_size = 0;
	return ioctl(loop_fd, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

int loopdev_open(int file_fd, char *ret_path, size_t size, int *ret_fd)
{
	_cleanup_close_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct stat file;

	if (control < 0 || fstat(file_fd, &file) < 0)
		return -errno;
	if (find_existing(&file, ret_path, size, ret_fd) == 0)
		return 0;
	/* Another process may take the free number first: try again. */
	for (int i = 0; i < LOOP_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		int fd, r;

		if (number < 0)
			return -errno;
		fd = open_node(number, ret_path, size);
		if (fd < 0)
			return fd;
		r = set_up(fd, file_fd);
		if (r >= 0) {
			*ret_fd = fd;
			return 0;
		}
		(void)close(fd);
		if (r != -EBUSY)
			return r;
	}
	return -EBUSY;
}
