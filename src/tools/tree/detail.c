/* SPDX-License-Identifier: Apache-2.0 */
/* Details that ENTRY does not include: targets of links, and marks (extended attributes user.*). */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "tools/tree/entry.h"

#define PREFIX "user."
#define NAMES_MAX 65536 /* the kernel's maximum */

static void behind(int dir_fd, const char *name, struct entry_detail *room, struct tool_detail *ret)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
	char self[32];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, room->target, sizeof(room->target) - 1);
	if (n <= 0 || n > TOOL_TARGET_MAX || room->target[0] != '/')
		return;
	ret->kind = entry_kind(st.st_mode);
	ret->mode = st.st_mode & 07777;
	ret->target = (struct str){ room->target, (size_t)n };
}

static bool is_plain(const char *s, size_t n, bool key)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < 0x20 || s[i] > 0x7e || (key && s[i] == '='))
			return false;
	return true;
}

/* Adds one line, or nothing if it is not text or does not fit. */
static size_t add_mark(const char *self, const char *name, char *dst, size_t size)
{
	const char *key = name + sizeof(PREFIX) - 1;
	char value[TOOL_MARKS_MAX];
	ssize_t n = getxattr(self, name, value, sizeof(value));
	size_t key_n = strlen(key);

	if (n < 0 || key_n == 0 || !is_plain(key, key_n, true) ||
	    !is_plain(value, (size_t)n, false) || key_n + (size_t)n + 2 > size)
		return 0;
	memcpy(dst, key, key_n);
	dst[key_n] = '=';
	memcpy(dst + key_n + 1, value, (size_t)n);
	dst[key_n + 1 + (size_t)n] = '\n';
	return key_n + (size_t)n + 2;
}

static void marks(int dir_fd, const char *name, struct entry_detail *room, struct tool_detail *ret)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name[0] ? name : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	static char names[NAMES_MAX];
	char self[32];
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = listxattr(self, names, sizeof(names));
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, PREFIX, sizeof(PREFIX) - 1) == 0)
			used += add_mark(self, names + at, room->marks + used,
					 sizeof(room->marks) - used);
	ret->marks = (struct str){ room->marks, used };
}

bool entry_details(int dir_fd, const char *name, const struct tool_entry *entry,
		   struct entry_detail *room, struct tool_detail *ret)
{
	*ret = (struct tool_detail){ .kind = 0 };
	if (entry->kind == TOOL_KIND_SYMLINK)
		behind(dir_fd, name, room, ret);
	else if (entry->kind == TOOL_KIND_FILE || entry->kind == TOOL_KIND_DIRECTORY)
		marks(dir_fd, name, room, ret);
	return ret->target.n || ret->marks.n;
}

int entry_mark(int fd, struct str text)
{
	struct str line, rest, key, value;
	char name[XATTR_NAME_MAX + 1];

	while (text.n) {
		if (!str_cut(text, '\n', &line, &rest)) {
			line = text;
			rest = (struct str){ "", 0 };
		}
		text = rest;
		if (!str_cut(line, '=', &key, &value) || key.n == 0)
			return -EINVAL;
		if (snprintf(name, sizeof(name), PREFIX "%.*s", (int)key.n, key.p) >=
		    (int)sizeof(name))
			return -ENAMETOOLONG;
		if (fsetxattr(fd, name, value.p, value.n, 0) < 0)
			return -errno;
	}
	return 0;
}
