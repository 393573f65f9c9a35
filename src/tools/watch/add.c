/* SPDX-License-Identifier: Apache-2.0 */
/* Adds directories to the watch. Each is watched before its names are read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "sys/syscalls.h"
#include "tools/tree/entry.h"
#include "tools/content/temp.h"
#include "tools/watch/watch.h"

#define MASK                                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

int watch_too_many(struct watch *w, uint64_t limit)
{
	w->op->failed.limit = limit;
	w->op->failed.count = w->nodes.count;
	return op_fail(w->op, TOOL_TOO_MANY_WATCHES, STR_LIT(""),
		       limit ? "more directories than max_watches allows"
			     : "the host has no more inotify watches or instances");
}

int watch_add(struct watch *w, int dir_fd, struct node *parent, const char *name, struct node **ret)
{
	char self[32];
	int wd;

	if (w->nodes.count >= w->max_watches)
		return watch_too_many(w, w->max_watches);
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", dir_fd);
	wd = inotify_add_watch(w->inotify_fd, self, MASK);
	if (wd < 0 && errno == ENOSPC)
		return watch_too_many(w, 0);
	if (wd < 0)
		return errno == EPERM ? -EACCES : -errno; /* -1 has another meaning */
	*ret = nodes_find(&w->nodes, wd);
	if (*ret)
		return 0;
	*ret = nodes_add(&w->nodes, parent, name, wd);
	return *ret ? 1 : op_fail_errno(w->op, ENOMEM, STR_LIT(""));
}

/* A directory of the walk: watched before its names are read. */
static int cover(struct watch *w, struct walk *walk, const struct walk_item *item,
		 struct node *parent, struct node **ret)
{
	_cleanup_close_ int fd =
		openat(item->dir_fd, item->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	*ret = NULL;
	if (fd < 0)
		return 0; /* already removed; an event follows */
	r = watch_add(w, fd, parent, item->name, ret);
	if (r == -1)
		return -1;
	if (r < 0) {
		w->op->end.skipped_unreadable++;
		return 0;
	}
	if (!*ret || (*ret)->parent != parent)
		/* mounted twice, or being moved: it is watched where it was found first */
		return 0;
	r = walk_enter(walk);
	if (r == -ENAMETOOLONG)
		w->op->end.skipped_deep++;
	else if (r < 0)
		w->op->end.skipped_unreadable++;
	return r < 0 ? 0 : 1;
}

/*
 * An entry of a directory that appeared during the watch. If the directory was created, a file that
 * has content was written before its directory was watched: no event of the kernel reports that.
 */
static void report_found(struct watch *w, const struct walk_item *item, struct node *node)
{
	struct stat st;

	watch_send_name(w, TOOL_CREATED, entry_kind(DTTOIF(item->type)), false, node, item->name);
	node_tell(node, item->name);
	if (w->created && item->type == DT_REG &&
	    fstatat(item->dir_fd, item->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		watch_send_name(w, TOOL_MODIFIED, TOOL_KIND_FILE, false, node, item->name);
}

int watch_cover_tree(struct watch *w, int dir_fd, struct node *node)
{
	static struct walk walk;
	struct walk_item item;
	int r = node ? walk_begin(&walk, dir_fd) : -ENOENT;

	if (r < 0) {
		(void)close(dir_fd);
		w->op->end.skipped_unreadable++;
		return 0;
	}
	while (walk_next(&walk, &item) == 1) {
		struct node *child = NULL;

		if (item.leaving) {
			node = node->parent ? node->parent : node;
			continue;
		}
		if (temp_is_name(item.name))
			continue;
		if (!w->quiet)
			report_found(w, &item, node);
		if (item.type != DT_DIR || !w->recursive)
			continue;
		r = cover(w, &walk, &item, node, &child);
		if (r < 0)
			break;
		if (r == 1 && child)
			node = child;
	}
	walk_end(&walk);
	return op_failed(w->op) ? -1 : 0;
}

int watch_new_directory(struct watch *w, struct node *parent, const char *name)
{
	char path[PATH_MAX];
	struct node *node;
	struct str text;
	int fd, r;

	if (!w->recursive || node_path(parent, name, path, sizeof(path) - 1, &text) < 0)
		return 0;
	memmove(path, text.p, text.n);
	path[text.n] = '\0';
	fd = sys_openat2(w->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0) {
		if (fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
			w->op->end.skipped_unreadable++;
		return 0;
	}
	r = watch_add(w, fd, parent, name, &node);
	if (r == 1)
		return watch_cover_tree(w, fd, node);
	(void)close(fd);
	return r == -1 ? -1 : 0;
}

int watch_created_directory(struct watch *w, struct node *parent, const char *name)
{
	int r;

	w->created = true;
	r = watch_new_directory(w, parent, name);
	w->created = false;
	return r;
}
