/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/server/conn.h"

static struct http_server server;
static struct http_conn conn;
static struct http_header headers[4];
static struct http_req req;

static void ask(const char *peer, const char *proto, const char *list)
{
	conn = (struct http_conn){ .server = &server };
	(void)snprintf(conn.peer.address, sizeof(conn.peer.address), "%s", peer);
	headers[0] = (struct http_header){ STR_LIT("Host"), STR_LIT("x") };
	headers[1] = (struct http_header){ STR_LIT("X-Forwarded-Proto"), str_of(proto) };
	headers[2] = (struct http_header){ STR_LIT("x-forwarded-for"), str_of(list) };
	req = (struct http_req){ .headers = headers, .header_count = 3 };
	http_forwarded_read(&conn, &req);
}

static void assert_client(const char *want)
{
	assert_true(str_is(req.client, want));
}

static void no_proxy_is_trusted_without_a_list(void **state)
{
	(void)state;
	assert_int_equal(http_server_trust(&server, ""), 0);
	ask("127.0.0.1", "https", "9.9.9.9");
	assert_false(req.secure);
	assert_client("127.0.0.1");
}

static void a_trusted_proxys_word_counts(void **state)
{
	(void)state;
	assert_int_equal(http_server_trust(&server, "127.0.0.1, 10.0.0.0/8 fd00::/8"), 0);
	ask("127.0.0.1", "https", "9.9.9.9");
	assert_true(req.secure);
	assert_client("9.9.9.9");
	ask("::ffff:127.0.0.1", "HTTPS", "");
	assert_true(req.secure);
	ask("fd12::1", "http", "2001:db8::7");
	assert_false(req.secure);
	assert_client("2001:db8::7");
	ask("11.0.0.1", "https", "9.9.9.9");
	assert_false(req.secure);
	assert_client("11.0.0.1");
	ask("", "https", "9.9.9.9"); /* a Unix socket */
	assert_false(req.secure);
}

static void what_the_client_wrote_itself_does_not_count(void **state)
{
	(void)state;
	assert_int_equal(http_server_trust(&server, "127.0.0.1 10.0.0.0/8"), 0);
	ask("127.0.0.1", "https", "1.1.1.1, 8.8.8.8, 10.0.0.7");
	assert_client("8.8.8.8");
	ask("127.0.0.1", "https", "1.1.1.1, nonsense");
	assert_client("127.0.0.1");
	ask("127.0.0.1", "https", "1.1.1.1, , 10.0.0.7");
	assert_client("10.0.0.7");
	ask("127.0.0.1", "evil, https", ",,,");
	assert_true(req.secure);
	ask("127.0.0.1", "https, http", "");
	assert_false(req.secure);
}

static void a_list_is_taken_whole_or_not_at_all(void **state)
{
	static const char *const bad[] = { "127.0.0.1/33", "10.0.0.0/", "localhost",
					   "::1/129",	   "1.2.3",	"10.0.0.0/8/8" };

	(void)state;
	assert_int_equal(http_server_trust(&server, "127.0.0.1"), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(http_server_trust(&server, bad[i]), -EINVAL);
	ask("127.0.0.1", "https", "");
	assert_true(req.secure);
	assert_int_equal(http_server_trust(&server, "0.0.0.0/0"), 0);
	ask("8.8.8.8", "https", "");
	assert_true(req.secure);
	ask("2001:db8::1", "https", "");
	assert_false(req.secure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_proxy_is_trusted_without_a_list),
		cmocka_unit_test(a_trusted_proxys_word_counts),
		cmocka_unit_test(what_the_client_wrote_itself_does_not_count),
		cmocka_unit_test(a_list_is_taken_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
