/* SPDX-License-Identifier: Apache-2.0 */
/* One run of watch: the events (watch.c) and the watched directories (add.c). */
#ifndef CAY_TOOLS_WATCH_WATCH_H
#define CAY_TOOLS_WATCH_WATCH_H

#include <limits.h>

#include "tools/watch/nodes.h"
#include "tools/tree/walk.h"

#define HELD_MAX 64 /* halves of renames that wait for the other half */

/* A name that was removed by a rename; the next event has the new name, if there is one. */
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
	bool created;	  /* what is found was created during the watch, not moved to its place */
	const char *only; /* if a file is watched: its name in the root */
	uint64_t max_watches;
	struct nodes nodes;
	struct held held[HELD_MAX];
	size_t held_count;
	char path[TOOL_PATH_MAX], from[TOOL_PATH_MAX];
};

void watch_send_name(struct watch *w, enum tool_change change, enum tool_kind kind, bool attributes,
		     const struct node *node, const char *name);
int watch_too_many(struct watch *w, uint64_t limit);
/* Watches an open directory. 1: new; 0: it was already watched; -1: failed; otherwise -errno. */
int watch_add(struct watch *w, int dir_fd, struct node *parent, const char *name,
	      struct node **ret);
/* Watches everything below a directory (taken) that is watched; reports each entry found. */
int watch_cover_tree(struct watch *w, int dir_fd, struct node *node);
/* A new directory: opened by its path of names from the root, without following links. */
int watch_new_directory(struct watch *w, struct node *parent, const char *name);
/* Likewise, if it was created and not moved here: what is in its files was written just now. */
int watch_created_directory(struct watch *w, struct node *parent, const char *name);

#endif
