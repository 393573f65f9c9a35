/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/str.h"

/* Missing in Debian 12's headers. */
#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4
#endif
#ifndef BTRFS_QGROUP_STATUS_FLAG_SIMPLE_MODE
#define BTRFS_QGROUP_STATUS_FLAG_SIMPLE_MODE (1ULL << 3)
#endif

bool btrfs_is(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

/* Before Linux 6.12, removing a subvolume with a group quota leaves its quota group behind. */
static bool removes_groups;

static int quota_enable(int fd, uint64_t how)
{
	struct btrfs_ioctl_quota_ctl_args args = { .cmd = how };

	return ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST ? 0 : -errno;
}

/* A quota that is already enabled stays as it is, so its kind is read back. */
static int quota_kind(int fd, enum btrfs_quota *ret)
{
	struct btrfs_ioctl_search_args args = {
		.key = {
			.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
			.min_type = BTRFS_QGROUP_STATUS_KEY,
			.max_type = BTRFS_QGROUP_STATUS_KEY,
			.max_offset = UINT64_MAX,
			.max_transid = UINT64_MAX,
			.nr_items = 1,
		},
	};
	struct btrfs_ioctl_search_header header;
	struct btrfs_qgroup_status_item status;
	const size_t size = offsetof(struct btrfs_qgroup_status_item, rescan);

	if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0)
		return -errno;
	memcpy(&header, args.buf, sizeof(header));
	if (args.key.nr_items != 1 || header.len < size)
		return -ENOENT;
	memcpy(&status, args.buf + sizeof(header), size);
	*ret = status.flags & BTRFS_QGROUP_STATUS_FLAG_SIMPLE_MODE ? BTRFS_QUOTA_SIMPLE
								   : BTRFS_QUOTA_GROUPS;
	return 0;
}

int btrfs_quota_enable(int fd, bool simple, enum btrfs_quota *ret)
{
	int r = -EOPNOTSUPP;

	if (simple)
		r = quota_enable(fd, BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA);
	if (r < 0)
		r = quota_enable(fd, BTRFS_QUOTA_CTL_ENABLE);
	if (r >= 0)
		r = quota_kind(fd, ret);
	removes_groups = r >= 0 && *ret == BTRFS_QUOTA_GROUPS;
	return r;
}

static int subvolume_call(int dir_fd, unsigned long request, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	if (strlen(name) >= sizeof(args.name))
		return -ENAMETOOLONG;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir_fd, request, &args) < 0 ? -errno : 0;
}

int btrfs_subvolume_make(int dir_fd, const char *name)
{
	return subvolume_call(dir_fd, BTRFS_IOC_SUBVOL_CREATE, name);
}

int btrfs_limit(int fd, uint64_t bytes)
{
	/* Id 0: the group of the subvolume that fd is in. */
	struct btrfs_ioctl_qgroup_limit_args args = {
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes },
	};

	return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

int btrfs_group_id(int fd, uint64_t *ret)
{
	struct btrfs_ioctl_ino_lookup_args args = { .objectid = BTRFS_FIRST_FREE_OBJECTID };

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return -errno;
	*ret = args.treeid;
	return 0;
}

int btrfs_groups_open(int fs_fd, int fd, int *ret_fd)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	char path[64] = "btrfs/";
	size_t at = strlen(path);

	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(info.fsid); i++) {
		str_hex(path + at, info.fsid + i, 1);
		at += 2;
		if (i == 3 || i == 5 || i == 7 || i == 9)
			path[at++] = '-';
	}
	memcpy(path + at, "/qgroups", sizeof("/qgroups"));
	*ret_fd = openat(fs_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int btrfs_group_open_usage(int groups_fd, uint64_t id, int *ret_fd)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "0_%" PRIu64 "/referenced", id);
	*ret_fd = openat(groups_fd, path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static uint64_t group_of(int dir_fd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t id = 0;

	return fd < 0 || btrfs_group_id(fd, &id) < 0 ? 0 : id;
}

int btrfs_subvolume_remove(int dir_fd, const char *name)
{
	struct btrfs_ioctl_qgroup_create_args group = {
		.qgroupid = removes_groups ? group_of(dir_fd, name) : 0,
	};
	int r = subvolume_call(dir_fd, BTRFS_IOC_SNAP_DESTROY, name);

	/*
	 * Newer kernels keep the group until the subvolume's extents are freed, and then remove it.
	 */
	if (r >= 0 && group.qgroupid)
		(void)ioctl(dir_fd, BTRFS_IOC_QGROUP_CREATE, &group);
	return r;
}

int btrfs_usage(int fd, uint64_t *ret_bytes)
{
	struct btrfs_ioctl_search_args args = {
		.key = {
			.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
			.min_type = BTRFS_QGROUP_INFO_KEY,
			.max_type = BTRFS_QGROUP_INFO_KEY,
			.max_transid = UINT64_MAX,
			.nr_items = 1,
		},
	};
	struct btrfs_ioctl_search_header header;
	struct btrfs_qgroup_info_item info;
	uint64_t id = 0;
	int r = btrfs_group_id(fd, &id);

	if (r < 0)
		return r;
	args.key.min_offset = args.key.max_offset = id;
	if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0)
		return -errno;
	if (args.key.nr_items != 1)
		return -ENOENT;
	memcpy(&header, args.buf, sizeof(header));
	if (header.len < sizeof(info))
		return -EIO;
	memcpy(&info, args.buf + sizeof(header), sizeof(info));
	*ret_bytes = info.rfer;
	return 0;
}

int btrfs_snapshot(int fd, int dir_fd, const char *name, bool read_only)
{
	struct btrfs_ioctl_vol_args_v2 args = {
		.fd = fd,
		.flags = read_only ? BTRFS_SUBVOL_RDONLY : 0,
	};

	if (strlen(name) >= sizeof(args.name))
		return -ENAMETOOLONG;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

int btrfs_set_read_only(int fd)
{
	uint64_t flags = 0;

	if (ioctl(fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0)
		return -errno;
	flags |= BTRFS_SUBVOL_RDONLY;
	return ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ? -errno : 0;
}

int btrfs_identify(int fd, struct btrfs_identity *ret)
{
	struct btrfs_ioctl_get_subvol_info_args info = { 0 };

	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
		return -errno;
	/* Not the generation, which grows with every copy of the subvolume. */
	*ret = (struct btrfs_identity){
		.changed = info.ctransid,
		.created = info.otransid,
		.read_only = info.flags & BTRFS_ROOT_SUBVOL_RDONLY,
	};
	memcpy(ret->uuid, info.uuid, sizeof(ret->uuid));
	return 0;
}

#define ITEM_BYTES 25 /* struct btrfs_item, which the headers lack */

static uint64_t item_bytes(const struct btrfs_ioctl_search_header *header, const char *item)
{
	uint64_t bytes = ITEM_BYTES + header->len;
	struct btrfs_file_extent_item extent;

	if (header->type != BTRFS_EXTENT_DATA_KEY || header->len < sizeof(extent))
		return bytes;
	memcpy(&extent, item, sizeof(extent));
	/* An inline extent is followed by the file's content; a hole occupies nothing. */
	if (extent.type == BTRFS_FILE_EXTENT_INLINE || !extent.disk_bytenr)
		return bytes;
	return bytes + extent.num_bytes;
}

/* Advances to the key after the last one seen; false if there is none. */
static bool key_advance(struct btrfs_ioctl_search_key *key,
			const struct btrfs_ioctl_search_header *last)
{
	key->min_objectid = last->objectid;
	key->min_type = last->type;
	key->min_offset = last->offset + 1;
	if (key->min_offset == 0 && ++key->min_type > UINT8_MAX) {
		key->min_type = 0;
		key->min_objectid++;
	}
	return key->min_objectid != 0;
}

#define SEARCH_BYTES (256U << 10)

int btrfs_measure(int fd, uint64_t *ret_bytes)
{
	size_t size = sizeof(struct btrfs_ioctl_search_args_v2) + SEARCH_BYTES;
	_cleanup_free_ struct btrfs_ioctl_search_args_v2 *args = calloc(1, size);
	struct btrfs_ioctl_search_header header = { 0 };
	uint64_t total = 0;

	if (!args)
		return -ENOMEM;
	args->key.min_objectid = BTRFS_FIRST_FREE_OBJECTID;
	args->key.max_objectid = args->key.max_offset = args->key.max_transid = UINT64_MAX;
	args->key.max_type = UINT8_MAX;
	do {
		const char *at = (const char *)args->buf;

		args->key.nr_items = UINT32_MAX;
		args->buf_size = SEARCH_BYTES;
		if (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, args) < 0)
			return -errno;
		for (uint32_t i = 0; i < args->key.nr_items; i++) {
			memcpy(&header, at, sizeof(header));
			at += sizeof(header);
			total += item_bytes(&header, at);
			at += header.len;
		}
	} while (args->key.nr_items && key_advance(&args->key, &header));
	*ret_bytes = total;
	return 0;
}

int btrfs_commit(int fd)
{
	uint64_t transaction = 0;

	if (ioctl(fd, BTRFS_IOC_START_SYNC, &transaction) < 0 ||
	    ioctl(fd, BTRFS_IOC_WAIT_SYNC, &transaction) < 0)
		return -errno;
	return 0;
}

int btrfs_size(int fd, uint64_t *ret_bytes)
{
	struct btrfs_ioctl_dev_info_args args = { .devid = 1 };

	if (ioctl(fd, BTRFS_IOC_DEV_INFO, &args) < 0)
		return -errno;
	*ret_bytes = args.total_bytes;
	return 0;
}

int btrfs_resize(int fd, uint64_t bytes)
{
	struct btrfs_ioctl_vol_args args = { .fd = 0 };

	(void)snprintf(args.name, sizeof(args.name), "1:%" PRIu64, bytes);
	return ioctl(fd, BTRFS_IOC_RESIZE, &args) < 0 ? -errno : 0;
}
