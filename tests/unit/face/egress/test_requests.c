/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on one connection through the egress proxy: where each begins, and what ends the
 * parsing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "face/egress/requests.h"

#define GET "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
#define OTHER "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n"
#define UPGRADE_TO(protocol) \
	"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: " protocol "\r\n\r\n"
#define UPGRADE "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"

/*
 * Parses everything: names in order, each followed by a space; '!' for an invalid one, '?' for
 * waiting.
 */
static void walk(struct requests *r, const char *p, size_t n, size_t step, char names[256])
{
	size_t done = 0, have = 0, used;
	struct sniff said;

	names[0] = '\0';
	while (have < n) {
		have = MIN(have + step, n);
		for (bool more = true; more && done < have;) {
			enum requests_next next =
				requests_next(r, p + done, have - done, &used, &said);

			if (next == REQUESTS_NEW)
				(void)snprintf(names + strlen(names), 256 - strlen(names), "%s ",
					       said.odd ? "odd" : said.name);
			if (next == REQUESTS_BAD || next == REQUESTS_WAIT) {
				(void)strcat(names, next == REQUESTS_BAD ? "!" : "?");
				return;
			}
			more = next != REQUESTS_MORE;
			done += more ? used : 0;
		}
	}
}

static void each_host_is_seen(void **state)
{
	static const struct {
		const char *bytes, *names;
	} cases[] = {
		{ GET OTHER GET, "a.test b.test a.test " },
		{ "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nGET" OTHER,
		  "a.test b.test " },
		{ "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "20\r\n" OTHER "\r\n0\r\n\r\n" OTHER,
		  "a.test b.test " },
		{ GET "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "a.test  " },
		{ GET "GET / HTTP/1.1\r\nHost: a_b c\r\n\r\n", "a.test !" },
		{ GET "GET / HTTP/1.1\r\nHost: -.test\r\n\r\n", "a.test odd " },
		{ GET "GET / HTTP/1.1\r\n\r\n", "a.test !" },
		{ GET "\r\n" GET, "a.test a.test " },
		{ "\r\n\r\n" GET, "a.test " },
		{ GET "\r\r\n" GET, "a.test !" },
		{ GET "\n" GET, "a.test !" },
		{ GET "rubbish\r\n\r\n", "a.test !" },
		{ "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
		  "a.test !" },
		{ UPGRADE OTHER, "a.test ?" },
		{ "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n" OTHER, "!" },
		{ GET UPGRADE, "a.test !" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step < 200; step += 13) {
			struct requests r = { 0 };
			char names[256];

			walk(&r, cases[i].bytes, strlen(cases[i].bytes), step, names);
			assert_string_equal(names, cases[i].names);
		}
}

static void a_switch_is_the_servers_to_say(void **state)
{
	static const struct {
		const char *ask, *answer;
		enum requests_state then;
	} cases[] = {
		{ UPGRADE, "HTTP/1.1 101 ok", REQUESTS_OPEN },
		{ UPGRADE_TO("websocket"), "HTTP/1.1 101 ok", REQUESTS_OPEN },
		/* These carry names again, which would not be read: they are not entered. */
		{ UPGRADE_TO("h2c"), "HTTP/1.1 101 ok", REQUESTS_HEAD },
		{ UPGRADE_TO("x, H2C"), "HTTP/1.1 101 ok", REQUESTS_HEAD },
		{ UPGRADE_TO("tls/1.0,x"), "HTTP/1.1 101 ok", REQUESTS_HEAD },
		{ UPGRADE_TO("x\r\nUpgrade: h2c"), "HTTP/1.1 101 ok", REQUESTS_HEAD },
		{ UPGRADE, "HTTP/1.1 200 ok", REQUESTS_HEAD },
		{ UPGRADE, "HTTP/1.1 100 go", REQUESTS_HEAD },
		{ UPGRADE, "XTTP/1.1 101 ok", REQUESTS_HEAD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct requests r = { 0 };
		struct sniff said;
		size_t n;

		assert_int_equal(requests_next(&r, cases[i].ask, strlen(cases[i].ask), &n, &said),
				 REQUESTS_NEW);
		for (size_t k = 0; k < REQUESTS_STATUS_BYTES; k++) {
			assert_int_equal(r.state, REQUESTS_ASKED);
			requests_answer(&r, cases[i].answer + k, 1);
		}
		assert_int_equal(r.state, cases[i].then);
		requests_answer(&r, "HTTP/1.1 101", 12); /* later bytes mean nothing */
		assert_int_equal(r.state, cases[i].then);
	}
}

static void a_head_has_a_limit(void **state)
{
	static char bytes[SNIFF_MAX + 64];
	struct sniff said;
	size_t n;

	(void)state;
	for (int over = 0; over <= 1; over++) {
		struct requests r = { 0 };
		size_t size = SNIFF_MAX + (size_t)over;
		int at = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a.test\r\nX: ");

		memset(bytes + at, 'x', size - (size_t)at - 4);
		memcpy(bytes + size - 4, "\r\n\r\n", 4);
		assert_int_equal(requests_next(&r, bytes, size, &n, &said),
				 over ? REQUESTS_BAD : REQUESTS_NEW);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_host_is_seen),
		cmocka_unit_test(a_switch_is_the_servers_to_say),
		cmocka_unit_test(a_head_has_a_limit),
	};

	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
