/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of a watch: a tree of names, indexed by inotify's watch numbers, so that a
 * renamed directory moves with everything below it.
 */
#ifndef CAY_TOOLS_WATCH_NODES_H
#define CAY_TOOLS_WATCH_NODES_H

#include "base/macro.h"
#include "base/str.h"

struct node {
	struct node *parent, *child, *next; /* next: sibling */
	struct node *by_wd;		    /* next in its bucket */
	int wd;
	/* Names that a scan reported and whose own event may still be pending: NUL-separated. */
	char *told;
	size_t told_bytes;
	char name[]; /* "" at the root */
};

#define NODES_BUCKETS 4096
/* Owner: the watch. */
struct nodes {
	struct node *root;
	struct node *buckets[NODES_BUCKETS];
	size_t count;
};

struct node *nodes_add(struct nodes *nodes, struct node *parent, const char *name, int wd);
struct node *nodes_find(const struct nodes *nodes, int wd);
struct node *node_child(const struct node *parent, const char *name);
int nodes_move(struct nodes *nodes, struct node **node, struct node *parent,
	       const char *name) _must_check_;
/* Removes a node with all below it; on_gone is called for each watch number. */
void nodes_remove(struct nodes *nodes, struct node *node, void (*on_gone)(void *arg, int wd),
		  void *arg);
/* The path of name in node ("": the node itself). -ENAMETOOLONG. */
int node_path(const struct node *node, const char *name, char *dst, size_t size,
	      struct str *ret) _must_check_;

void node_tell(struct node *node, const char *name);	 /* remembers that the name was reported */
bool node_was_told(struct node *node, const char *name); /* and forgets it */

#endif
