/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/user.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_MAX_BYTES (1U << 20)

/* Used if the sandbox has broken its own files, so that one can still get in and repair them. */
static const char builtin_passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
				     "sandbox:x:1000:1000::/home/sandbox:/bin/bash\n"
				     "user:x:1001:1001::/home/user:/bin/bash\n";

static bool is_user_name(struct str s)
{
	if (s.n == 0 || s.n > USER_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool first = (c >= 'a' && c <= 'z') || c == '_';

		if (!first && (i == 0 || ((c < '0' || c > '9') && c != '-')))
			return false;
	}
	return true;
}

static bool next_line(struct str *text, struct str *ret_line)
{
	struct str rest = { 0 };

	if (text->n == 0)
		return false;
	if (!str_cut(*text, '\n', ret_line, &rest))
		*ret_line = *text;
	*text = rest;
	return true;
}

/* Splits into exactly count fields: a line with another number of colons is not an entry. */
static bool split(struct str line, struct str *fields, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++)
		if (!str_cut(line, ':', &fields[i], &line))
			return false;
	fields[count - 1] = line;
	return line.n == 0 || !memchr(line.p, ':', line.n);
}

static bool parse_entry(struct str line, struct user *ret)
{
	struct str f[7] = { 0 };
	uint64_t uid, gid;

	if ((line.n && memchr(line.p, '\0', line.n)) || !split(line, f, ARRAY_LEN(f)))
		return false;
	if (!is_user_name(f[0]) || str_to_u64(f[2], USER_ID_MAX, &uid) < 0 ||
	    str_to_u64(f[3], USER_ID_MAX, &gid) < 0)
		return false;
	*ret = (struct user){ .uid = (uint32_t)uid, .gid = (uint32_t)gid };
	if (str_copy(ret->name, sizeof(ret->name), f[0]) < 0)
		return false;
	if (f[5].n == 0 || f[5].p[0] != '/' || str_copy(ret->home, sizeof(ret->home), f[5]) < 0)
		memcpy(ret->home, "/", 2);
	return true;
}

int user_find(struct str passwd, struct str wanted, struct user *ret)
{
	bool by_name = is_user_name(wanted);
	uint64_t uid = 0;
	struct str line = { 0 };
	struct user user;

	if (!by_name && str_to_u64(wanted, USER_ID_MAX, &uid) < 0)
		return -EINVAL;
	while (next_line(&passwd, &line)) {
		if (!parse_entry(line, &user))
			continue;
		if (by_name ? str_is(wanted, user.name) : user.uid == uid) {
			*ret = user;
			return 0;
		}
	}
	if (by_name)
		return -ENOENT;
	*ret = (struct user){ .uid = (uint32_t)uid, .gid = (uint32_t)uid, .home = "/" };
	return str_copy(ret->name, sizeof(ret->name), wanted);
}

static bool is_member(struct str members, const char *name)
{
	struct str one;

	while (str_cut(members, ',', &one, &members))
		if (str_is(one, name))
			return true;
	return str_is(members, name);
}

void user_add_groups(struct str group, struct user *user)
{
	struct str line = { 0 }, f[4] = { 0 };
	uint64_t gid;

	user->groups[0] = user->gid;
	user->group_count = 1;
	while (next_line(&group, &line) && user->group_count < USER_GROUPS_MAX) {
		if (!split(line, f, ARRAY_LEN(f)) || str_to_u64(f[2], USER_ID_MAX, &gid) < 0)
			continue;
		if (gid != user->gid && is_member(f[3], user->name))
			user->groups[user->group_count++] = (uint32_t)gid;
	}
}

/*
 * The sandbox may put a fifo, a device, a link or a huge file there. Only a bounded regular file is
 * read, so none of them can block or mislead the agent. The buffer is static; there is one thread.
 */
static int read_file(const char *path, struct str *ret)
{
	static char *space;
	static size_t space_bytes;
	_cleanup_close_ int fd =
		openat(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	size_t n = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES)
		return -EINVAL;
	if (!space || (size_t)st.st_size > space_bytes) {
		free(space);
		space_bytes = MAX((size_t)st.st_size, 4096);
		space = malloc(space_bytes);
		if (!space)
			return -ENOMEM;
	}
	while (n < space_bytes) {
		ssize_t got = read(fd, space + n, space_bytes - n);

		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
		if (n >= (size_t)st.st_size)
			break;
	}
	*ret = (struct str){ space, n };
	return 0;
}

int user_resolve(const char *wanted, struct user *ret)
{
	struct str text = { "", 0 };
	int r;

	if (read_file("/etc/passwd", &text) < 0)
		text = str_of(builtin_passwd);
	r = user_find(text, str_of(wanted), ret);
	if (r < 0)
		return r;
	if (read_file("/etc/group", &text) < 0)
		text = (struct str){ "", 0 };
	user_add_groups(text, ret);
	return 0;
}
