/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tree/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define OPEN_LEVELS 48		    /* descriptors that a descent keeps open */
#define NAMES_MAX_BYTES (96U << 20) /* all levels; a larger directory is truncated */
#define DEPTH_MAX (4U << 20)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

static int push_level(struct descent *d, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno > 0 ? -errno : -EIO;
	if (d->depth == d->capacity) {
		size_t capacity = d->capacity ? d->capacity * 2 : 64;
		struct descent_level *levels;

		if (capacity > DEPTH_MAX)
			return -ENAMETOOLONG;
		levels = realloc(d->levels, capacity * sizeof(*levels));
		if (!levels)
			return -ENOMEM;
		d->levels = levels;
		d->capacity = capacity;
	}
	d->levels[d->depth++] = (struct descent_level){ st.st_dev, st.st_ino, fd };
	if (d->depth > OPEN_LEVELS) {
		struct descent_level *far = &d->levels[d->depth - OPEN_LEVELS - 1];

		if (far->fd >= 0)
			(void)close(far->fd);
		far->fd = -1;
	}
	return 0;
}

int descent_begin(struct descent *d, int dir_fd)
{
	*d = (struct descent){ 0 };
	return push_level(d, dir_fd);
}

void descent_end(struct descent *d)
{
	for (size_t i = 0; i < d->depth; i++)
		if (d->levels[i].fd >= 0)
			(void)close(d->levels[i].fd);
	free(d->levels);
	*d = (struct descent){ 0 };
}

int descent_fd(const struct descent *d)
{
	return d->levels[d->depth - 1].fd;
}

int descent_enter(struct descent *d, const char *name)
{
	int fd = openat(descent_fd(d), name, DIR_FLAGS), r;

	if (fd < 0)
		return -errno;
	r = push_level(d, fd);
	if (r < 0)
		(void)close(fd);
	return r;
}

int descent_leave(struct descent *d)
{
	struct descent_level *from = &d->levels[d->depth - 1], *to = from - 1;
	struct stat st;

	if (to->fd < 0) {
		int fd = openat(from->fd, "..", DIR_FLAGS);

		if (fd < 0)
			return -errno;
		if (fstat(fd, &st) < 0 || st.st_dev != to->dev || st.st_ino != to->ino) {
			(void)close(fd);
			return -ESTALE;
		}
		to->fd = fd;
	}
	(void)close(from->fd);
	d->depth--;
	return 0;
}

struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static int add_name(struct walk *w, struct walk_level *level, size_t *capacity, uint8_t type,
		    const char *name)
{
	size_t n = strlen(name) + 2;

	if (w->held_bytes + n + sizeof(uint32_t) > NAMES_MAX_BYTES) {
		w->cut = true;
		return 1;
	}
	if (level->bytes + n > *capacity) {
		size_t grown = *capacity ? *capacity * 2 : 4096;
		char *names = realloc(level->names, grown);

		if (!names)
			return -ENOMEM;
		level->names = names;
		*capacity = grown;
	}
	level->names[level->bytes] = (char)type;
	memcpy(level->names + level->bytes + 1, name, n - 1);
	level->bytes += n;
	level->count++;
	w->held_bytes += n + sizeof(uint32_t);
	return 0;
}

static int by_name(const void *a, const void *b, void *names)
{
	return strcmp((char *)names + *(const uint32_t *)a + 1,
		      (char *)names + *(const uint32_t *)b + 1);
}

static int sort_names(struct walk_level *level)
{
	size_t at = 0;

	if (level->count == 0)
		return 0;
	level->order = malloc(level->count * sizeof(*level->order));
	if (!level->order)
		return -ENOMEM;
	for (size_t i = 0; i < level->count; i++) {
		level->order[i] = (uint32_t)at;
		at += strlen(level->names + at + 1) + 2;
	}
	qsort_r(level->order, level->count, sizeof(*level->order), by_name, level->names);
	return 0;
}

static int read_names(struct walk *w, int fd, struct walk_level *level)
{
	static _Alignas(uint64_t) char buffer[65536];
	size_t capacity = 0;
	long n;
	int r = 0;

	while (r == 0 && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
		for (long at = 0; r == 0 && at < n;) {
			const struct kernel_dirent *e = (const void *)(buffer + at);

			at += e->reclen;
			if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
				r = add_name(w, level, &capacity, e->type, e->name);
		}
	if (r == 0 && n < 0)
		r = -errno;
	return r < 0 ? r : sort_names(level);
}

static void drop_level(struct walk *w, struct walk_level *level)
{
	w->held_bytes -= level->bytes + level->count * sizeof(uint32_t);
	free(level->names);
	free(level->order);
	level->names = NULL;
	level->order = NULL;
	level->count = level->next = level->bytes = level->path_len = 0;
}

/* Reads the directory that the descent has just entered. */
static int fill_level(struct walk *w, size_t path_len)
{
	size_t i = w->descent.depth - 1;
	int r;

	if (i >= w->capacity) {
		size_t capacity = w->capacity ? w->capacity * 2 : 64;
		struct walk_level *levels = realloc(w->levels, capacity * sizeof(*levels));

		if (!levels)
			return -ENOMEM;
		w->levels = levels;
		w->capacity = capacity;
	}
	w->levels[i] = (struct walk_level){ .path_len = path_len };
	r = read_names(w, descent_fd(&w->descent), &w->levels[i]);
	if (r < 0) {
		size_t keep = w->levels[i].path_len;

		drop_level(w, &w->levels[i]);
		w->levels[i].path_len = keep;
	}
	return r;
}

int walk_begin(struct walk *w, int dir_fd)
{
	int r;

	w->levels = NULL;
	w->capacity = w->held_bytes = w->last = 0;
	w->cut = w->pending = false;
	r = descent_begin(&w->descent, dir_fd);
	if (r < 0 || w->descent.depth == 0 || !w->descent.levels)
		return r < 0 ? r : -ENOMEM;
	r = fill_level(w, 0);
	if (r < 0) {
		w->descent.levels[0].fd = -1; /* owned by the caller again */
		walk_end(w);
	}
	return r;
}

void walk_end(struct walk *w)
{
	for (size_t i = 0; i < w->descent.depth && i < w->capacity; i++) {
		free(w->levels[i].names);
		free(w->levels[i].order);
	}
	free(w->levels);
	w->levels = NULL;
	descent_end(&w->descent);
}

static unsigned char type_of(int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

static int leave_level(struct walk *w, struct walk_item *ret)
{
	size_t i = w->descent.depth - 1, path_len = w->levels[i].path_len;
	size_t start = w->levels[i - 1].path_len;
	int r = descent_leave(&w->descent);

	if (r < 0)
		return r;
	drop_level(w, &w->levels[i]);
	w->path[path_len] = '\0';
	start += start > 0;
	*ret = (struct walk_item){ .dir_fd = descent_fd(&w->descent),
				   .name = w->path + start,
				   .path = { w->path, path_len },
				   .depth = (unsigned)w->descent.depth,
				   .type = DT_DIR,
				   .leaving = true };
	return 1;
}

int walk_next(struct walk *w, struct walk_item *ret)
{
	w->pending = false;
	for (;;) {
		size_t i = w->descent.depth - 1, start, n;
		struct walk_level *level = &w->levels[i];
		const char *record;

		if (level->next == level->count)
			return i == 0 ? 0 : leave_level(w, ret);
		record = level->names + level->order[level->next++];
		start = level->path_len;
		n = strlen(record + 1);
		if (start + 1 + n > TOOL_PATH_MAX)
			return -ENAMETOOLONG;
		if (start)
			w->path[start++] = '/';
		memcpy(w->path + start, record + 1, n + 1);
		w->last = start;
		*ret = (struct walk_item){ .dir_fd = descent_fd(&w->descent),
					   .name = w->path + start,
					   .path = { w->path, start + n },
					   .depth = (unsigned)i + 1,
					   .type = (unsigned char)record[0] };
		if (ret->type == DT_UNKNOWN)
			ret->type = type_of(ret->dir_fd, ret->name);
		w->pending = true;
		return 1;
	}
}

int walk_enter(struct walk *w)
{
	size_t path_len = w->last + strlen(w->path + w->last);
	int r;

	if (!w->pending)
		return -EINVAL;
	w->pending = false;
	if (path_len + 1 + NAME_MAX > TOOL_PATH_MAX)
		return -ENAMETOOLONG;
	r = descent_enter(&w->descent, w->path + w->last);
	if (r < 0)
		return r;
	r = fill_level(w, path_len);
	if (r < 0) { /* the next step leaves an empty level, with its item */
		int back = descent_leave(&w->descent);

		return back < 0 ? back : r;
	}
	return 0;
}

void walk_skip(struct walk *w)
{
	struct walk_level *level = &w->levels[w->descent.depth - 1];

	level->next = level->count;
}

bool walk_is_synthetic(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case DEVPTS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}
