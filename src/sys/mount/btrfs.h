/* SPDX-License-Identifier: Apache-2.0 */
/*
 * btrfs subvolumes and their quotas, with which the warden enforces disk_size_mb and removes
 * volumes without walking them. The caller owns all descriptors.
 */
#ifndef CAY_SYS_MOUNT_BTRFS_H
#define CAY_SYS_MOUNT_BTRFS_H

#include "base/macro.h"

bool btrfs_is(int fd);
enum btrfs_quota {
	/* Linux 6.7: a volume counts what it wrote, as long as any copy refers to it */
	BTRFS_QUOTA_SIMPLE,
	BTRFS_QUOTA_GROUPS, /* a volume counts everything in it, shared or not */
};
/*
 * Enables simple quotas if requested and supported, otherwise group quotas. A quota that is already
 * enabled stays as it is.
 */
int btrfs_quota_enable(int fd, bool simple, enum btrfs_quota *ret) _must_check_;
int btrfs_subvolume_make(int dir_fd, const char *name) _must_check_;
int btrfs_subvolume_remove(int dir_fd, const char *name) _must_check_;
/* Limits the subvolume that fd is in. */
int btrfs_limit(int fd, uint64_t bytes) _must_check_;
/* What the quota counts for the subvolume that fd is in, as of the last commit. */
int btrfs_usage(int fd, uint64_t *ret_bytes) _must_check_;

/* Opens the directory of quota groups of the file system that fd is in; fs_fd is "fs" in sysfs. */
int btrfs_groups_open(int fs_fd, int fd, int *ret_fd) _must_check_;
int btrfs_group_id(int fd, uint64_t *ret) _must_check_; /* of the subvolume that fd is in */
/* Opens the file from which read(2) returns the value of btrfs_usage(). */
int btrfs_group_open_usage(int groups_fd, uint64_t id, int *ret_fd) _must_check_;

/* Of a file system on one device: its size, which may be less than the device's. */
int btrfs_size(int fd, uint64_t *ret_bytes) _must_check_;
int btrfs_resize(int fd, uint64_t bytes) _must_check_; /* waits for data that has to be moved */

/*
 * Creates a copy-on-write snapshot of the subvolume at fd as dir_fd/name. It is on disk when this
 * returns.
 */
int btrfs_snapshot(int fd, int dir_fd, const char *name, bool read_only) _must_check_;

/* Distinguishes a subvolume from every other, and from itself with a changed file. */
struct btrfs_identity {
	uint8_t uuid[16];
	uint64_t changed; /* last transaction that changed a file; copying does not change it */
	uint64_t created;
	bool read_only;
};
int btrfs_identify(int fd, struct btrfs_identity *ret) _must_check_;
/*
 * Sums the size of all files of a subvolume with their metadata, shared or not, by inspecting each.
 */
int btrfs_measure(int fd, uint64_t *ret_bytes) _must_check_;
int btrfs_set_read_only(int fd) _must_check_; /* the subvolume, permanently */
/*
 * Writes the tree to disk with all changes so far, except file contents that have not been written
 * out yet.
 */
int btrfs_commit(int fd) _must_check_;

#endif
