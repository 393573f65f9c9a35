/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "face/preview/visit.h"

#define DOMAIN "cay.localhost"

static struct http_header fields[4];
static struct arena arena;

static struct http_req request(const char *host, const char *query)
{
	return (struct http_req){ .arena = &arena,
				  .host = str_of(host),
				  .path = STR_LIT("/x"),
				  .query = str_of(query),
				  .target = str_of(query[0] ? "/x?" : "/x"),
				  .headers = fields };
}

static void test_hosts(void **state)
{
	static const struct {
		const char *host;
		enum address_kind kind;
		uint16_t port;
		const char *id;
	} samples[] = {
		{ "8080-abc." DOMAIN, ADDRESS_OK, 8080, "abc" },
		{ "8080-abc." DOMAIN ".", ADDRESS_OK, 8080, "abc" },
		{ "1-0." DOMAIN, ADDRESS_OK, 1, "0" },
		{ "65535-abc." DOMAIN, ADDRESS_OK, 65535, "abc" },
		{ "65536-abc." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "0-abc." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "-abc." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "80-." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "80-a-b." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "80-a.b." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "+80-abc." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ "x." DOMAIN, ADDRESS_BAD, 0, NULL },
		{ DOMAIN, ADDRESS_NONE, 0, NULL },
		{ "." DOMAIN, ADDRESS_NONE, 0, NULL },
		{ "80-abc.x" DOMAIN, ADDRESS_NONE, 0, NULL },
		{ "80-abc." DOMAIN ".evil.test", ADDRESS_NONE, 0, NULL },
		{ "localhost", ADDRESS_NONE, 0, NULL },
		{ "", ADDRESS_NONE, 0, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct http_req req = request(samples[i].host, "");
		struct address address;

		assert_int_equal(address_find(DOMAIN, &req, &address), samples[i].kind);
		if (samples[i].kind != ADDRESS_OK)
			continue;
		assert_int_equal(address.port, samples[i].port);
		assert_true(str_is(address.id, samples[i].id));
		assert_false(address.by_header);
	}
}

static void test_headers(void **state)
{
	struct http_req req = request("localhost", "");
	struct address address;

	(void)state;
	fields[0] = (struct http_header){ STR_LIT("cay-sandbox-id"), STR_LIT("web") };
	fields[1] = (struct http_header){ STR_LIT("Cay-Sandbox-Port"), STR_LIT("80") };
	req.header_count = 1;
	assert_int_equal(address_find(DOMAIN, &req, &address), ADDRESS_BAD);
	req.header_count = 2;
	assert_int_equal(address_find(DOMAIN, &req, &address), ADDRESS_OK);
	assert_true(address.by_header && !address.e2b && address.port == 80);
	fields[0].name = STR_LIT("E2b-Sandbox-Id");
	fields[1].name = STR_LIT("e2b-sandbox-port");
	assert_int_equal(address_find(DOMAIN, &req, &address), ADDRESS_OK);
	assert_true(address.by_header && address.e2b);
	req.host = STR_LIT("81-abc." DOMAIN); /* the host says more than headers */
	assert_int_equal(address_find(DOMAIN, &req, &address), ADDRESS_OK);
	assert_true(!address.by_header && !address.e2b && address.port == 81);
}

static void test_token_leaves_the_path(void **state)
{
	static const struct {
		const char *query, *token, *path;
	} samples[] = {
		{ "cay_token=t", "t", "/x" },
		{ "a=1&cay_token=t&b=2", "t", "/x?a=1&b=2" },
		{ "cay_token=t&cay_token=u&a", "t", "/x?a" },
		{ "a=cay_token", "", "/x?a=cay_token" },
		{ "xcay_token=t", "", "/x?xcay_token=t" },
		{ "a=1&&b", "", "/x?a=1&&b" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct http_req req = request("80-abc." DOMAIN, samples[i].query);
		struct credentials found;

		credentials_find(&req, &found);
		assert_true(str_is(found.token, samples[i].token));
		assert_string_equal(address_path(&req, found.by_query), samples[i].path);
	}
}

#define DIGITS "0123456789abcdef0123456789abcdef01234567"

static void test_credentials(void **state)
{
	struct http_req req = request("80-abc." DOMAIN, "");
	struct credentials found;

	(void)state;
	assert_true(address_is_key(STR_LIT("cay_" DIGITS)));
	assert_true(address_is_key(STR_LIT("e2b_" DIGITS)));
	assert_false(address_is_key(STR_LIT("cay_" DIGITS "0")));
	assert_false(address_is_key(STR_LIT("cay_0123456789ABCDEF0123456789abcdef01234567")));
	fields[0] =
		(struct http_header){ STR_LIT("Authorization"), STR_LIT("bearer  cay_" DIGITS) };
	fields[1] = (struct http_header){ STR_LIT("Cookie"), STR_LIT("a=1;cay_preview=c; b") };
	fields[2] = (struct http_header){ STR_LIT("E2B-Traffic-Access-Token"), STR_LIT("t") };
	req.header_count = 3;
	credentials_find(&req, &found);
	assert_true(str_is(found.key, "cay_" DIGITS));
	assert_true(str_is(found.token, "c"));
	assert_true(str_is(found.traffic, "t"));
	assert_false(found.by_query);
	req.secure = true; /* then only a cookie that no other host can have set */
	credentials_find(&req, &found);
	assert_int_equal(found.token.n, 0);
	fields[1].value = STR_LIT("cay_preview=planted; __Host-cay_preview=d");
	credentials_find(&req, &found);
	assert_true(str_is(found.token, "d"));
	req.secure = false;
	fields[1].value = STR_LIT("a=1;cay_preview=c; b");
	fields[0].value = STR_LIT("Bearer theirs");
	req.header_count = 1;
	credentials_find(&req, &found);
	assert_int_equal(found.key.n, 0);
}

static int setup(void **state)
{
	(void)state;
	arena_init(&arena, 65536);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_token_leaves_the_path),
		cmocka_unit_test(test_credentials),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
