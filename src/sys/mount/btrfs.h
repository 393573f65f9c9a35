/* SPDX-License-Identifier: Apache-2.0 */
/* Subvolumes and their quotas: what makes disk_size_mb real and deletion instant. */
#ifndef CAY_SYS_MOUNT_BTRFS_H
#define CAY_SYS_MOUNT_BTRFS_H

#include "base/macro.h"

bool btrfs_is(int fd);
enum btrfs_quota {
	BTRFS_QUOTA_SIMPLE, /* Linux 6.7: a volume counts what it wrote and anybody still holds */
	BTRFS_QUOTA_GROUPS, /* a volume counts everything in it, shared or not */
};
/* Simple quotas, if asked for and the kernel has them; group quotas otherwise. A quota that is on
 * already stays as it is. */
int btrfs_quota_enable(int fd, bool simple, enum btrfs_quota *ret) _must_check_;
int btrfs_subvolume_make(int dir_fd, const char *name) _must_check_;
int btrfs_subvolume_remove(int dir_fd, const char *name) _must_check_;
/* Bounds the subvolume that fd is in. */
int btrfs_limit(int fd, uint64_t bytes) _must_check_;
/* What the quota counts for the subvolume that fd is in, as of the last commit. */
int btrfs_usage(int fd, uint64_t *ret_bytes) _must_check_;

/* The directory of quota groups of the file system that fd is in; fs_fd is sysfs' "fs". */
int btrfs_groups_open(int fs_fd, int fd, int *ret_fd) _must_check_;
int btrfs_group_id(int fd, uint64_t *ret) _must_check_; /* of the subvolume that fd is in */
/* The file that shows what btrfs_usage() tells, by read(2) alone. */
int btrfs_group_open_usage(int groups_fd, uint64_t id, int *ret_fd) _must_check_;

/* Of a file system on one device: its size, which may be less than the device's. */
int btrfs_size(int fd, uint64_t *ret_bytes) _must_check_;
int btrfs_resize(int fd, uint64_t bytes) _must_check_; /* waits for data that has to be moved */

/* A copy on write of the subvolume at fd, as dir_fd/name. On disk when this returns. */
int btrfs_snapshot(int fd, int dir_fd, const char *name, bool read_only) _must_check_;

/* What tells a subvolume from every other, and from itself with one file changed. */
struct btrfs_identity {
	uint8_t uuid[16];
	uint64_t changed; /* the transaction that last touched a file; copying it touches none */
	uint64_t created;
	bool read_only;
};
int btrfs_identify(int fd, struct btrfs_identity *ret) _must_check_;
/* What the files of a subvolume take, by looking at each: shared or not, with their metadata. */
int btrfs_measure(int fd, uint64_t *ret_bytes) _must_check_;
int btrfs_set_read_only(int fd) _must_check_; /* the subvolume, for good */
/* Everything done to the tree so far is on disk; file contents not yet written out are not. */
int btrfs_commit(int fd) _must_check_;

#endif
