/* SPDX-License-Identifier: Apache-2.0 */
/* remove */
#include "tools/tree/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tools/tree/walk.h"

#define PASSES_MAX 64		      /* over a directory that other processes keep filling */
#define PENDING_MAX_BYTES (64U << 20) /* names of directories, all levels */

/* The directories of a level that are not empty, as consecutive names. */
struct level {
	char *names;
	size_t bytes, next;
	unsigned passes;
};

struct removal {
	struct descent descent;
	struct level *levels; /* one per level of descent */
	size_t capacity, held_bytes;
	uint64_t *count;
	char *bad_name;
};

static int fail(struct removal *r, const char *name, int error)
{
	(void)snprintf(r->bad_name, 256, "%s", name);
	return -error;
}

static int add_pending(struct removal *r, struct level *level, size_t *capacity, const char *name)
{
	size_t n = strlen(name) + 1;

	if (r->held_bytes + n > PENDING_MAX_BYTES)
		return 0; /* the next pass finds it again */
	if (level->bytes + n > *capacity) {
		size_t grown = MAX(*capacity * 2, 512);
		char *names = realloc(level->names, grown);

		if (!names)
			return -ENOMEM;
		level->names = names;
		*capacity = grown;
	}
	memcpy(level->names + level->bytes, name, n);
	level->bytes += n;
	r->held_bytes += n;
	return 0;
}

/*
 * Removes an entry that is not a directory, or an empty directory. 1: a directory that is not
 * empty.
 */
static int remove_one(struct removal *r, int dir_fd, const char *name, unsigned char type)
{
	if (type != DT_DIR) {
		if (unlinkat(dir_fd, name, 0) == 0)
			goto gone;
		if (errno == ENOENT)
			return 0;
		if (errno != EISDIR)
			return fail(r, name, errno);
	}
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		goto gone;
	if (errno == ENOENT)
		return 0;
	if (errno == ENOTDIR) /* it was replaced by something else */
		return unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT ? 0 : fail(r, name, errno);
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : fail(r, name, errno);
gone:
	(*r->count)++;
	return 0;
}

struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Removes everything from the current directory except directories that are not empty. */
static int scan(struct removal *r, struct level *level)
{
	static _Alignas(uint64_t) char buffer[65536];
	int fd = descent_fd(&r->descent), e = 0;
	size_t capacity = 0;
	long n;

	level->bytes = level->next = 0;
	level->names = NULL;
	level->passes++;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while (e >= 0 && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
		for (long at = 0; e >= 0 && at < n;) {
			const struct kernel_dirent *d = (const void *)(buffer + at);

			at += d->reclen;
			if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
				continue;
			e = op_stopped() ? -ECANCELED : remove_one(r, fd, d->name, d->type);
			if (e == 1)
				e = add_pending(r, level, &capacity, d->name);
		}
	return e < 0 ? e : n < 0 ? -errno : 0;
}

static int enter(struct removal *r, const char *name)
{
	size_t depth = r->descent.depth;
	int e;

	if (depth >= r->capacity) {
		size_t capacity = r->capacity ? r->capacity * 2 : 64;
		struct level *levels = realloc(r->levels, capacity * sizeof(*levels));

		if (!levels)
			return -ENOMEM;
		r->levels = levels;
		r->capacity = capacity;
	}
	e = descent_enter(&r->descent, name);
	if (e < 0)
		return e;
	r->levels[depth] = (struct level){ 0 };
	return scan(r, &r->levels[depth]);
}

static void drop_names(struct removal *r, struct level *level)
{
	r->held_bytes -= level->bytes;
	free(level->names);
	level->names = NULL;
	level->bytes = level->next = 0;
}

/*
 * Continues at the deepest level: enters its next directory, or goes up and removes it. The level
 * of the start (index 0) is the parent of the tree and has only the tree's name pending.
 */
static int step(struct removal *r)
{
	struct level *level = &r->levels[r->descent.depth - 1];
	const char *name;
	int e;

	if (level->next < level->bytes) {
		name = level->names + level->next;
		e = enter(r, name);
		if (e == -ENOENT || e == -ENOTDIR || e == -ELOOP)
			e = remove_one(r, descent_fd(&r->descent), name, DT_UNKNOWN);
		else if (e == 0)
			return 0;
		if (e < 0)
			return r->bad_name[0] ? e : fail(r, name, -e);
		level = &r->levels[r->descent.depth - 1];
		level->next += strlen(level->names + level->next) + 1;
		return 0;
	}
	drop_names(r, level);
	e = descent_leave(&r->descent);
	if (e < 0)
		return e;
	level = &r->levels[r->descent.depth - 1];
	name = level->names + level->next;
	e = remove_one(r, descent_fd(&r->descent), name, DT_DIR);
	if (e < 0)
		return e;
	if (e == 1) { /* another process added an entry meanwhile, or it had too many */
		unsigned passes = r->levels[r->descent.depth].passes;

		if (passes >= PASSES_MAX)
			return fail(r, name, ENOTEMPTY);
		e = enter(r, name);
		if (e < 0)
			return e;
		r->levels[r->descent.depth - 1].passes = passes + 1;
		return 0;
	}
	level->next += strlen(name) + 1;
	return 0;
}

static bool finished(const struct removal *r)
{
	return r->descent.depth == 1 && r->levels[0].next >= r->levels[0].bytes;
}

int remove_tree(int dir_fd, const char *name, uint64_t *count, char ret_name[256])
{
	struct removal r = { .count = count, .bad_name = ret_name };
	size_t n = strlen(name) + 1;
	int fd, e;

	ret_name[0] = '\0';
	e = remove_one(&r, dir_fd, name, DT_UNKNOWN);
	if (e <= 0)
		return e;
	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) /* may have search permission only */
		fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	e = descent_begin(&r.descent, fd);
	if (e < 0) {
		(void)close(fd);
		return e;
	}
	r.capacity = 64;
	r.levels = calloc(r.capacity, sizeof(*r.levels));
	e = r.levels && (r.levels[0].names = malloc(n)) ? 0 : -ENOMEM;
	if (e == 0) {
		memcpy(r.levels[0].names, name, n);
		r.levels[0].bytes = r.held_bytes = n;
	}
	while (e == 0 && !finished(&r))
		e = step(&r);
	for (size_t i = 0; r.levels && i < r.descent.depth; i++)
		free(r.levels[i].names);
	free(r.levels);
	descent_end(&r.descent);
	return e;
}

static int remove_leaf(struct op *op, struct str path, const struct leaf *leaf, bool recursive)
{
	char bad[256] = "";
	int r;

	if (recursive) {
		r = remove_tree(leaf->dir_fd, leaf->name, &op->end.entries, bad);
	} else if (unlinkat(leaf->dir_fd, leaf->name, leaf->wants_dir ? AT_REMOVEDIR : 0) == 0 ||
		   (errno == EISDIR && unlinkat(leaf->dir_fd, leaf->name, AT_REMOVEDIR) == 0)) {
		op->end.entries = 1;
		r = 0;
	} else {
		r = -errno;
	}
	if (r == 0)
		return 0;
	op->failed.done = op->end.entries;
	op->failed.errno_value = (uint32_t)-r;
	if (bad[0] && strcmp(bad, leaf->name) != 0)
		return op_fail(op, op_error_of(-r), path, "cannot remove %.80s in it: %s", bad,
			       strerror(-r));
	return op_fail_errno(op, r, path);
}

int op_remove(struct op *op)
{
	_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
	bool recursive, missing_ok;
	struct str path;
	struct stat st;
	int r;

	if (op_needed(op, "path", &path) < 0 || op_flag(op, "recursive", false, &recursive) < 0 ||
	    op_flag(op, "missing_ok", false, &missing_ok) < 0 || op_args_end(op) < 0)
		return -1;
	r = path_leaf(&op->place, path, &leaf);
	if (r == 0 && !leaf.name[0])
		return op_fail(op, TOOL_INVALID, path, "names no entry of a directory");
	if (r == 0 && fstatat(leaf.dir_fd, leaf.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && leaf.wants_dir && !S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	if (missing_ok && (r == -ENOENT || r == -ENOTDIR))
		return 0;
	if (r < 0)
		return op_fail_errno(op, r, path);
	op->keeps_going = true;
	op_on_stop();
	return remove_leaf(op, path, &leaf, recursive);
}
