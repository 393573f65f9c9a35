/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: a path, resolved in a directory full of links that lead outside. Every opened file must be
 * inside; names in archives must not leave it either.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tools/archive/member.h"
#include "tools/path.h"
#include "tools/tree/remove.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[64];
static struct place place;
static int in_fd = -1;

/* A file system in memory is faster. */
static const char *parent(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && strlen(dir) < 32 ? dir : "/tmp";
}

static void clean_up(void)
{
	int tmp_fd = open(parent(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t count = 0;
	char bad[256];

	(void)!remove_tree(tmp_fd, strrchr(top, '/') + 1, &count, bad);
	(void)close(tmp_fd);
}

static void set_up(void)
{
	char in[128];
	int fd;

	(void)snprintf(top, sizeof(top), "%s/cay-fuzz-XXXXXX", parent());
	if (!mkdtemp(top))
		abort();
	(void)atexit(clean_up);
	fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(in, sizeof(in), "%s/in", top);
	if (mkdirat(fd, "in", 0755) < 0 || mkdirat(fd, "in/a", 0755) < 0 ||
	    mkdirat(fd, "in/a/b", 0755) < 0 || mkdirat(fd, "out", 0755) < 0 ||
	    symlinkat("../out", fd, "in/u") < 0 || symlinkat("/etc", fd, "in/e") < 0 ||
	    symlinkat("../..", fd, "in/a/u") < 0 || symlinkat("l", fd, "in/l") < 0 ||
	    symlinkat("a/b", fd, "in/r") < 0 || symlinkat("/proc/self/root", fd, "in/m") < 0 ||
	    place_open(&place, in, NULL) < 0)
		abort();
	in_fd = openat(fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)close(fd);
}

static void check_inside(int fd)
{
	char self[32], at[PATH_MAX], in[128];
	ssize_t n;

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, at, sizeof(at) - 1);
	(void)snprintf(in, sizeof(in), "%s/in", top);
	if (n < (ssize_t)strlen(in) || memcmp(at, in, strlen(in)) != 0 ||
	    (n > (ssize_t)strlen(in) && at[strlen(in)] != '/'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str path = { (const char *)data, size };
	char clean[PATH_MAX];
	struct leaf leaf;
	size_t n;
	int fd;

	if (in_fd < 0)
		set_up();
	if (path_open(&place, path, O_PATH, &fd) == 0) {
		check_inside(fd);
		(void)close(fd);
	}
	if (path_leaf(&place, path, &leaf) == 0) {
		check_inside(leaf.dir_fd);
		if (strchr(leaf.name, '/') || strcmp(leaf.name, "..") == 0)
			abort();
		leaf_done(&leaf);
	}
	if (path_leaf_follow(&place, path, &leaf) == 0) {
		check_inside(leaf.dir_fd);
		leaf_done(&leaf);
	}
	if (member_clean(path, clean, sizeof(clean), &n) == 0 && n < 100 &&
	    path_leaf_beneath(in_fd, (struct str){ clean, n ? n : 1 }, PATH_OWNER_NONE, &leaf) ==
		    0) {
		check_inside(leaf.dir_fd);
		leaf_done(&leaf);
	}
	(void)member_link_stays(STR_LIT("a/b"), path);
	return 0;
}
