/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/message/target.h"

static void test_good(void **state)
{
	static const struct {
		const char *url, *host, *authority, *path;
		unsigned port;
		bool secure;
	} rows[] = {
		{ "http://a", "a", "a", "/", 80, false },
		{ "https://a.example/", "a.example", "a.example", "/", 443, true },
		{ "http://a:8080/x?y=1&z", "a", "a:8080", "/x?y=1&z", 8080, false },
		{ "https://[::1]:9/p", "::1", "[::1]:9", "/p", 9, true },
		{ "http://127.0.0.1/%20", "127.0.0.1", "127.0.0.1", "/%20", 80, false },
		{ "http://A_b-c.D/", "A_b-c.D", "A_b-c.D", "/", 80, false },
		{ "http://a:65535", "a", "a:65535", "/", 65535, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_target t;

		assert_int_equal(http_target_parse(str_of(rows[i].url), &t), 0);
		assert_string_equal(t.host, rows[i].host);
		assert_true(str_is(t.authority, rows[i].authority));
		assert_true(str_is(t.path, rows[i].path));
		assert_int_equal(t.port, rows[i].port);
		assert_int_equal(t.secure, rows[i].secure);
	}
}

static void test_bad(void **state)
{
	static const char *const urls[] = {
		"",
		"http",
		"http:/a",
		"http://",
		"HTTP://a/",
		"ftp://a/",
		"http://user@a/",
		"http://user:pw@a/",
		"http://a:0/",
		"http://a:65536/",
		"http://a:x/",
		"http://a:/",
		"http://a:080/",
		"http://a/#f",
		"http://a/ b",
		"http://a/\x01",
		"http://a/\x80",
		"http://a?x=1",
		"http://a\\@b/",
		"http://[::1/",
		"http://[]/",
		"http://[::1]x/",
		"http://[fe80::1%25eth0]/",
		"http://.a/",
		"http://-a/",
		"http://a b/",
		"http:///x",
		"http://a\r\nX: y/",
		"//a/",
		"unix:/a",
	};
	char longer[HTTP_TARGET_URL_MAX + 16];
	struct http_target t;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(urls); i++)
		if (http_target_parse(str_of(urls[i]), &t) != -EINVAL)
			fail_msg("'%s' is taken", urls[i]);
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "http://h/", 9);
	assert_int_equal(http_target_parse((struct str){ longer, HTTP_TARGET_URL_MAX }, &t), 0);
	assert_int_equal(http_target_parse((struct str){ longer, HTTP_TARGET_URL_MAX + 1 }, &t),
			 -EINVAL);
	memcpy(longer, "http://", 7);
	longer[7] = 'h';
	longer[8] = 'h';
	assert_int_equal(http_target_parse((struct str){ longer, 7 + 253 }, &t), 0);
	assert_int_equal(http_target_parse((struct str){ longer, 7 + 254 }, &t), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),
					    cmocka_unit_test(test_bad) };

	return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
