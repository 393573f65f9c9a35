/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "sys/syscalls.h"
#include "wire/tool.h"

#define LINKS_MAX 40	/* same as the kernel */
#define AGAIN_MAX 10000 /* a concurrent rename makes openat2 start over */

static int open2(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < AGAIN_MAX; i++)
		r = sys_openat2(dir_fd, path, (uint64_t)(unsigned)(flags | O_CLOEXEC),
				resolve | RESOLVE_NO_MAGICLINKS);
	return r;
}

void place_close(struct place *place)
{
	if (place->root_fd >= 0)
		(void)close(place->root_fd);
	if (place->base_fd >= 0)
		(void)close(place->base_fd);
	*place = PLACE_INIT;
}

int place_open(struct place *place, const char *root, const char *base)
{
	*place = (struct place){ -1, AT_FDCWD };
	if (root) {
		int fd = open2(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0);

		if (fd < 0)
			return fd;
		place->root_fd = fd;
		return 0;
	}
	if (base) {
		int fd = open2(AT_FDCWD, base, O_PATH | O_DIRECTORY, 0);

		if (fd < 0)
			return fd;
		place->base_fd = fd;
	}
	return 0;
}

void leaf_done(struct leaf *leaf)
{
	if (leaf->dir_fd >= 0)
		(void)close(leaf->dir_fd);
	leaf->dir_fd = -1;
}

int path_check(struct str path)
{
	if (path.n == 0 || memchr(path.p, '\0', path.n))
		return -EINVAL;
	return path.n > TOOL_PATH_MAX ? -ENAMETOOLONG : 0;
}

/*
 * The kernel accepts PATH_MAX at a time. A longer path is resolved in pieces that end at a slash,
 * each from the result of the previous one, as the kernel itself would do.
 */
static int open_in_pieces(int dir_fd, struct str path, int flags, uint64_t resolve)
{
	_cleanup_close_ int at = -1;
	char piece[PATH_MAX];

	while (path.n >= PATH_MAX) {
		size_t n = PATH_MAX - 1;
		int fd;

		while (n > 0 && path.p[n] != '/')
			n--;
		if (n == 0)
			return -ENAMETOOLONG;
		memcpy(piece, path.p, n);
		piece[n] = '\0';
		fd = open2(at >= 0 ? at : dir_fd, piece, O_PATH | O_DIRECTORY, resolve);
		if (fd < 0)
			return fd;
		if (at >= 0)
			(void)close(at);
		at = fd;
		for (; path.n > n && path.p[n] == '/'; n++)
			;
		path.p += n;
		path.n -= n;
	}
	if (path.n == 0)
		return open2(at, ".", flags, resolve);
	memcpy(piece, path.p, path.n);
	piece[path.n] = '\0';
	return open2(at >= 0 ? at : dir_fd, piece, flags, resolve);
}

static int open_at(const struct place *place, int dir_fd, struct str path, int flags)
{
	if (place->root_fd < 0)
		return open_in_pieces(dir_fd, path, flags, 0);
	/* In pieces, the directory of a piece would become the root that ".." stops at. */
	if (path.n >= PATH_MAX)
		return -ENAMETOOLONG;
	return open_in_pieces(place->root_fd, path, flags, RESOLVE_IN_ROOT);
}

int path_open(const struct place *place, struct str path, int flags, int *ret_fd)
{
	int r = path_check(path);

	if (r < 0)
		return r;
	r = open_at(place, place->base_fd, path, flags);
	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}

/* Splits the path into the directory and the last name; a last "." or ".." is not a name. */
static void split(struct str path, struct str *ret_dir, struct str *ret_name, bool *ret_slash)
{
	size_t n = path.n, start;

	while (n > 0 && path.p[n - 1] == '/')
		n--;
	*ret_slash = n < path.n;
	for (start = n; start > 0 && path.p[start - 1] != '/'; start--)
		;
	*ret_name = (struct str){ path.p + start, n - start };
	*ret_dir = (struct str){ path.p, start };
	if (n == 0 || str_is(*ret_name, ".") || str_is(*ret_name, "..")) {
		*ret_dir = path;
		ret_name->n = 0;
	}
	if (ret_dir->n == 0)
		*ret_dir = STR_LIT(".");
}

static int fill_leaf(int dir_fd, struct str name, bool slash, struct leaf *ret)
{
	struct stat st;
	int r;

	if (name.n > NAME_MAX) {
		(void)close(dir_fd);
		return -ENAMETOOLONG;
	}
	if (fstat(dir_fd, &st) < 0) {
		r = -errno;
		(void)close(dir_fd);
		return r;
	}
	*ret = (struct leaf){
		.dir_fd = dir_fd, .wants_dir = slash, .dir_dev = st.st_dev, .dir_ino = st.st_ino
	};
	memcpy(ret->name, name.p, name.n);
	return 0;
}

static int leaf_at(const struct place *place, int dir_fd, struct str path, struct leaf *ret)
{
	struct str dir, name;
	bool slash;
	int r = path_check(path);

	if (r < 0)
		return r;
	split(path, &dir, &name, &slash);
	r = open_at(place, dir_fd, dir, O_PATH | O_DIRECTORY);
	if (r < 0)
		return r;
	return fill_leaf(r, name, slash, ret);
}

int path_leaf(const struct place *place, struct str path, struct leaf *ret)
{
	return leaf_at(place, place->base_fd, path, ret);
}

int path_leaf_follow(const struct place *place, struct str path, struct leaf *ret)
{
	struct leaf leaf = LEAF_INIT, next;
	char target[PATH_MAX];
	ssize_t n;
	int r = path_leaf(place, path, &leaf);

	if (r < 0)
		return r;
	for (int links = 0;; links++) {
		n = leaf.name[0] ? readlinkat(leaf.dir_fd, leaf.name, target, sizeof(target)) : -1;
		if (n < 0)
			break; /* not a link, or missing: the caller handles both */
		/*
		 * A relative link under a root cannot be passed to the kernel without the path that
		 * led here.
		 */
		if (links == LINKS_MAX || n == (ssize_t)sizeof(target) ||
		    (place->root_fd >= 0 && target[0] != '/')) {
			leaf_done(&leaf);
			return -ELOOP;
		}
		r = leaf_at(place, leaf.dir_fd, (struct str){ target, (size_t)n }, &next);
		leaf_done(&leaf);
		if (r < 0)
			return r;
		leaf = next;
	}
	*ret = leaf;
	return 0;
}

/* Creates one directory with its owner; an existing one is accepted. */
static int make_dir(int dir_fd, const char *name, struct path_owner owner)
{
	if (mkdirat(dir_fd, name, 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (owner.uid != (uid_t)-1 &&
	    fchownat(dir_fd, name, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* Creates path[0..n) below from; each prefix is resolved again so that links keep their meaning. */
static int make_each(int from_fd, struct str path, uint64_t resolve, struct path_owner owner)
{
	char prefix[PATH_MAX];
	size_t at = 0;

	if (path.n >= sizeof(prefix))
		return -ENAMETOOLONG;
	memcpy(prefix, path.p, path.n);
	while (at < path.n) {
		_cleanup_close_ int dir_fd = -1;
		size_t start = at;
		char name[NAME_MAX + 1];
		int r;

		while (start < path.n && path.p[start] == '/')
			start++;
		for (at = start; at < path.n && path.p[at] != '/'; at++)
			;
		if (at == start)
			break;
		if (at - start > NAME_MAX)
			return -ENAMETOOLONG;
		prefix[at] = '\0';
		dir_fd = open2(from_fd, prefix, O_PATH | O_DIRECTORY, resolve);
		prefix[at] = at < path.n ? '/' : '\0';
		if (dir_fd >= 0)
			continue;
		if (dir_fd != -ENOENT)
			return dir_fd;
		memcpy(name, path.p + start, at - start);
		name[at - start] = '\0';
		prefix[start] = '\0';
		dir_fd = open2(from_fd, start ? prefix : ".", O_PATH | O_DIRECTORY, resolve);
		prefix[start] = path.p[start];
		if (dir_fd < 0)
			return dir_fd;
		r = make_dir(dir_fd, name, owner);
		if (r < 0)
			return r;
		/* A dangling link: the next step reports the error. */
	}
	return 0;
}

int path_make_parents(const struct place *place, struct str path, struct path_owner owner)
{
	struct str dir, name;
	bool slash;
	int r = path_check(path);

	if (r < 0)
		return r;
	split(path, &dir, &name, &slash);
	r = open_at(place, place->base_fd, dir, O_PATH | O_DIRECTORY);
	if (r >= 0)
		(void)close(r);
	if (r != -ENOENT)
		return r < 0 ? r : 0;
	if (place->root_fd >= 0)
		return make_each(place->root_fd, dir, RESOLVE_IN_ROOT, owner);
	return make_each(place->base_fd, dir, 0, owner);
}

int path_leaf_beneath(int root_fd, struct str path, struct path_owner owner, struct leaf *ret)
{
	struct str dir, name;
	char text[PATH_MAX];
	bool slash;
	int r = path_check(path);

	if (r < 0)
		return r;
	split(path, &dir, &name, &slash);
	if (dir.n >= sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, dir.p, dir.n);
	text[dir.n] = '\0';
	r = open2(root_fd, text, O_PATH | O_DIRECTORY, RESOLVE_BENEATH);
	if (r == -ENOENT) {
		r = make_each(root_fd, dir, RESOLVE_BENEATH, owner);
		if (r == 0)
			r = open2(root_fd, text, O_PATH | O_DIRECTORY, RESOLVE_BENEATH);
	}
	return r < 0 ? r : fill_leaf(r, name, slash, ret);
}
