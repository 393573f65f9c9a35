/* SPDX-License-Identifier: Apache-2.0 */
/* Directories get their mode and time at the end, when nothing more is written into them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tools/archive/unpack.h"

/* The mode and time that a directory gets at the end. */
struct later {
	struct timespec mtime;
	mode_t mode;
	uint16_t n;
	bool made;
	char path[];
};

int unpack_remember(struct unpack *u, struct archive_entry *entry, bool made)
{
	struct later later = { .mode = archive_entry_perm(entry) & 01777,
			       .n = (uint16_t)u->path_len,
			       .made = made,
			       .mtime = { archive_entry_mtime(entry),
					  archive_entry_mtime_nsec(entry) } };
	int r;

	if (!archive_entry_mtime_is_set(entry))
		later.mtime.tv_nsec = UTIME_OMIT;
	r = buf_append(&u->later, &later, sizeof(later));
	if (r == 0)
		r = buf_append(&u->later, u->path, u->path_len);
	return r == -ENOBUFS ? 0 : r; /* very many directories: the rest keep the current time */
}

void unpack_finish_directories(struct unpack *u)
{
	const char *p = buf_data(&u->later), *end = p ? p + buf_len(&u->later) : NULL;

	while (p && p < end) {
		_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
		struct later later;
		struct timespec times[2];
		int fd;

		memcpy(&later, p, sizeof(later));
		p += sizeof(later);
		if (path_leaf_beneath(u->root_fd, (struct str){ p, later.n }, u->owner, &leaf) ==
		    0) {
			fd = openat(leaf.dir_fd, leaf.name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (fd >= 0) {
				times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
				times[1] = later.mtime;
				if (later.made)
					(void)fchmod(fd, later.mode);
				(void)futimens(fd, times);
				(void)close(fd);
			}
		}
		p += later.n;
	}
}
