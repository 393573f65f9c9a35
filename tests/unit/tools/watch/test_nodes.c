/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that a watch knows, by name and by number. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/watch/nodes.h"

#define DEEP 100000 /* more than a recursion would survive */
#define TOLD_MAX_BYTES 65536

static struct nodes nodes;
static unsigned gone;

static void on_gone(void *arg, int wd)
{
	(void)arg;
	(void)wd;
	gone++;
}

static int setup(void **state)
{
	(void)state;
	memset(&nodes, 0, sizeof(nodes));
	gone = 0;
	return nodes_add(&nodes, NULL, "", 1) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	if (nodes.root)
		nodes_remove(&nodes, nodes.root, on_gone, NULL);
	assert_int_equal(nodes.count, 0);
	return 0;
}

static void check_path(const struct node *node, const char *name, const char *expected)
{
	char space[64];
	struct str path;

	assert_int_equal(node_path(node, name, space, sizeof(space), &path), 0);
	assert_int_equal(path.n, strlen(expected));
	assert_memory_equal(path.p, expected, path.n);
}

static void nodes_are_found_by_number_and_by_name(void **state)
{
	struct node *a = nodes_add(&nodes, nodes.root, "a", 2);
	struct node *same_bucket = nodes_add(&nodes, nodes.root, "b", 2 + NODES_BUCKETS);

	(void)state;
	assert_ptr_equal(nodes_find(&nodes, 2), a);
	assert_ptr_equal(nodes_find(&nodes, 2 + NODES_BUCKETS), same_bucket);
	assert_null(nodes_find(&nodes, 3));
	assert_null(nodes_find(&nodes, -1));
	assert_ptr_equal(node_child(nodes.root, "b"), same_bucket);
	assert_null(node_child(nodes.root, "c"));
	assert_null(node_child(a, "b"));
	assert_int_equal(nodes.count, 3);
}

static void paths_are_names_from_the_root_on(void **state)
{
	struct node *a = nodes_add(&nodes, nodes.root, "a", 2), *b = nodes_add(&nodes, a, "bb", 3);
	char space[6];
	struct str path = { "untouched", 9 };

	(void)state;
	check_path(nodes.root, "", "");
	check_path(nodes.root, "x", "x");
	check_path(a, "", "a");
	check_path(b, "", "a/bb");
	check_path(b, "file", "a/bb/file");
	assert_int_equal(node_path(b, "f", space, sizeof(space), &path), 0); /* just fits */
	assert_memory_equal(path.p, "a/bb/f", 6);
	path = (struct str){ "untouched", 9 };
	assert_int_equal(node_path(b, "fi", space, sizeof(space), &path), -ENAMETOOLONG);
	assert_int_equal(node_path(nodes.root, "1234567", space, sizeof(space), &path),
			 -ENAMETOOLONG);
	assert_int_equal(path.n, 9);
}

static void a_renamed_directory_takes_along_what_is_below(void **state)
{
	struct node *a = nodes_add(&nodes, nodes.root, "a", 2), *b = nodes_add(&nodes, a, "b", 3);
	struct node *c = nodes_add(&nodes, b, "c", 4),
		    *other = nodes_add(&nodes, nodes.root, "other", 5);

	(void)state;
	node_tell(b, "kept");
	assert_int_equal(nodes_move(&nodes, &b, other, "a-longer-name"), 0);
	check_path(c, "f", "other/a-longer-name/c/f");
	assert_null(node_child(a, "b"));
	assert_ptr_equal(nodes_find(&nodes, 3), b);
	assert_true(node_was_told(b, "kept"));
	assert_int_equal(nodes.count, 5);
	assert_int_equal(nodes_move(&nodes, &b, c, "x"), -ELOOP); /* below itself */
	assert_int_equal(nodes_move(&nodes, &b, b, "x"), -ELOOP);
	check_path(b, "", "other/a-longer-name");
}

static void a_tree_is_removed_however_deep_it_is(void **state)
{
	struct node *top = nodes_add(&nodes, nodes.root, "top", 2), *node = top;
	struct node *beside = nodes_add(&nodes, nodes.root, "beside", 3);

	(void)state;
	for (int i = 0; i < DEEP; i++)
		node = nodes_add(&nodes, node, "d", 10 + i);
	nodes_remove(&nodes, top, on_gone, NULL);
	assert_int_equal(gone, DEEP + 1);
	assert_int_equal(nodes.count, 2);
	assert_null(nodes_find(&nodes, 10));
	assert_ptr_equal(nodes_find(&nodes, 3), beside);
	assert_ptr_equal(nodes.root->child, beside);
	nodes_remove(&nodes, nodes.root, on_gone, NULL);
	assert_null(nodes.root);
}

static void names_are_remembered_once_each(void **state)
{
	(void)state;
	assert_false(node_was_told(nodes.root, "a"));
	node_tell(nodes.root, "ab");
	node_tell(nodes.root, "a");
	node_tell(nodes.root, "a");
	assert_true(node_was_told(nodes.root, "a"));
	assert_true(node_was_told(nodes.root, "a"));
	assert_false(node_was_told(nodes.root, "a"));
	assert_false(node_was_told(nodes.root, "b")); /* the end of another name */
	assert_true(node_was_told(nodes.root, "ab"));
	assert_int_equal(nodes.root->told_bytes, 0);
}

static void no_more_names_are_remembered_than_fit(void **state)
{
	char name[16];

	(void)state;
	for (int i = 0; i < TOLD_MAX_BYTES / 8; i++) {
		(void)snprintf(name, sizeof(name), "%07d", i);
		node_tell(nodes.root, name);
	}
	assert_int_equal(nodes.root->told_bytes, TOLD_MAX_BYTES);
	node_tell(nodes.root, "x");
	assert_int_equal(nodes.root->told_bytes, TOLD_MAX_BYTES);
	assert_false(node_was_told(nodes.root, "x")); /* it may be reported twice */
	assert_true(node_was_told(nodes.root, "0000000"));
	node_tell(nodes.root, "x");
	assert_true(node_was_told(nodes.root, "x"));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(nodes_are_found_by_number_and_by_name),
		T(paths_are_names_from_the_root_on),
		T(a_renamed_directory_takes_along_what_is_below),
		T(a_tree_is_removed_however_deep_it_is),
		T(names_are_remembered_once_each),
		T(no_more_names_are_remembered_than_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
