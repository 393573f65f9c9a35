/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch. A directory is watched before it is read, so an entry that appears in between is seen by
 * one of the two. READY is sent when the whole tree is covered and the events queued until then
 * were processed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

#include "sys/syscalls.h"
#include "tools/tree/entry.h"
#include "tools/content/temp.h"
#include "tools/watch/watch.h"

#define HELD_MS 20
#define ROOT_CHECK_MS 500
#define EVENT_BYTES 65536

static void forget_wd(void *arg, int wd)
{
	const struct watch *w = arg;

	(void)inotify_rm_watch(w->inotify_fd, wd);
}

static void send(struct watch *w, enum tool_change change, enum tool_kind kind, bool attributes,
		 struct str path, struct str from)
{
	struct tool_event event = {
		.change = change, .kind = kind, .attributes = attributes, .path = path, .from = from
	};
	struct timespec now;

	if (w->quiet)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	event.at_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	op_put_event(w->op, &event);
	w->op->end.entries++;
}

void watch_send_name(struct watch *w, enum tool_change change, enum tool_kind kind, bool attributes,
		     const struct node *node, const char *name)
{
	struct str path;

	if (w->only) {
		if (strcmp(w->only, name) == 0)
			send(w, change, kind, attributes, STR_LIT(""), STR_LIT(""));
		return;
	}
	if (node_path(node, name, w->path, sizeof(w->path), &path) == 0)
		send(w, change, kind, attributes, path, STR_LIT(""));
	else
		w->op->end.skipped_deep++;
}

/* The other half did not arrive: the entry was moved out of the watched tree. */
static void release_held(struct watch *w, size_t i)
{
	struct held held = w->held[i];
	struct node *node = nodes_find(&w->nodes, held.wd), *child;

	memmove(&w->held[i], &w->held[i + 1], (w->held_count - i - 1) * sizeof(w->held[0]));
	w->held_count--;
	if (!node || temp_is_name(held.name))
		return;
	watch_send_name(w, TOOL_DELETED, held.dir ? TOOL_KIND_DIRECTORY : TOOL_KIND_UNKNOWN, false,
			node, held.name);
	child = held.dir ? node_child(node, held.name) : NULL;
	if (child)
		nodes_remove(&w->nodes, child, forget_wd, w);
}

static void hold(struct watch *w, const struct inotify_event *e)
{
	struct held *held;

	if (w->held_count == HELD_MAX)
		release_held(w, 0);
	held = &w->held[w->held_count++];
	*held = (struct held){ .cookie = e->cookie, .wd = e->wd, .dir = e->mask & IN_ISDIR };
	(void)snprintf(held->name, sizeof(held->name), "%s", e->name);
}

/* The kind of a new name; links are not followed. */
static enum tool_kind kind_of(struct watch *w, const struct node *node, const char *name, bool dir)
{
	char path[PATH_MAX];
	struct stat st;
	struct str text;
	int fd;

	if (dir)
		return TOOL_KIND_DIRECTORY;
	if (node_path(node, name, path, sizeof(path) - 1, &text) < 0)
		return TOOL_KIND_UNKNOWN;
	memmove(path, text.p, text.n);
	path[text.n] = '\0';
	fd = sys_openat2(w->root_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return TOOL_KIND_UNKNOWN;
	if (fstat(fd, &st) < 0)
		st.st_mode = 0;
	(void)close(fd);
	return entry_kind(st.st_mode);
}

/*
 * Our own operations publish from temporary names, which are not reported: a file has new content,
 * and anything else is reported as new.
 */
static int on_published(struct watch *w, struct node *node, const struct inotify_event *e)
{
	bool dir = e->mask & IN_ISDIR;
	enum tool_kind kind = kind_of(w, node, e->name, dir);
	struct node *old = dir ? node_child(node, e->name) : NULL;

	if (old)
		nodes_remove(&w->nodes, old, forget_wd, w);
	watch_send_name(w, kind == TOOL_KIND_FILE ? TOOL_MODIFIED : TOOL_CREATED, kind, false, node,
			e->name);
	return dir ? watch_new_directory(w, node, e->name) : 0;
}

/* MOVED_TO: with its other half a rename, otherwise a new entry. */
static int on_moved_to(struct watch *w, struct node *node, const struct inotify_event *e)
{
	bool dir = e->mask & IN_ISDIR;
	struct str path, from;
	size_t i = 0;

	while (i < w->held_count && w->held[i].cookie != e->cookie)
		i++;
	if (i < w->held_count) {
		struct held held = w->held[i];
		struct node *old = nodes_find(&w->nodes, held.wd), *moved;

		memmove(&w->held[i], &w->held[i + 1], (w->held_count - i - 1) * sizeof(held));
		w->held_count--;
		if (temp_is_name(e->name)) /* the replaced entry, which is deleted next */
			return 0;
		if (temp_is_name(held.name))
			return on_published(w, node, e);
		if (old && !w->only &&
		    node_path(node, e->name, w->path, sizeof(w->path), &path) == 0 &&
		    node_path(old, held.name, w->from, sizeof(w->from), &from) == 0)
			send(w, TOOL_RENAMED, kind_of(w, node, e->name, dir), false, path, from);
		else if (old && w->only) {
			watch_send_name(w, TOOL_DELETED, TOOL_KIND_UNKNOWN, false, old, held.name);
			watch_send_name(w, TOOL_CREATED, kind_of(w, node, e->name, dir), false,
					node, e->name);
		}
		moved = old && dir ? node_child(old, held.name) : NULL;
		if (moved)
			return nodes_move(&w->nodes, &moved, node, e->name) == -ENOMEM
				       ? op_fail_errno(w->op, ENOMEM, STR_LIT(""))
				       : 0;
		return dir ? watch_new_directory(w, node, e->name) : 0;
	}
	if (!node_was_told(node, e->name))
		watch_send_name(w, TOOL_CREATED, kind_of(w, node, e->name, dir), false, node,
				e->name);
	return dir ? watch_new_directory(w, node, e->name) : 0;
}

static int on_deleted(struct watch *w, struct node *node, const struct inotify_event *e)
{
	struct node *child = e->mask & IN_ISDIR ? node_child(node, e->name) : NULL;

	(void)node_was_told(node, e->name);
	watch_send_name(w, TOOL_DELETED,
			e->mask & IN_ISDIR ? TOOL_KIND_DIRECTORY : TOOL_KIND_UNKNOWN, false, node,
			e->name);
	if (child)
		nodes_remove(&w->nodes, child, forget_wd, w);
	return 0;
}

/* Events were lost: directories among them must be found again; other losses are unknown. */
static int on_overflow(struct watch *w)
{
	bool quiet = w->quiet;
	int fd, r;

	while (w->held_count)
		release_held(w, 0);
	send(w, TOOL_OVERFLOW, TOOL_KIND_UNKNOWN, false, STR_LIT(""), STR_LIT(""));
	if (!w->recursive)
		return 0;
	fd = openat(w->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	w->quiet = true;
	r = watch_cover_tree(w, fd, w->nodes.root);
	w->quiet = quiet;
	return r;
}

/*
 * In the kernel's events, a file without a name (O_TMPFILE) is called "#INODE": it is reported when
 * it gets its name.
 */
static bool is_nameless(struct watch *w, const struct node *node, const char *name)
{
	return name[0] == '#' && name[1] != '\0' &&
	       name[1 + strspn(name + 1, "0123456789")] == '\0' &&
	       kind_of(w, node, name, false) == TOOL_KIND_UNKNOWN;
}

static int on_named(struct watch *w, struct node *node, const struct inotify_event *e)
{
	bool dir = e->mask & IN_ISDIR;

	for (size_t i = 0; i < w->held_count; i++)
		if (w->held[i].wd == e->wd && w->held[i].cookie != e->cookie &&
		    strcmp(w->held[i].name, e->name) == 0)
			release_held(w, i--);
	if (e->mask & IN_MOVED_FROM)
		hold(w, e);
	else if (e->mask & IN_MOVED_TO)
		return on_moved_to(w, node, e);
	else if (temp_is_name(e->name))
		return 0;
	else if (e->mask & IN_DELETE)
		return on_deleted(w, node, e);
	else if (e->mask & IN_CREATE) {
		if (!node_was_told(node, e->name))
			watch_send_name(w, TOOL_CREATED, kind_of(w, node, e->name, dir), false,
					node, e->name);
		return dir ? watch_created_directory(w, node, e->name) : 0;
	} else if (e->mask & (IN_MODIFY | IN_ATTRIB) && !is_nameless(w, node, e->name)) {
		watch_send_name(w, TOOL_MODIFIED, dir ? TOOL_KIND_DIRECTORY : TOOL_KIND_FILE,
				e->mask & IN_ATTRIB, node, e->name);
	}
	return 0;
}

static void say_gone(struct watch *w)
{
	while (w->held_count)
		release_held(w, 0);
	w->quiet = false;
	send(w, TOOL_GONE, TOOL_KIND_UNKNOWN, false, STR_LIT(""), STR_LIT(""));
	w->ended = true;
}

static int on_event(struct watch *w, const struct inotify_event *e)
{
	struct node *node;

	if (e->mask & IN_Q_OVERFLOW)
		return on_overflow(w);
	node = nodes_find(&w->nodes, e->wd);
	if (!node)
		return 0;
	if (e->len)
		return on_named(w, node, e);
	if (node == w->nodes.root &&
	    e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
		say_gone(w);
	} else if (e->mask & IN_IGNORED) {
		nodes_remove(&w->nodes, node, forget_wd, w);
	} else if (node == w->nodes.root && e->mask & IN_ATTRIB && !w->only) {
		send(w, TOOL_MODIFIED, TOOL_KIND_DIRECTORY, true, STR_LIT(""), STR_LIT(""));
	}
	return 0;
}

/* Reads queued events. 0: no more for now; -1: failed. */
static int drain(struct watch *w)
{
	static _Alignas(struct inotify_event) char buffer[EVENT_BYTES];

	for (;;) {
		ssize_t n = read(w->inotify_fd, buffer, sizeof(buffer));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		for (ssize_t at = 0; at < n && !w->ended;) {
			const struct inotify_event *e = (const void *)(buffer + at);

			if (on_event(w, e) < 0)
				return -1;
			at += (ssize_t)(sizeof(*e) + e->len);
		}
		if (w->ended)
			return 0;
	}
}

/* Our descriptor keeps the directory alive, so its removal causes no event. */
static void check_root(struct watch *w)
{
	struct stat st;

	if (fstat(w->root_fd, &st) < 0 || st.st_nlink == 0)
		say_gone(w);
}

/* The other end of a pipe belongs to the reader of the events: when it closes, the run ends. */
static bool input_counts(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

static bool input_ended(void)
{
	char byte;
	ssize_t n = read(STDIN_FILENO, &byte, 1);

	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static int follow(struct watch *w)
{
	struct pollfd fds[3] = { { .fd = w->inotify_fd, .events = POLLIN },
				 { .fd = STDOUT_FILENO },
				 { .fd = input_counts() ? STDIN_FILENO : -1, .events = POLLIN } };

	while (!w->ended) {
		int n = poll(fds, 3, w->held_count ? HELD_MS : ROOT_CHECK_MS);

		if (n < 0 && errno != EINTR)
			return op_fail_errno(w->op, errno, STR_LIT(""));
		if (n > 0 && fds[1].revents)
			_exit(1); /* the reader is gone */
		if (n > 0 && fds[2].revents && input_ended())
			return 0;
		if (n == 0)
			while (w->held_count)
				release_held(w, 0);
		if (drain(w) < 0)
			return -1;
		if (n == 0 && !w->ended)
			check_root(w);
		op_flush(w->op);
	}
	return 0;
}

/* Opens the watched path: a directory, or the directory of a file and its name. */
static int open_root(struct watch *w, struct str path, struct leaf *leaf)
{
	struct stat st;
	int r = path_open(&w->op->place, path, O_PATH, &w->root_fd);

	if (r < 0)
		return r;
	if (fstat(w->root_fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return 0;
	(void)close(w->root_fd);
	w->root_fd = -1;
	r = path_leaf_follow(&w->op->place, path, leaf);
	if (r < 0)
		return r;
	w->root_fd = TAKE_FD(leaf->dir_fd);
	w->only = leaf->name;
	w->recursive = false;
	return 0;
}

static int begin(struct watch *w)
{
	struct node *root = NULL;
	int fd, r;

	w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->inotify_fd < 0)
		return errno == EMFILE ? watch_too_many(w, 0)
				       : op_fail_errno(w->op, errno, STR_LIT(""));
	r = watch_add(w, w->root_fd, NULL, "", &root);
	if (r < 0)
		return r == -1 ? -1 : op_fail_errno(w->op, r, STR_LIT(""));
	w->quiet = true;
	if (w->recursive) {
		fd = openat(w->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return op_fail_errno(w->op, errno, STR_LIT(""));
		if (watch_cover_tree(w, fd, root) < 0)
			return -1;
	}
	if (drain(w) < 0)
		return -1;
	w->quiet = false;
	w->op->end.files = w->nodes.count;
	op_put_ready(w->op);
	return 0;
}

int op_watch(struct op *op)
{
	static struct watch w = { .inotify_fd = -1, .root_fd = -1 };
	static struct leaf leaf = { .dir_fd = -1 };
	struct str path;
	int r;

	w.op = op;
	if (op_needed(op, "path", &path) < 0 || op_flag(op, "recursive", false, &w.recursive) < 0 ||
	    op_number(op, "max_watches", 8192, 1, 1U << 20, &w.max_watches) < 0 ||
	    op_args_end(op) < 0)
		return -1;
	r = open_root(&w, path, &leaf);
	if (r < 0)
		return op_fail_errno(op, r, path);
	if (begin(&w) < 0)
		return -1;
	return follow(&w);
}
