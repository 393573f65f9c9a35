/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through trees, also while they are moved about; entries; removal of what is deep. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tools/tree/entry.h"
#include "tools/tree/remove.h"
#include "tools/tree/walk.h"

#define DEEP 200 /* more than the descriptors that a descent keeps */

static char top[32];
static int top_fd;

static int setup(void **state)
{
	(void)state;
	(void)strcpy(top, "/tmp/cay-walk-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	top_fd = open(top, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return top_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	char failed[256];
	uint64_t count = 0;
	int tmp_fd = openat(top_fd, "..", O_DIRECTORY | O_RDONLY | O_CLOEXEC), r;

	(void)state;
	(void)close(top_fd);
	r = remove_tree(tmp_fd, top + strlen("/tmp/"), &count, failed);
	(void)close(tmp_fd);
	return r;
}

static void put(const char *path)
{
	int fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	(void)close(fd);
}

/* d/d/d...: returns the deepest, open. */
static int make_deep(int levels)
{
	int fd = dup(top_fd);

	for (int i = 0; i < levels; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	return fd;
}

static void a_walk_gives_names_in_order_with_their_paths(void **state)
{
	static const char *const expected[] = { "a", "b", "b/c", "b/z", "-b", "link" };
	static struct walk walk;
	struct walk_item item;
	size_t i = 0;

	(void)state;
	put("a");
	assert_int_equal(mkdirat(top_fd, "b", 0755), 0);
	put("b/z");
	put("b/c");
	assert_int_equal(symlinkat("b", top_fd, "link"), 0);
	assert_int_equal(walk_begin(&walk, dup(top_fd)), 0);
	while (walk_next(&walk, &item) == 1) {
		assert_true(i < ARRAY_LEN(expected));
		assert_int_equal(item.leaving, expected[i][0] == '-');
		assert_string_equal(item.path.p, expected[i] + item.leaving);
		assert_int_equal(item.depth, strchr(expected[i], '/') ? 2 : 1);
		if (item.type == DT_LNK)
			assert_true(walk_enter(&walk) < 0); /* never through a link */
		if (item.type == DT_DIR && !item.leaving)
			assert_int_equal(walk_enter(&walk), 0);
		i++;
	}
	assert_int_equal(i, ARRAY_LEN(expected));
	assert_false(walk.cut);
	walk_end(&walk);
}

static void the_rest_of_a_directory_can_be_left_out(void **state)
{
	static struct walk walk;
	struct walk_item item;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(mkdirat(top_fd, "d", 0755), 0);
	put("d/1");
	put("d/2");
	put("d/3");
	put("e");
	assert_int_equal(walk_begin(&walk, dup(top_fd)), 0);
	assert_int_equal(walk_next(&walk, &item), 1);
	assert_int_equal(walk_enter(&walk), 0);
	assert_int_equal(walk_next(&walk, &item), 1);
	assert_string_equal(item.path.p, "d/1");
	walk_skip(&walk);
	while (walk_next(&walk, &item) == 1)
		seen += !item.leaving;
	assert_int_equal(seen, 1); /* e */
	walk_end(&walk);
}

static void a_walk_needs_a_directory(void **state)
{
	static struct walk walk;
	int fd;

	(void)state;
	put("file");
	fd = openat(top_fd, "file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(walk_begin(&walk, fd), -ENOTDIR);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* it is still the caller's */
	(void)close(fd);
	assert_true(walk_begin(&walk, fd) < 0);
}

static void a_descent_goes_deeper_than_its_descriptors(void **state)
{
	struct descent d;

	(void)state;
	(void)close(make_deep(DEEP));
	assert_int_equal(descent_begin(&d, dup(top_fd)), 0);
	for (int i = 0; i < DEEP; i++)
		assert_int_equal(descent_enter(&d, "d"), 0);
	assert_int_equal(descent_enter(&d, "d"), -ENOENT);
	assert_int_equal(d.levels[0].fd, -1); /* closed meanwhile */
	for (int i = 0; i < DEEP; i++)
		assert_int_equal(descent_leave(&d), 0);
	assert_int_equal(d.depth, 1);
	assert_true(faccessat(descent_fd(&d), "d", F_OK, 0) == 0);
	descent_end(&d);
}

static void the_way_back_is_the_way_that_was_come(void **state)
{
	struct descent d;
	int fd, r = 0;

	(void)state;
	fd = make_deep(DEEP);
	assert_int_equal(descent_begin(&d, dup(top_fd)), 0);
	for (int i = 0; i < DEEP; i++)
		assert_int_equal(descent_enter(&d, "d"), 0);
	/* The first of those still held by descriptor is moved: its ".." leads elsewhere now. */
	assert_int_equal(mkdirat(top_fd, "elsewhere", 0755), 0);
	(void)close(fd);
	for (size_t i = 0; i < d.depth; i++) {
		char path[64];

		if (d.levels[i].fd < 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/..", d.levels[i].fd);
		fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		assert_int_equal(renameat(fd, "d", top_fd, "elsewhere/d"), 0);
		(void)close(fd);
		break;
	}
	while (r == 0 && d.depth > 1)
		r = descent_leave(&d);
	assert_int_equal(r, -ESTALE);
	descent_end(&d);
}

static void a_link_is_never_entered(void **state)
{
	struct descent d;

	(void)state;
	assert_int_equal(symlinkat("/", top_fd, "link"), 0);
	put("file");
	assert_int_equal(descent_begin(&d, dup(top_fd)), 0);
	assert_true(descent_enter(&d, "link") < 0);
	assert_int_equal(descent_enter(&d, "file"), -ENOTDIR);
	assert_int_equal(d.depth, 1);
	descent_end(&d);
}

static void synthetic_file_systems_are_known(void **state)
{
	int fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(walk_is_synthetic(fd));
	assert_false(walk_is_synthetic(top_fd));
	(void)close(fd);
}

/* ---- removal ---- */

static void everything_below_is_removed_and_counted(void **state)
{
	char failed[256] = "";
	uint64_t count = 0;
	int fd = make_deep(DEEP);

	(void)state;
	assert_int_equal(symlinkat("/", fd, "link"), 0);
	(void)close(fd);
	put("beside");
	assert_int_equal(remove_tree(top_fd, "d", &count, failed), 0);
	assert_int_equal(count, DEEP + 1);
	assert_int_equal(faccessat(top_fd, "beside", F_OK, 0), 0);
	assert_int_equal(remove_tree(top_fd, "d", &count, failed), 0); /* it is gone already */
	assert_int_equal(count, DEEP + 1);
	assert_int_equal(remove_tree(top_fd, "beside", &count, failed), 0); /* a plain file */
	assert_int_equal(count, DEEP + 2);
}

/* ---- entries ---- */

static void an_entry_is_looked_at_without_following(void **state)
{
	static char target[TOOL_TARGET_MAX + 1];
	struct tool_entry entry;

	(void)state;
	assert_int_equal(mkdirat(top_fd, "dir", 0750), 0);
	assert_int_equal(fchmodat(top_fd, "dir", 01750, 0), 0);
	assert_int_equal(symlinkat("dir", top_fd, "link"), 0);
	assert_int_equal(symlinkat("nowhere", top_fd, "broken"), 0);
	assert_int_equal(entry_look(top_fd, "missing", target, &entry), -ENOENT);
	assert_int_equal(entry_look(top_fd, "dir", target, &entry), 0);
	assert_int_equal(entry.kind, TOOL_KIND_DIRECTORY);
	assert_int_equal(entry.mode, 01750);
	assert_int_equal(entry_look(top_fd, "", target, &entry), 0); /* the directory itself */
	assert_int_equal(entry.kind, TOOL_KIND_DIRECTORY);
	assert_int_equal(entry_look(top_fd, "link", target, &entry), 0);
	assert_int_equal(entry.kind, TOOL_KIND_SYMLINK);
	assert_true(entry.target_is_directory);
	assert_true(str_is(entry.target, "dir"));
	assert_int_equal(entry_look(top_fd, "broken", target, &entry), 0);
	assert_false(entry.target_is_directory);
	assert_true(str_is(entry.target, "nowhere"));
}

static void times_beyond_64_bits_are_the_nearest_that_fit(void **state)
{
	struct stat st = { .st_mode = S_IFREG };
	struct tool_entry entry;

	(void)state;
	st.st_mtim.tv_sec = INT64_MAX;
	st.st_ctim.tv_sec = INT64_MIN;
	st.st_atim.tv_nsec = 5;
	entry_from_stat(&st, &entry);
	assert_int_equal(entry.mtime_ns, INT64_MAX);
	assert_int_equal(entry.ctime_ns, INT64_MIN);
	assert_int_equal(entry.atime_ns, 5);
	assert_int_equal(entry_kind(0), TOOL_KIND_UNKNOWN);
	assert_int_equal(entry_kind(S_IFSOCK), TOOL_KIND_SOCKET);
}

static void users_are_names_or_numbers(void **state)
{
	struct path_owner owner;
	gid_t gid = 7;

	(void)state;
	assert_int_equal(entry_find_user(str_of("root"), &owner), 0);
	assert_int_equal(owner.uid + owner.gid, 0);
	assert_int_equal(entry_find_user(str_of("48151"), &owner),
			 0); /* no change: its group is the same */
	assert_int_equal(owner.uid, 48151);
	assert_int_equal(owner.gid, 48151);
	assert_int_equal(entry_find_user(str_of("no-such-user"), &owner), -ENOENT);
	assert_int_equal(entry_find_user(str_of(""), &owner), -ENOENT);
	assert_int_equal(entry_find_user(str_of("-1"), &owner), -ENOENT);
	assert_int_equal(entry_find_group(str_of("root"), &gid), 0);
	assert_int_equal(gid, 0);
	assert_int_equal(entry_find_group(str_of("no-such-group"), &gid), -ENOENT);
	assert_true(str_is(entry_user(0), "root"));
	assert_int_equal(entry_user(48151).n, 0);
}

static void marks_are_written_and_read(void **state)
{
	static struct entry_detail detail;
	struct tool_detail found;
	struct tool_entry entry = { .kind = TOOL_KIND_FILE };
	int fd, r;

	(void)state;
	put("file");
	fd = openat(top_fd, "file", O_RDWR | O_CLOEXEC);
	assert_int_equal(entry_mark(fd, str_of("")), 0);
	assert_int_equal(entry_mark(fd, str_of("no equals sign\n")), -EINVAL);
	assert_int_equal(entry_mark(fd, str_of("=value\n")), -EINVAL);
	r = entry_mark(fd, str_of("key=a=b\nother=\n"));
	(void)close(fd);
	if (r == -ENOTSUP) {
		print_message("skipped: /tmp has no extended attributes\n");
		skip();
	}
	assert_int_equal(r, 0);
	assert_true(entry_details(top_fd, "file", &entry, &detail, &found));
	assert_non_null(memmem(found.marks.p, found.marks.n, "key=a=b\n", 8));
	assert_non_null(memmem(found.marks.p, found.marks.n, "other=\n", 7));
	put("plain");
	assert_false(entry_details(top_fd, "plain", &entry, &detail, &found));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_walk_gives_names_in_order_with_their_paths),
		T(the_rest_of_a_directory_can_be_left_out),
		T(a_walk_needs_a_directory),
		T(a_descent_goes_deeper_than_its_descriptors),
		T(the_way_back_is_the_way_that_was_come),
		T(a_link_is_never_entered),
		T(synthetic_file_systems_are_known),
		T(everything_below_is_removed_and_counted),
		T(an_entry_is_looked_at_without_following),
		T(times_beyond_64_bits_are_the_nearest_that_fit),
		T(users_are_names_or_numbers),
		T(marks_are_written_and_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
