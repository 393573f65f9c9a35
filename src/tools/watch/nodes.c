/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/watch/nodes.h"

#include <errno.h>

#define TOLD_MAX_BYTES 65536

static struct node **bucket(struct nodes *nodes, int wd)
{
	return &nodes->buckets[(unsigned)wd % NODES_BUCKETS];
}

static void attach(struct node *node, struct node *parent)
{
	node->parent = parent;
	node->next = NULL;
	if (parent) {
		node->next = parent->child;
		parent->child = node;
	}
}

static void detach(struct node *node)
{
	struct node **at;

	if (!node->parent)
		return;
	for (at = &node->parent->child; *at != node; at = &(*at)->next)
		;
	*at = node->next;
	node->parent = NULL;
}

struct node *nodes_add(struct nodes *nodes, struct node *parent, const char *name, int wd)
{
	size_t n = strlen(name) + 1;
	struct node *node = calloc(1, sizeof(*node) + n);

	if (!node)
		return NULL;
	memcpy(node->name, name, n);
	node->wd = wd;
	node->by_wd = *bucket(nodes, wd);
	*bucket(nodes, wd) = node;
	attach(node, parent);
	if (!parent)
		nodes->root = node;
	nodes->count++;
	return node;
}

struct node *nodes_find(const struct nodes *nodes, int wd)
{
	struct node *node = nodes->buckets[(unsigned)wd % NODES_BUCKETS];

	while (node && node->wd != wd)
		node = node->by_wd;
	return node;
}

struct node *node_child(const struct node *parent, const char *name)
{
	struct node *node = parent->child;

	while (node && strcmp(node->name, name) != 0)
		node = node->next;
	return node;
}

static void unlink_wd(struct nodes *nodes, struct node *node)
{
	struct node **at = bucket(nodes, node->wd);

	while (*at != node)
		at = &(*at)->by_wd;
	*at = node->by_wd;
}

int nodes_move(struct nodes *nodes, struct node **moved, struct node *parent, const char *name)
{
	struct node *old = *moved, *node, *child;
	size_t n = strlen(name) + 1;

	for (const struct node *up = parent; up; up = up->parent)
		if (up == old)
			return -ELOOP; /* the kernel does not allow it */
	node = calloc(1, sizeof(*node) + n);
	if (!node)
		return -ENOMEM;
	*node = *old;
	memcpy(node->name, name, n);
	detach(old);
	unlink_wd(nodes, old);
	node->by_wd = *bucket(nodes, node->wd);
	*bucket(nodes, node->wd) = node;
	for (child = node->child; child; child = child->next)
		child->parent = node;
	attach(node, parent);
	free(old);
	*moved = node;
	return 0;
}

void nodes_remove(struct nodes *nodes, struct node *node, void (*on_gone)(void *arg, int wd),
		  void *arg)
{
	struct node *top = node, *up;

	detach(top);
	/* Leaves first, without recursion, because a hostile tree may be deep. */
	for (;;) {
		while (node->child)
			node = node->child;
		up = node == top ? NULL : node->parent;
		if (up)
			up->child = node->next;
		unlink_wd(nodes, node);
		nodes->count--;
		if (nodes->root == node)
			nodes->root = NULL;
		on_gone(arg, node->wd);
		free(node->told);
		free(node);
		if (!up)
			return;
		node = up;
	}
}

int node_path(const struct node *node, const char *name, char *dst, size_t size, struct str *ret)
{
	size_t at = size, n = strlen(name);

	if (n > at)
		return -ENAMETOOLONG;
	at -= n;
	memcpy(dst + at, name, n);
	for (; node && node->name[0]; node = node->parent) {
		n = strlen(node->name);
		if (at < n + 1)
			return -ENAMETOOLONG;
		if (at < size)
			dst[--at] = '/';
		at -= n;
		memcpy(dst + at, node->name, n);
	}
	*ret = (struct str){ dst + at, size - at };
	return 0;
}

void node_tell(struct node *node, const char *name)
{
	size_t n = strlen(name) + 1;
	char *told;

	if (node->told_bytes + n > TOLD_MAX_BYTES)
		return; /* it may then be reported twice */
	told = realloc(node->told, node->told_bytes + n);
	if (!told)
		return;
	node->told = told;
	memcpy(told + node->told_bytes, name, n);
	node->told_bytes += n;
}

bool node_was_told(struct node *node, const char *name)
{
	for (size_t at = 0; at < node->told_bytes;) {
		size_t n = strlen(node->told + at) + 1;

		if (strcmp(node->told + at, name) == 0) {
			node->told_bytes -= n;
			memmove(node->told + at, node->told + at + n, node->told_bytes - at);
			return true;
		}
		at += n;
	}
	return false;
}
