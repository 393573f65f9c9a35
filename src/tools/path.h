/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a path that somebody sent to descriptors. The kernel resolves (openat2), never through magic
 * links of /proc, and never out of a root that was given; nothing is opened by a joined string.
 */
#ifndef CAY_TOOLS_PATH_H
#define CAY_TOOLS_PATH_H

#include <sys/types.h>

#include "base/macro.h"
#include "base/str.h"

/* Where paths start. Both descriptors belong to it. */
struct place {
	int root_fd; /* -1: "/" */
	int base_fd; /* AT_FDCWD: the current directory */
};
#define PLACE_INIT ((struct place){ -1, -100 })

int place_open(struct place *place, const char *root, const char *base) _must_check_;
void place_close(struct place *place);

/* A name in an open directory. */
struct leaf {
	int dir_fd;
	char name[256]; /* "": the path names the directory itself ("/", "a/.", "..") */
	bool wants_dir; /* it ended with a slash */
	dev_t dir_dev;	/* of dir_fd */
	ino_t dir_ino;
};
#define LEAF_INIT ((struct leaf){ .dir_fd = -1 })
void leaf_done(struct leaf *leaf);
#define _cleanup_leaf_ _cleanup_(leaf_done)

/* 0, -EINVAL: empty or with a NUL; -ENAMETOOLONG. */
int path_check(struct str path) _must_check_;

/* Opens what the path leads to. flags as for open(); O_CLOEXEC is added. */
int path_open(const struct place *place, struct str path, int flags, int *ret_fd) _must_check_;

/* Opens the directory that holds the last name of the path; the name itself is not looked at. */
int path_leaf(const struct place *place, struct str path, struct leaf *ret) _must_check_;

/* The same, and where the last name is a symbolic link, what it stands for (also when missing). */
int path_leaf_follow(const struct place *place, struct str path, struct leaf *ret) _must_check_;

struct path_owner {
	uid_t uid; /* (uid_t)-1: as it comes */
	gid_t gid;
};
#define PATH_OWNER_NONE ((struct path_owner){ (uid_t)-1, (gid_t)-1 })

/* Makes the directories in front of the path's last name that are missing (0755, owner). */
int path_make_parents(const struct place *place, struct str path,
		      struct path_owner owner) _must_check_;

/*
 * Archives: the directory of a relative path strictly below root_fd, made where missing. Links on
 * the way are followed only as long as they stay inside; -EXDEV otherwise. ret as for path_leaf.
 */
int path_leaf_beneath(int root_fd, struct str path, struct path_owner owner,
		      struct leaf *ret) _must_check_;

#endif
