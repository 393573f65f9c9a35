/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tree/entry.h"

#include <errno.h>
#include <fcntl.h>

#define FILE_MAX_BYTES (1U << 20)
#define ID_MAX 0xfffffffeU
#define CACHE_SIZE 64

/* A file like /etc/passwd, read once; a fifo, link or huge file in its place counts as empty. */
struct table {
	const char *path;
	bool read;
	char *memory; /* kept for the life of the process */
	struct str text;
	struct {
		uint32_t id;
		bool used;
		struct str name;
	} cache[CACHE_SIZE];
};

static struct table users = { .path = "/etc/passwd" }, groups = { .path = "/etc/group" };

static struct str table_text(struct table *table)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	ssize_t n;

	if (table->read)
		return table->text;
	table->read = true;
	fd = open(table->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES)
		return table->text;
	table->memory = malloc((size_t)st.st_size + 1);
	n = table->memory ? read(fd, table->memory, (size_t)st.st_size) : -1;
	if (n > 0)
		table->text = (struct str){ table->memory, (size_t)n };
	return table->text;
}

/* Reads fields 0 (name), 2 (id) and 3 of the next line. */
static bool next_row(struct str *text, struct str *name, uint64_t *id, struct str *third)
{
	struct str line, rest, skip, number;

	while (text->n) {
		if (!str_cut(*text, '\n', &line, &rest)) {
			line = *text;
			rest.n = 0;
		}
		*text = rest;
		if (!str_cut(line, ':', name, &line) || !str_cut(line, ':', &skip, &line) ||
		    !str_cut(line, ':', &number, &line) || str_to_u64(number, ID_MAX, id) < 0 ||
		    name->n == 0 || name->n > TOOL_NAME_MAX || memchr(name->p, '\0', name->n))
			continue;
		if (!str_cut(line, ':', third, &rest))
			*third = line;
		return true;
	}
	return false;
}

static struct str name_of(struct table *table, uint32_t id)
{
	struct str text, name = { "", 0 }, third;
	size_t slot = id % CACHE_SIZE;
	uint64_t got;

	if (table->cache[slot].used && table->cache[slot].id == id)
		return table->cache[slot].name;
	for (text = table_text(table); next_row(&text, &name, &got, &third);)
		if (got == id)
			goto found;
	name = STR_LIT("");
found:
	table->cache[slot].used = true;
	table->cache[slot].id = id;
	table->cache[slot].name = name;
	return name;
}

struct str entry_user(uint32_t uid)
{
	return name_of(&users, uid);
}

struct str entry_group(uint32_t gid)
{
	return name_of(&groups, gid);
}

int entry_find_user(struct str wanted, struct path_owner *ret)
{
	struct str text = table_text(&users), name, third;
	uint64_t id, gid, number = 0;
	bool by_number = str_to_u64(wanted, ID_MAX, &number) == 0;

	while (next_row(&text, &name, &id, &third)) {
		if ((by_number ? id != number : !str_eq(name, wanted)) ||
		    str_to_u64(third, ID_MAX, &gid) < 0)
			continue;
		*ret = (struct path_owner){ (uid_t)id, (gid_t)gid };
		return 0;
	}
	if (!by_number)
		return -ENOENT;
	*ret = (struct path_owner){ (uid_t)number, (gid_t)number };
	return 0;
}

int entry_find_group(struct str wanted, gid_t *ret)
{
	struct str text = table_text(&groups), name, third;
	uint64_t id;

	if (str_to_u64(wanted, ID_MAX, &id) == 0) {
		*ret = (gid_t)id;
		return 0;
	}
	while (next_row(&text, &name, &id, &third))
		if (str_eq(name, wanted)) {
			*ret = (gid_t)id;
			return 0;
		}
	return -ENOENT;
}

enum tool_kind entry_kind(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return TOOL_KIND_FILE;
	case S_IFDIR:
		return TOOL_KIND_DIRECTORY;
	case S_IFLNK:
		return TOOL_KIND_SYMLINK;
	case S_IFIFO:
		return TOOL_KIND_FIFO;
	case S_IFSOCK:
		return TOOL_KIND_SOCKET;
	case S_IFCHR:
		return TOOL_KIND_CHAR_DEVICE;
	case S_IFBLK:
		return TOOL_KIND_BLOCK_DEVICE;
	default:
		return TOOL_KIND_UNKNOWN;
	}
}

/* A hostile time may be out of range; the nearest representable value is used. */
static int64_t to_ns(struct timespec ts)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)ts.tv_sec, 1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts.tv_nsec, &ns))
		return ts.tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

void entry_from_stat(const struct stat *st, struct tool_entry *ret)
{
	*ret = (struct tool_entry){
		.kind = entry_kind(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = (uint32_t)MIN(st->st_nlink, (nlink_t)UINT32_MAX),
		.size = (uint64_t)st->st_size,
		.disk_bytes = (uint64_t)st->st_blocks * 512,
		.device = st->st_dev,
		.inode = st->st_ino,
		.mtime_ns = to_ns(st->st_mtim),
		.ctime_ns = to_ns(st->st_ctim),
		.atime_ns = to_ns(st->st_atim),
		.user = entry_user(st->st_uid),
		.group = entry_group(st->st_gid),
	};
}

int entry_look(int dir_fd, const char *name, char target[TOOL_TARGET_MAX + 1],
	       struct tool_entry *ret)
{
	struct stat st, behind;
	ssize_t n;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	entry_from_stat(&st, ret);
	if (!S_ISLNK(st.st_mode))
		return 0;
	n = readlinkat(dir_fd, name, target, TOOL_TARGET_MAX);
	if (n < 0)
		return -errno;
	ret->target = (struct str){ target, (size_t)n };
	ret->target_is_directory =
		fstatat(dir_fd, name, &behind, AT_NO_AUTOMOUNT) == 0 && S_ISDIR(behind.st_mode);
	return 0;
}
