/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks trees of any depth without recursion. A descent keeps the directories on its path: the
 * nearest ones by descriptor, those further up by device and inode. The latter are opened again
 * through ".." and compared, so a tree that is moved meanwhile never leads the walk elsewhere.
 */
#ifndef CAY_TOOLS_TREE_WALK_H
#define CAY_TOOLS_TREE_WALK_H

#include <sys/types.h>

#include "tools/op.h"

struct descent_level {
	dev_t dev;
	ino_t ino;
	int fd; /* -1: closed to save descriptors */
};

struct descent {
	struct descent_level *levels;
	size_t depth; /* levels in use; 0: not started */
	size_t capacity;
};

int descent_begin(struct descent *d, int dir_fd) _must_check_; /* takes dir_fd on success */
void descent_end(struct descent *d);
int descent_fd(const struct descent *d);
/* Enters a directory by name, never through a link. */
int descent_enter(struct descent *d, const char *name) _must_check_;
/* Returns to the parent. -ESTALE: it is not the directory that the descent came from. */
int descent_leave(struct descent *d) _must_check_;

/* One entry of the walk. */
struct walk_item {
	int dir_fd;
	const char *name;
	struct str path;    /* relative to the start of the walk; NUL-terminated */
	unsigned depth;	    /* 1: directly below */
	unsigned char type; /* DT_*, DT_UNKNOWN resolved */
	bool leaving;	    /* the end of a directory that was entered; name and path are its own */
};

/* Names of a directory, sorted by bytes. */
struct walk_level {
	char *names; /* type byte, name, NUL; repeated */
	uint32_t *order;
	size_t count, next, bytes;
	size_t path_len;
};

struct walk {
	struct descent descent;
	struct walk_level *levels;
	size_t capacity;
	char path[TOOL_PATH_MAX + 1];
	size_t held_bytes; /* of names, all levels */
	size_t last;	   /* position of the last item's name in path */
	bool cut;	   /* a directory had more names than the limit */
	bool pending;	   /* the last item may be entered */
};

int walk_begin(struct walk *w, int dir_fd) _must_check_; /* takes dir_fd on success */
void walk_end(struct walk *w);
/* 1: an item; 0: end; -errno. */
int walk_next(struct walk *w, struct walk_item *ret) _must_check_;
/* Enters the directory that walk_next() returned last. -ENAMETOOLONG: the path is too long. */
int walk_enter(struct walk *w) _must_check_;
/* Skips the rest of the directory that was entered last. */
void walk_skip(struct walk *w);
/* On /proc, /sys and similar: files there can block or have no end. */
bool walk_is_synthetic(int fd);

#endif
