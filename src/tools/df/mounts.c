/* SPDX-License-Identifier: Apache-2.0 */
/* The mounts of this namespace and their usage. */
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/df/df.h"

static bool take_number(struct str *text, uint64_t *ret)
{
	size_t n = 0;
	uint64_t value = 0;

	while (text->n && *text->p == ' ') {
		text->p++;
		text->n--;
	}
	for (; n < text->n && text->p[n] >= '0' && text->p[n] <= '9'; n++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text->p[n] - '0'), &value))
			return false;
	text->p += n;
	text->n -= n;
	*ret = value;
	return n > 0;
}

bool df_disk_parse(struct str text, uint64_t *ret_limit, uint64_t *ret_used)
{
	uint64_t limit, used;

	if (!take_number(&text, &limit) || !text.n || *text.p != ' ' ||
	    !take_number(&text, &used) || text.n != 1 || *text.p != '\n')
		return false;
	*ret_limit = limit;
	*ret_used = used;
	return limit > 0;
}

static bool read_disk(uint64_t *ret_limit, uint64_t *ret_used)
{
	_cleanup_close_ int fd = open(DF_DISK_FILE, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char space[64];
	ssize_t n = fd < 0 ? -1 : read(fd, space, sizeof(space));

	return n > 0 && df_disk_parse((struct str){ space, (size_t)n }, ret_limit, ret_used);
}

void df_row_measure(struct df_row *row, const char *path)
{
	struct statvfs fs;
	struct stat st;
	uint64_t limit, used;

	row->unread = stat(path, &st) < 0 || statvfs(path, &fs) < 0;
	if (row->unread)
		return;
	row->device = st.st_dev;
	row->size = fs.f_blocks * fs.f_frsize;
	row->used = (fs.f_blocks - MIN(fs.f_bfree, fs.f_blocks)) * fs.f_frsize;
	row->available = fs.f_bavail * fs.f_frsize;
	row->inodes = fs.f_files;
	row->inodes_free = fs.f_ffree;
	if (strcmp(row->target, "/") == 0 && strcmp(row->type, "overlay") == 0 &&
	    read_disk(&limit, &used)) {
		row->size = limit;
		row->used = used;
		row->available = limit - MIN(used, limit);
	}
}

int df_mounts_read(struct df_row **ret_rows, size_t *ret_count)
{
	FILE *table = setmntent("/proc/self/mounts", "re");
	struct df_row *rows = table ? calloc(DF_MOUNTS_MAX, sizeof(*rows)) : NULL;
	const struct mntent *entry;
	size_t count = 0;

	if (!rows) {
		if (table)
			(void)endmntent(table);
		return table ? -ENOMEM : -errno;
	}
	while (count < DF_MOUNTS_MAX && (entry = getmntent(table))) {
		struct df_row *row = &rows[count];

		row->source = strdup(entry->mnt_fsname);
		row->type = strdup(entry->mnt_type);
		row->target = strdup(entry->mnt_dir);
		row->file = "-";
		if (!row->source || !row->type || !row->target)
			break;
		count++;
	}
	(void)endmntent(table);
	*ret_rows = rows;
	*ret_count = count;
	return 0;
}

static bool is_below(const char *path, const char *target)
{
	size_t n = strlen(target);

	return strncmp(path, target, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/' || (n == 1 && *target == '/'));
}

struct df_row *df_mounts_find(struct df_row *rows, size_t count, const char *path)
{
	struct df_row *best = NULL;

	/* Of two mounts at the same place, the later one covers the other. */
	for (size_t i = 0; i < count; i++)
		if (is_below(path, rows[i].target) &&
		    (!best || strlen(rows[i].target) >= strlen(best->target)))
			best = &rows[i];
	return best;
}
