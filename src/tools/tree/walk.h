/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes through trees of any depth without recursion. A descent holds the open directories on the
 * way down: the nearest ones by descriptor, those further up by device and inode, to be opened
 * again through ".." and compared, so that a tree that is moved about meanwhile never leads the
 * walk to somewhere it did not come from.
 */
#ifndef CAY_TOOLS_TREE_WALK_H
#define CAY_TOOLS_TREE_WALK_H

#include <sys/types.h>

#include "tools/op.h"

struct descent_level {
	dev_t dev;
	ino_t ino;
	int fd; /* -1: closed meanwhile */
};

struct descent {
	struct descent_level *levels;
	size_t depth; /* levels in use; 0: not begun */
	size_t capacity;
};

int descent_begin(struct descent *d, int dir_fd) _must_check_; /* takes dir_fd on success */
void descent_end(struct descent *d);
int descent_fd(const struct descent *d);
/* Goes into a directory by name, never through a link. */
int descent_enter(struct descent *d, const char *name) _must_check_;
/* Goes back up. -ESTALE: the way back is not the way that was come. */
int descent_leave(struct descent *d) _must_check_;

/* One entry on the way. */
struct walk_item {
	int dir_fd;
	const char *name;
	struct str path;    /* relative to where the walk began; NUL-terminated */
	unsigned depth;	    /* 1: directly below */
	unsigned char type; /* DT_*, DT_UNKNOWN resolved */
	bool leaving;	    /* a directory that was entered is done; name and path are its own */
};

/* Names of a directory, sorted by bytes. */
struct walk_level {
	char *names; /* type byte, name, NUL; ... */
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
	size_t last;	   /* where the last item's name begins in path */
	bool cut;	   /* a directory had more names than are held */
	bool pending;	   /* the last item may be entered */
};

int walk_begin(struct walk *w, int dir_fd) _must_check_; /* takes dir_fd on success */
void walk_end(struct walk *w);
/* 1: an item; 0: that was all; -errno. */
int walk_next(struct walk *w, struct walk_item *ret) _must_check_;
/* Goes into the directory that walk_next() gave last. -ENAMETOOLONG: the path grew too long. */
int walk_enter(struct walk *w) _must_check_;
/* Leaves out what is left of the directory that was entered last. */
void walk_skip(struct walk *w);
/* On /proc, /sys and the like: files there can block, and have no end. */
bool walk_is_synthetic(int fd);

#endif
