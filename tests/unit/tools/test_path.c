/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tools/path.h"
#include "tools/tree/remove.h"
#include "tools/content/temp.h"
#include "tools/tree/walk.h"

static char top[] = "/tmp/cay-path-XXXXXX";
static int top_fd = -1;

static int make_tree(void **state)
{
	if (!mkdtemp(top))
		return -1;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top_fd < 0 || mkdirat(top_fd, "in", 0755) < 0 || mkdirat(top_fd, "in/d", 0755) < 0 ||
	    mkdirat(top_fd, "out", 0755) < 0 || symlinkat("../out", top_fd, "in/up") < 0 ||
	    symlinkat("/d", top_fd, "in/abs") < 0 || symlinkat("loop", top_fd, "in/loop") < 0 ||
	    symlinkat("d/new", top_fd, "in/dangling") < 0)
		return -1;
	return 0;
}

static int drop_tree(void **state)
{
	int tmp_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	uint64_t count = 0;
	char bad[256];

	(void)close(top_fd);
	r = remove_tree(tmp_fd, strrchr(top, '/') + 1, &count, bad);
	(void)close(tmp_fd);
	return r;
}

static ino_t inode(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(top_fd, path, &st, 0), 0);
	return st.st_ino;
}

/* Resolves the path from "in", confined to it or not: an inode, or -errno. */
static long leads_to(const char *path, bool confined)
{
	char in[64];
	struct place place;
	struct stat st;
	int fd, r;

	(void)snprintf(in, sizeof(in), "%s/in", top);
	assert_int_equal(place_open(&place, confined ? in : NULL, confined ? NULL : in), 0);
	r = path_open(&place, str_of(path), O_PATH, &fd);
	if (r == 0) {
		assert_int_equal(fstat(fd, &st), 0);
		(void)close(fd);
	}
	place_close(&place);
	return r < 0 ? r : (long)st.st_ino;
}

static void test_resolve(void **state)
{
	assert_int_equal(leads_to("d", false), inode("in/d"));
	assert_int_equal(leads_to("./d//.", false), inode("in/d"));
	assert_int_equal(leads_to("../out", false), inode("out"));
	assert_int_equal(leads_to("up", false), inode("out"));
	assert_int_equal(leads_to("../out", true), -ENOENT);
	assert_int_equal(leads_to("up", true), -ENOENT);
	assert_int_equal(leads_to("../../../d", true), inode("in/d"));
	assert_int_equal(leads_to("/d", true), inode("in/d"));
	assert_int_equal(leads_to("abs", true), inode("in/d"));
	assert_int_equal(leads_to("loop", true), -ELOOP);
	assert_int_equal(leads_to("", true), -EINVAL);
	assert_int_equal(leads_to("/proc/self/fd/0", false), -ELOOP);
	assert_int_equal(path_check((struct str){ "a\0b", 3 }), -EINVAL);
}

static void test_leaf(void **state)
{
	struct place place;
	struct leaf leaf;
	char in[64];

	(void)snprintf(in, sizeof(in), "%s/in", top);
	assert_int_equal(place_open(&place, in, NULL), 0);
	assert_int_equal(path_leaf(&place, STR_LIT("d/x"), &leaf), 0);
	assert_string_equal(leaf.name, "x");
	assert_int_equal(leaf.dir_ino, inode("in/d"));
	assert_false(leaf.wants_dir);
	leaf_done(&leaf);
	assert_int_equal(path_leaf(&place, STR_LIT("d/x//"), &leaf), 0);
	assert_string_equal(leaf.name, "x");
	assert_true(leaf.wants_dir);
	leaf_done(&leaf);
	assert_int_equal(path_leaf(&place, STR_LIT("/"), &leaf), 0);
	assert_string_equal(leaf.name, "");
	assert_int_equal(leaf.dir_ino, inode("in"));
	leaf_done(&leaf);
	assert_int_equal(path_leaf(&place, STR_LIT("d/.."), &leaf), 0);
	assert_string_equal(leaf.name, "");
	assert_int_equal(leaf.dir_ino, inode("in"));
	leaf_done(&leaf);
	assert_int_equal(path_leaf(&place, STR_LIT("no/x"), &leaf), -ENOENT);
	assert_int_equal(path_leaf_follow(&place, STR_LIT("up"), &leaf), -ELOOP);
	assert_int_equal(path_leaf_follow(&place, STR_LIT("loop"), &leaf), -ELOOP);
	place_close(&place);
	assert_int_equal(place_open(&place, NULL, in), 0);
	assert_int_equal(path_leaf_follow(&place, STR_LIT("dangling"), &leaf), 0);
	assert_string_equal(leaf.name, "new");
	assert_int_equal(leaf.dir_ino, inode("in/d"));
	leaf_done(&leaf);
	assert_int_equal(path_leaf_follow(&place, STR_LIT("loop"), &leaf), -ELOOP);
	place_close(&place);
}

static void test_beneath(void **state)
{
	int in_fd = openat(top_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct path_owner none = PATH_OWNER_NONE;
	struct leaf leaf;

	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("new/e/f"), none, &leaf), 0);
	assert_int_equal(leaf.dir_ino, inode("in/new/e"));
	leaf_done(&leaf);
	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("up/x"), none, &leaf), -EXDEV);
	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("up/n/x"), none, &leaf), -EXDEV);
	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("abs/x"), none, &leaf), -EXDEV);
	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("../x/y"), none, &leaf), -EXDEV);
	assert_int_equal(path_leaf_beneath(in_fd, STR_LIT("/x/y"), none, &leaf), -EXDEV);
	(void)close(in_fd);
}

static void test_temp(void **state)
{
	int d = openat(top_fd, "in/d", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct temp_target absent = { .must_be_absent = true }, any = { 0 }, same;
	struct stat st, other;
	struct temp temp;

	assert_int_equal(temp_open(&temp, d, 0600), 0);
	assert_int_equal(write(temp.fd, "1", 1), 1);
	assert_int_equal(temp_publish(&temp, "t", absent), 0);
	temp_done(&temp);
	assert_int_equal(fstatat(d, "t", &st, 0), 0);
	assert_int_equal(temp_open(&temp, d, 0600), 0);
	assert_int_equal(temp_publish(&temp, "t", absent), -EEXIST);
	other = st;
	other.st_size++;
	same.must_be_absent = false;
	same.expected = &other;
	assert_int_equal(temp_publish(&temp, "t", same), -ESTALE);
	assert_int_equal(fstatat(d, "t", &other, 0), 0);
	assert_true(temp_same(&st, &other));
	assert_int_equal(temp_publish(&temp, "gone", same), -ESTALE);
	same.expected = &st;
	assert_int_equal(temp_publish(&temp, "t", same), 0);
	temp_done(&temp);
	assert_int_equal(fstatat(d, "t", &other, 0), 0);
	assert_int_equal(other.st_size, 0);
	assert_int_equal(temp_open(&temp, d, 0600), 0);
	assert_int_equal(temp_publish(&temp, "t", any), 0);
	temp_done(&temp);
	assert_int_equal(unlinkat(d, "t", 0), 0);
	(void)close(d);
	/* None of it is left. */
	assert_int_equal(unlinkat(top_fd, "in/d", AT_REMOVEDIR), 0);
	assert_int_equal(mkdirat(top_fd, "in/d", 0755), 0);
}

/* A directory that was moved during the descent does not lead elsewhere. */
static void test_descent(void **state)
{
	struct descent d;
	int fd;

	assert_int_equal(mkdirat(top_fd, "tree", 0755), 0);
	fd = openat(top_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(descent_begin(&d, fd), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(mkdirat(descent_fd(&d), "d", 0755), 0);
		assert_int_equal(descent_enter(&d, "d"), 0);
	}
	assert_int_equal(descent_enter(&d, "no"), -ENOENT);
	for (int i = 0; i < 45; i++)
		assert_int_equal(descent_leave(&d), 0);
	/* The levels further up are closed by now; the current one is moved. */
	assert_int_equal(renameat(top_fd, "tree/d/d/d/d/d/d/d/d", top_fd, "out/moved"), 0);
	for (int i = 0; i < 100; i++) {
		int r = descent_leave(&d);

		if (r == -ESTALE)
			break;
		assert_int_equal(r, 0);
		assert_true(d.depth > 8);
	}
	assert_int_equal(d.depth, 9);
	descent_end(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resolve), cmocka_unit_test(test_leaf),
		cmocka_unit_test(test_beneath), cmocka_unit_test(test_temp),
		cmocka_unit_test(test_descent),
	};

	return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
