/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: an archive, which is unpacked. Whatever it contains, nothing appears outside its
 * directory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tools/op.h"
#include "tools/tree/remove.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[64];
static int top_fd = -1;

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
	(void)snprintf(top, sizeof(top), "%s/cay-fuzz-XXXXXX", parent());
	if (!mkdtemp(top))
		abort();
	(void)atexit(clean_up);
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void check_alone(void)
{
	DIR *dir = fdopendir(openat(top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    strcmp(e->d_name, "in") != 0)
			abort();
	(void)closedir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct op op;
	char path[80], entries[] = "max_entries=64", bytes[] = "max_bytes=1048576";
	char *argv[] = { path, entries, bytes };
	uint64_t count = 0;
	char bad[256];

	if (top_fd < 0)
		set_up();
	(void)snprintf(path, sizeof(path), "path=%s/in", top);
	op = (struct op){ .argc = 3, .argv = argv, .keeps_going = true, .reader_lost = true };
	if (place_open(&op.place, NULL, NULL) < 0)
		abort();
	buf_init(&op.out, 1U << 20);
	buf_init(&op.in, 8U << 20);
	for (size_t at = 0; at < size; at += TOOL_DATA_MAX)
		if (tool_put_bytes(&op.in, TOOL_DATA,
				   (struct str){ (const char *)data + at,
						 MIN(size - at, TOOL_DATA_MAX) }) < 0)
			abort();
	if (tool_put_bytes(&op.in, TOOL_COMMIT, STR_LIT("")) < 0)
		abort();
	(void)!op_archive_in(&op);
	check_alone();
	(void)!remove_tree(top_fd, "in", &count, bad);
	buf_done(&op.out);
	buf_done(&op.in);
	place_close(&op.place);
	return 0;
}
