/* SPDX-License-Identifier: Apache-2.0 */
/* One run of watch: what happens (watch.c) and what is watched (add.c). */
#ifndef CAY_TOOLS_WATCH_WATCH_H
#define CAY_TOOLS_WATCH_WATCH_H

#include <limits.h>

#include "tools/watch/nodes.h"
#include "tools/tree/walk.h"

#define HELD_MAX 64 /* halves of renames that wait for the other one */

/* A name that went away by a rename; where to, the next event tells, or nothing does. */
struct held {
	uint32_t cookie;
	int wd;
	bool dir;
	char name[NAME_MAX + 1];
};

/* Owner: op_watch(). */
struct watch {
	struct op *op;
	int inotify_fd, root_fd;
	bool recursive, quiet, ended;
	const char *only; /* a file is watched: its name in the root */
	uint64_t max_watches;
	struct nodes nodes;
	struct held held[HELD_MAX];
	size_t held_count;
	char path[TOOL_PATH_MAX], from[TOOL_PATH_MAX];
};

void watch_send_name(struct watch *w, enum tool_change change, enum tool_kind kind, bool attributes,
		     const struct node *node, const char *name);
int watch_too_many(struct watch *w, uint64_t limit);
/* Watches an open directory. 1: new; 0: it was watched already; -1 failed; -errno else. */
int watch_add(struct watch *w, int dir_fd, struct node *parent, const char *name,
	      struct node **ret);
/* Covers everything below a directory (taken) that is watched; tells of each entry found. */
int watch_cover_tree(struct watch *w, int dir_fd, struct node *node);
/* A directory that has just come: by its path of names from the root, without any link. */
int watch_new_directory(struct watch *w, struct node *parent, const char *name);

#endif
