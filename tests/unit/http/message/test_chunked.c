/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/message/chunked.h"

static char out[8192];
static size_t out_len;
static size_t consumed;

static int feed(struct http_chunked *c, const char *p, size_t n)
{
	while (n) {
		struct str data;
		size_t used;
		int r = http_chunked_next(c, p, n, &used, &data);

		memcpy(out + out_len, data.p, data.n);
		out_len += data.n;
		consumed += used;
		if (r != 0)
			return r;
		assert_true(used > 0);
		p += used;
		n -= used;
	}
	return 0;
}

/* As a whole, byte by byte, and split in two at every position: always the same. */
static void same_for_every_split(const char *text, size_t n, int want, const char *body,
				 size_t rest)
{
	for (size_t cut = 0; cut <= n + 1; cut++) {
		struct http_chunked c;
		int r = 0;

		http_chunked_init(&c);
		out_len = consumed = 0;
		if (cut <= n) {
			r = feed(&c, text, cut);
			if (r == 0)
				r = feed(&c, text + cut, n - cut);
		} else {
			for (size_t i = 0; i < n && r == 0; i++)
				r = feed(&c, text + i, 1);
		}
		if (r != want)
			fail_msg("%s cut at %zu: want %d, got %d", text, cut, want, r);
		if (want == 1) {
			assert_int_equal(out_len, strlen(body));
			assert_memory_equal(out, body, out_len);
			assert_int_equal(n - consumed, rest);
		}
	}
}

static void good_bodies(void **state)
{
	static const struct {
		const char *text, *body;
		size_t rest;
	} samples[] = {
		{ "0\r\n\r\n", "", 0 },
		{ "5\r\nhello\r\n0\r\n\r\n", "hello", 0 },
		{ "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET / ", "hello world", 6 },
		{ "A\r\n0123456789\r\n00\r\n\r\n", "0123456789", 0 },
		{ "0000000000000002\r\nhi\r\n0\r\n\r\n", "hi", 0 },
		{ "2;a=b;c=\"d\"\r\nhi\r\n0;x\r\n\r\n", "hi", 0 },
		{ "2\r\nhi\r\n0\r\nX: y\r\nZ:\r\n\r\n", "hi", 0 },
		{ "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		same_for_every_split(samples[i].text, strlen(samples[i].text), 1, samples[i].body,
				     samples[i].rest);
}

static void bad_bodies(void **state)
{
	static const char *const samples[] = {
		"\r\n",
		"x\r\n",
		"-1\r\n",
		"+1\r\n",
		" 5\r\nhello",
		"5 \r\nhello",
		"0x5\r\nhello",
		"5\nhello",
		"5\rhello",
		"5\r\nhello0",
		"5\r\nhello\n0",
		"5\r\nhello\r0",
		"5\r\nhelloX\r\n",
		"5;a\nb\r\nhello",
		"5;\x01\r\nhello",
		"5;a\rb\r\nhello",
		"00000000000000005\r\nhello",
		"ffffffffffffffff\r\n",
		"8000000000000000\r\n",
		"0\r\n\n",
		"0\r\n\rX",
		"0\r\nX\r\n\r\n",
		"0\r\n: y\r\n\r\n",
		"0\r\nX : y\r\n\r\n",
		"0\r\n folded\r\n\r\n",
		"0\r\nX: a\nY: b\r\n\r\n",
		"0\r\nX: \x01\r\n\r\n",
		"0\r\nX: a\rb\r\n\r\n",
		"5 ;a\r\nhello",
		";a\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		same_for_every_split(samples[i], strlen(samples[i]), -EPROTO, "", 0);
}

static void unfinished_bodies_wait(void **state)
{
	const char *text = "5\r\nhello\r\n0\r\nX: y\r\n\r\n";

	(void)state;
	for (size_t n = 0; n < strlen(text); n++)
		same_for_every_split(text, n, 0, "", 0);
}

static int with_filler(const char *before, size_t filler, const char *after)
{
	struct http_chunked c;
	int r;

	http_chunked_init(&c);
	out_len = 0;
	r = feed(&c, before, strlen(before));
	for (size_t i = 0; i < filler && r == 0; i++)
		r = feed(&c, "a", 1);
	return r ? r : feed(&c, after, strlen(after));
}

static void extensions_and_trailers_are_bounded(void **state)
{
	struct http_chunked c;
	int r = 0;

	(void)state;
	assert_int_equal(with_filler("0;", HTTP_CHUNK_EXTENSION_MAX, "\r\n\r\n"), 1);
	assert_int_equal(with_filler("0;", HTTP_CHUNK_EXTENSION_MAX + 1, "\r\n\r\n"), -EPROTO);
	/* name, colon, value, CR; then the CR of the empty line */
	assert_int_equal(with_filler("0\r\nX:", HTTP_CHUNK_TRAILER_MAX - 4, "\r\n\r\n"), 1);
	assert_int_equal(with_filler("0\r\nX:", HTTP_CHUNK_TRAILER_MAX - 3, "\r\n\r\n"), -EPROTO);
	http_chunked_init(&c);
	for (int i = 0; i < 10000 && r == 0; i++) {
		out_len = 0;
		r = feed(&c, "1;abcdefg\r\nx\r\n", 14);
	}
	assert_int_equal(r, -EPROTO);
}

static void a_failed_body_stays_failed(void **state)
{
	struct http_chunked c;

	(void)state;
	http_chunked_init(&c);
	assert_int_equal(feed(&c, "x", 1), -EPROTO);
	assert_int_equal(feed(&c, "0\r\n\r\n", 5), -EPROTO);
}

static void heads_are_written(void **state)
{
	static const struct {
		size_t n;
		const char *text;
	} samples[] = { { 1, "1\r\n" },
			{ 15, "f\r\n" },
			{ 16, "10\r\n" },
			{ 65536, "10000\r\n" },
			{ SIZE_MAX, "ffffffffffffffff\r\n" } };
	char line[HTTP_CHUNK_HEAD_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		size_t n = http_chunk_head(line, samples[i].n);

		assert_int_equal(n, strlen(samples[i].text));
		assert_memory_equal(line, samples[i].text, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_bodies),
		cmocka_unit_test(bad_bodies),
		cmocka_unit_test(unfinished_bodies_wait),
		cmocka_unit_test(extensions_and_trailers_are_bounded),
		cmocka_unit_test(a_failed_body_stays_failed),
		cmocka_unit_test(heads_are_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
