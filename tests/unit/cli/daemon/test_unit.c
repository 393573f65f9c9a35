/* SPDX-License-Identifier: Apache-2.0 */
/* Which of cay's systemd units a process is in. */
#include "check.h"

#include <unistd.h>

#include "cli/daemon/unit.h"

static const char *in(const char *text)
{
	const char *unit = unit_in(str_of(text));

	return unit != NULL ? unit : "none";
}

static void test_finds_the_unit(void **state)
{
	assert_string_equal(in("0::/system.slice/cayd.service\n"), "cayd.service");
	assert_string_equal(in("0::/system.slice/cay-warden.service"), "cay-warden.service");
	/* with a group of its own below, in a container, and on version 1 */
	assert_string_equal(in("0::/system.slice/cayd.service/main\n"), "cayd.service");
	assert_string_equal(in("0::/docker/0123/system.slice/cayd.service\n"), "cayd.service");
	assert_string_equal(in("5:memory:/\n1:name=systemd:/system.slice/cayd.service\n0::/\n"),
			    "cayd.service");
}

static void test_others_are_in_none(void **state)
{
	assert_string_equal(in(""), "none");
	assert_string_equal(in("0::/\n"), "none");
	assert_string_equal(in("0::/user.slice/user-0.slice/session-3.scope\n"), "none");
	assert_string_equal(in("0::/system.slice/run-r12.scope\n"), "none");
	assert_string_equal(in("0::/system.slice/ssh.service\n"), "none");
	assert_string_equal(in("0::/system.slice/my-cayd.service\n"), "none");
	assert_string_equal(in("0::/system.slice/cayd.service.d\n"), "none");
	assert_string_equal(in("1:name=cayd.service:/\n"), "none");
}

static void test_processes(void **state)
{
	assert_null(unit_of(getpid()));
	assert_null(unit_of(0x3fffffff)); /* there is none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_the_unit),
		cmocka_unit_test(test_others_are_in_none),
		cmocka_unit_test(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
