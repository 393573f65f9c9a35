/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of cgroup v2: paths and pressure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sys/cgroup/cgroup.h"

static void own_path(void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *path;
	} cases[] = {
		{ "0::/system.slice/cay-warden.service\n", 0, "/system.slice/cay-warden.service" },
		{ "0::/\n", 0, "/" },
		{ "0::/a", 0, "/a" },
		{ "3:memory:/x\n2:pids:/y\n0::/z\n", 0, "/z" },
		{ "3:memory:/0::/x\n", -ENOENT, "" },
		{ "10::/x\n", -ENOENT, "" },
		{ "0::\n", -ENOENT, "" },
		{ "", -ENOENT, "" },
	};
	char path[CGROUP_PATH_SIZE], longest[CGROUP_PATH_SIZE + 8] = "0::/";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		path[0] = '\0';
		assert_int_equal(cgroup_path_parse(cases[i].text, path), cases[i].r);
		assert_string_equal(path, cases[i].path);
	}
	memset(longest + 4, 'a', CGROUP_PATH_SIZE - 2); /* one byte less than there is with NUL */
	assert_int_equal(cgroup_path_parse(longest, path), 0);
	assert_int_equal(strlen(path), CGROUP_PATH_SIZE - 1);
	memset(longest + 4, 'a', CGROUP_PATH_SIZE - 1);
	assert_int_equal(cgroup_path_parse(longest, path), -ENAMETOOLONG);
}

static void wanted_path(void **state)
{
	static const struct {
		const char *own, *wanted;
		int r;
		const char *path;
	} cases[] = {
		{ "/a/b", ".", 0, "/a/b" },
		{ "/", ".", 0, "/" },
		{ "/a/b", "../c", 0, "/a/c" },
		{ "/a/b", "../../c/d", 0, "/c/d" },
		{ "/a", "../", 0, "/" },
		{ "/a/b", "/c//d/", 0, "/c/d" },
		{ "/a/b", "/c/./d/../e", 0, "/c/e" },
		{ "/a", "../../c", -EINVAL, "" },
		{ "/a", "/..", -EINVAL, "" },
		{ "/a", "b", -EINVAL, "" },
		{ "/a", "", -EINVAL, "" },
		{ "/a", "..", -EINVAL, "" },
	};
	char path[CGROUP_PATH_SIZE], longest[CGROUP_PATH_SIZE + 8] = "/";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		path[0] = '\0';
		assert_int_equal(cgroup_path_resolve(cases[i].own, cases[i].wanted, path),
				 cases[i].r);
		assert_string_equal(path, cases[i].path);
	}
	memset(longest + 1, 'a', CGROUP_PATH_SIZE - 2);
	assert_int_equal(cgroup_path_resolve("/", longest, path), 0);
	assert_string_equal(path, longest);
	memset(longest + 1, 'a', CGROUP_PATH_SIZE - 1);
	assert_int_equal(cgroup_path_resolve("/", longest, path), -ENAMETOOLONG);
}

static void pressure(void **state)
{
	static const char both[] = "some avg10=1.25 avg60=0.50 avg300=0.00 total=123456\n"
				   "full avg10=100.00 avg60=0.00 avg300=0.00 total=7\n";
	static const char *const broken[] = {
		"",
		"some\n",
		"some avg10=1.25\n",
		"some avg10=x avg60=0 total=1\n",
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"some avg10=101.00 avg60=0.00 avg300=0.00 total=1\n",
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull\n",
	};
	struct stall stall = { 0 };

	(void)state;
	assert_int_equal(cgroup_stall_parse(both, &stall), 0);
	assert_int_equal(stall.some_us, 123456);
	assert_int_equal(stall.full_us, 7);
	assert_int_equal(stall.some_percent, 125);
	assert_int_equal(stall.full_percent, 10000);
	/* cpu.pressure before 5.13 */
	assert_int_equal(
		cgroup_stall_parse("some avg10=0.07 avg60=0.00 avg300=0.00 total=9\n", &stall), 0);
	assert_int_equal(stall.some_percent, 7);
	assert_int_equal(stall.full_us, 0);
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		assert_int_equal(cgroup_stall_parse(broken[i], &stall), -EINVAL);
	assert_int_equal(stall.some_us, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_path),
		cmocka_unit_test(wanted_path),
		cmocka_unit_test(pressure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
