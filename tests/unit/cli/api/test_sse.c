/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events in any chunking. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/api/sse.h"

static char seen[4096];

static int on_event(void *arg, struct str name, struct str id, struct str data)
{
	size_t n = strlen(seen);

	(void)arg;
	(void)snprintf(seen + n, sizeof(seen) - n, "[%.*s|%.*s|%.*s]", (int)name.n, name.p,
		       (int)id.n, id.p, (int)data.n, data.p);
	return str_is(data, "stop") ? 7 : str_is(data, "fail") ? -EIO : 0;
}

static int feed(const char *text, size_t step)
{
	struct event_reader reader;
	size_t n = strlen(text);
	int r = 0;

	seen[0] = '\0';
	event_init(&reader, on_event, NULL);
	for (size_t at = 0; at < n && r == 0; at += step)
		r = event_feed(&reader, text + at, MIN(step, n - at));
	event_done(&reader);
	return r;
}

static void test_any_chunking(void **state)
{
	for (size_t step = 1; step < 80; step++) {
		assert_int_equal(
			feed(": comment\n\nevent: a\nid: 1:2\ndata: {}\n\n"
			     "event: b\r\ndata: x\r\ndata:y\r\n\r\n"
			     "event: dropped\n\nunknown: z\ndata\n\ndata: last\n\ndata: cut",
			     step),
			0);
		assert_string_equal(seen, "[a|1:2|{}][b|1:2|x\ny][|1:2|][|1:2|last]");
	}
}

static void test_stops(void **state)
{
	assert_int_equal(feed("data: stop\n\ndata: more\n\n", 100), 7);
	assert_string_equal(seen, "[||stop]");
	assert_int_equal(feed("data: fail\n\n", 3), -EIO);
}

static void test_limits(void **state)
{
	static char line[65536];
	struct event_reader reader;
	int r = 0;

	memset(line, 'x', sizeof(line));
	event_init(&reader, on_event, NULL);
	for (size_t n = 0; n <= EVENT_LIMIT_BYTES && r == 0; n += sizeof(line))
		r = event_feed(&reader, line, sizeof(line));
	assert_int_equal(r, -EPROTO);
	event_done(&reader);
	assert_int_equal(
		feed("event: 0123456789012345678901234567890123456789012345678901234567890123"
		     "\n\n",
		     9),
		-EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_chunking),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
