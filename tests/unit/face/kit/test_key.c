/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request's API key is, and that a repeated header is an error in every order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/key.h"
#include "http/server/server.h"

#define BEARER(text)                                    \
	{                                               \
		STR_LIT("Authorization"), STR_LIT(text) \
	}
#define API_KEY(text)                               \
	{                                           \
		STR_LIT("x-api-key"), STR_LIT(text) \
	}

static int read_key(struct http_header *headers, size_t n, enum face_key_order order,
		    struct str *ret)
{
	struct http_req req = { .headers = headers, .header_count = n };

	return face_key_read(&req, order, ret);
}

static void expect(struct http_header *headers, size_t n, enum face_key_order order,
		   const char *want)
{
	struct str got;

	assert_int_equal(read_key(headers, n, order, &got), 0);
	if (!want)
		assert_null(got.p);
	else
		assert_true(str_is(got, want));
}

static void each_header_alone(void **state)
{
	struct http_header by_bearer[] = { BEARER("bEaReR  k1 ") };
	struct http_header by_key[] = { API_KEY("k2") };
	struct http_header by_password[] = { BEARER("Basic eDp5") };
	struct http_header empty[] = { BEARER("Bearer ") };

	(void)state;
	for (int order = FACE_KEY_BEARER_FIRST; order <= FACE_KEY_X_API_KEY_FIRST; order++) {
		expect(NULL, 0, order, NULL);
		expect(by_bearer, 1, order, "k1");
		expect(by_key, 1, order, "k2");
		expect(by_password, 1, order, NULL);
		expect(empty, 1, order, NULL);
	}
}

static void the_order_decides_between_both(void **state)
{
	struct http_header both[] = { API_KEY("k2"), BEARER("Bearer k1") };
	struct http_header password[] = { API_KEY("k2"), BEARER("Basic eDp5") };

	(void)state;
	expect(both, 2, FACE_KEY_BEARER_FIRST, "k1");
	expect(both, 2, FACE_KEY_X_API_KEY_FIRST, "k2");
	expect(password, 2, FACE_KEY_BEARER_FIRST, NULL);
	expect(password, 2, FACE_KEY_X_API_KEY_FIRST, "k2");
}

static void a_repeated_header_is_an_error(void **state)
{
	struct http_header bearers[] = { BEARER("Bearer k1"), API_KEY("k2"), BEARER("Bearer k1") };
	struct http_header keys[] = { API_KEY("k1"), BEARER("Bearer k2"), API_KEY("k1") };
	struct str got;

	(void)state;
	for (int order = FACE_KEY_BEARER_FIRST; order <= FACE_KEY_X_API_KEY_FIRST; order++) {
		assert_int_equal(read_key(bearers, 3, order, &got), -EINVAL);
		assert_int_equal(read_key(keys, 3, order, &got), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_header_alone),
		cmocka_unit_test(the_order_decides_between_both),
		cmocka_unit_test(a_repeated_header_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
