/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves paths from requests to descriptors. The kernel resolves (openat2), never through magic
 * links of /proc, and never out of a given root; nothing is opened by a concatenated string. The
 * caller owns returned descriptors.
 */
#ifndef CAY_TOOLS_PATH_H
#define CAY_TOOLS_PATH_H

#include <sys/types.h>

#include "base/macro.h"
#include "base/str.h"

/* Where paths start. It owns both descriptors. */
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
	bool wants_dir; /* the path ended with a slash */
	dev_t dir_dev;	/* of dir_fd */
	ino_t dir_ino;
};
#define LEAF_INIT ((struct leaf){ .dir_fd = -1 })
void leaf_done(struct leaf *leaf);
#define _cleanup_leaf_ _cleanup_(leaf_done)

/* 0, -EINVAL: empty or with a NUL; -ENAMETOOLONG. */
int path_check(struct str path) _must_check_;

/* Opens the target of the path. flags as for open(); O_CLOEXEC is added. */
int path_open(const struct place *place, struct str path, int flags, int *ret_fd) _must_check_;

/* Opens the directory that contains the last name of the path; the name itself is not inspected. */
int path_leaf(const struct place *place, struct str path, struct leaf *ret) _must_check_;

/* The same, but if the last name is a symbolic link, for its target (which may be missing). */
int path_leaf_follow(const struct place *place, struct str path, struct leaf *ret) _must_check_;

struct path_owner {
	uid_t uid; /* (uid_t)-1: unchanged */
	gid_t gid;
};
#define PATH_OWNER_NONE ((struct path_owner){ (uid_t)-1, (gid_t)-1 })

/* Creates missing directories before the path's last name (0755, owner). */
int path_make_parents(const struct place *place, struct str path,
		      struct path_owner owner) _must_check_;

/*
 * For archives: the directory of a relative path strictly below root_fd, created if missing. Links
 * are followed only as long as they stay inside; otherwise -EXDEV. ret as for path_leaf.
 */
int path_leaf_beneath(int root_fd, struct str path, struct path_owner owner,
		      struct leaf *ret) _must_check_;

#endif
