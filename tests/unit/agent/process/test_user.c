/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers of /etc/passwd and /etc/group, which belong to the sandbox. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/process/user.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
			     "broken\n"
			     "bad:x:-1:0::/:\n"
			     "bad2:x:1:70000::/:\n"
			     "bad3:x:1:1::/:/bin/sh:extra\n"
			     "bad4:x: 1:1::/:/bin/sh\n"
			     "Upper:x:5:5::/:/bin/sh\n"
			     "sandbox:x:1000:1000:,,,:/home/sandbox:/bin/bash\n"
			     "nohome:x:7:8:::\n"
			     "twin:x:1000:4::/twin:/bin/sh\n"
			     "last:x:9:9::/last:/bin/sh";

static int find(const char *name, struct user *ret)
{
	return user_find(str_of(passwd), str_of(name), ret);
}

static void test_user_find(void **state)
{
	static const char *const never[] = {
		"",	      "1000:0", "-1",	  "0x0",
		" 1",	      "1 ",	"01",	  "65536",
		"4294967296", "+1",	"root\n", "Root",
		"a/b",	      "..",	"1e3",	  "99999999999999999999",
		"-root"
	};
	struct user user;

	assert_int_equal(find("root", &user), 0);
	assert_int_equal(user.uid, 0);
	assert_string_equal(user.home, "/root");
	assert_int_equal(find("sandbox", &user), 0);
	assert_int_equal(user.gid, 1000);
	assert_int_equal(find("1000", &user), 0);
	assert_string_equal(user.name, "sandbox"); /* the first with this id */
	assert_int_equal(find("nohome", &user), 0);
	assert_string_equal(user.home, "/");
	assert_int_equal(find("last", &user), 0);
	assert_int_equal(find("4242", &user), 0);
	assert_int_equal(user.gid, 4242);
	assert_int_equal(find("nobody", &user), -ENOENT);
	for (int i = 1; i < 5; i++) {
		char bad[8];

		(void)snprintf(bad, sizeof(bad), i == 1 ? "bad" : "bad%d", i);
		assert_int_equal(find(bad, &user), -ENOENT);
	}
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		assert_int_equal(find(never[i], &user), -EINVAL);
}

static void test_user_groups(void **state)
{
	struct user user = { .gid = 1000, .name = "sandbox" };
	struct user many = { .gid = 1, .name = "u" };
	char text[USER_GROUPS_MAX * 40] = "";

	user_add_groups(STR_LIT("sudo:x:27:user,sandbox\nadm:x:4:sandboxer\nbad:x:x:sandbox\n"
				"big:x:99999:sandbox\nsandbox:x:1000:sandbox\nfew:x:1\n"
				"docker:x:50:sandbox"),
			&user);
	assert_int_equal(user.group_count, 3);
	assert_int_equal(user.groups[0], 1000);
	assert_int_equal(user.groups[1], 27);
	assert_int_equal(user.groups[2], 50);
	for (int i = 0; i < USER_GROUPS_MAX * 2; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "g%d:x:%d:u\n", i,
			       100 + i);
	user_add_groups(str_of(text), &many);
	assert_int_equal(many.group_count, USER_GROUPS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_user_find),
		cmocka_unit_test(test_user_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
