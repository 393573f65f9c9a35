/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1, the key of the opening, and messages from frames in any chunking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/websocket/sha1.h"
#include "http/websocket/code.h"
#include "http/websocket/frame.h"
#include "http/websocket/key.h"

static void check_sha1(struct str text, const char *want)
{
	unsigned char digest[SHA1_BYTES];
	char hex[2 * SHA1_BYTES + 1];

	sha1(digest, text);
	str_hex(hex, digest, sizeof(digest));
	assert_string_equal(hex, want);
}

static void test_sha1(void **state)
{
	static char million[1000000];

	(void)state;
	memset(million, 'a', sizeof(million));
	check_sha1(STR_LIT(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	check_sha1(STR_LIT("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
	check_sha1(STR_LIT("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
		   "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	check_sha1((struct str){ million, sizeof(million) },
		   "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
	/* Around the place where the length needs a block of its own. */
	check_sha1((struct str){ million, 55 }, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
	check_sha1((struct str){ million, 56 }, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
	check_sha1((struct str){ million, 63 }, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
	check_sha1((struct str){ million, 64 }, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
}

static void test_key(void **state)
{
	char answer[WEBSOCKET_ANSWER_LEN + 1], key[WEBSOCKET_KEY_LEN + 1];

	(void)state;
	websocket_key_answer(answer, STR_LIT("dGhlIHNhbXBsZSBub25jZQ=="));
	assert_string_equal(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_true(websocket_key_is_valid(STR_LIT("dGhlIHNhbXBsZSBub25jZQ==")));
	assert_false(websocket_key_is_valid(STR_LIT("")));
	assert_false(websocket_key_is_valid(STR_LIT("dGhlIHNhbXBsZSBub25jZQ=")));
	assert_false(websocket_key_is_valid(STR_LIT("dGhlIHNhbXBsZSBub25jZR=="))); /* spare bits */
	assert_false(websocket_key_is_valid(STR_LIT("dGhlIHNhbXBsZSBub25jZQAA")));
	assert_false(websocket_key_is_valid(STR_LIT("dGhlIHNhbXBsZSBub25-ZQ==")));
	for (int i = 0; i < 100; i++) {
		websocket_key_make(key);
		assert_true(websocket_key_is_valid(str_of(key)));
	}
}

struct tape {
	struct str bytes;
	size_t step; /* at most so many at once; then nothing, once */
	bool rest;
};

static size_t on_source(void *arg, void *dst, size_t n)
{
	struct tape *tape = arg;
	size_t take = MIN(MIN(n, tape->step), tape->bytes.n);

	tape->rest = !tape->rest;
	if (tape->rest || take == 0)
		return 0;
	memcpy(dst, tape->bytes.p, take);
	tape->bytes.p += take;
	tape->bytes.n -= take;
	return take;
}

static void put_frame(struct buf *out, unsigned int first, const char *payload, size_t n)
{
	unsigned char head[WEBSOCKET_HEAD_MAX], mask[4] = { 1, 2, 250, 0 };
	size_t head_len = websocket_put_head(head, WEBSOCKET_BINARY, n, mask);

	head[0] = (unsigned char)first;
	assert_int_equal(buf_append(out, head, head_len), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_putc(out, (char)(payload[i] ^ mask[i % 4])), 0);
}

static void test_any_chunking(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 7, 125, 4096, 1 << 20 };
	static char large[70000];
	struct buf wire;

	(void)state;
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * 7);
	buf_init(&wire, 1 << 20);
	put_frame(&wire, 0x82, large, sizeof(large)); /* 64-bit length */
	put_frame(&wire, 0x01, "f\xc3", 2);	      /* text, torn inside a character */
	put_frame(&wire, 0x89, "hi", 2);	      /* a ping between fragments */
	put_frame(&wire, 0x00, "", 0);
	put_frame(&wire, 0x80, "\xbc", 1);
	put_frame(&wire, 0x82, large, 300); /* 16-bit length */
	put_frame(&wire, 0x82, "", 0);
	put_frame(&wire, 0x8a, "", 0);
	put_frame(&wire, 0x88, "\x03\xe8 bye", 6);
	for (size_t s = 0; s < ARRAY_LEN(steps); s++) {
		static const enum websocket_event want[] = {
			WEBSOCKET_GOT_MESSAGE, WEBSOCKET_GOT_PING,    WEBSOCKET_GOT_MESSAGE,
			WEBSOCKET_GOT_MESSAGE, WEBSOCKET_GOT_MESSAGE, WEBSOCKET_GOT_PONG,
			WEBSOCKET_GOT_CLOSE,
		};
		static const size_t sizes[] = { sizeof(large), 2, 3, 300, 0, 0, 4 };
		struct tape tape = { buf_str(&wire), steps[s], false };
		struct websocket_reader reader;
		struct websocket_got got;
		size_t n = 0;

		assert_int_equal(
			websocket_reader_init(&reader, true, sizeof(large), on_source, &tape), 0);
		while (n < ARRAY_LEN(want)) {
			enum websocket_event event = websocket_reader_next(&reader, &got);

			if (event == WEBSOCKET_GOT_NOTHING)
				continue;
			assert_int_equal(event, want[n]);
			assert_int_equal(got.bytes.n, sizes[n]);
			assert_int_equal(got.is_text, n == 2);
			if (n == 0 || n == 3)
				assert_memory_equal(got.bytes.p, large, got.bytes.n);
			if (n == 2)
				assert_true(str_is(got.bytes, "f\xc3\xbc"));
			n++;
		}
		assert_int_equal(got.code, 1000);
		websocket_reader_done(&reader);
	}
	buf_done(&wire);
}

static int verdict(const char *bytes, size_t n, bool masked, size_t limit)
{
	struct tape tape = { { bytes, n }, 1, false };
	struct websocket_reader reader;
	struct websocket_got got;
	int code = 0;

	assert_int_equal(websocket_reader_init(&reader, masked, limit, on_source, &tape), 0);
	while (tape.bytes.n || tape.rest) {
		enum websocket_event event = websocket_reader_next(&reader, &got);

		if (event == WEBSOCKET_GOT_BAD) {
			code = got.code;
			assert_int_equal(websocket_reader_next(&reader, &got),
					 WEBSOCKET_GOT_NOTHING);
			break;
		}
		if (event == WEBSOCKET_GOT_CLOSE)
			code = got.code;
	}
	websocket_reader_done(&reader);
	return code;
}

#define CLIENT(s) verdict(s, sizeof(s) - 1, true, 10)
#define SERVER(s) verdict(s, sizeof(s) - 1, false, 10)
#define M "\0\0\0\0" /* a mask that changes nothing */

static void test_bad_frames(void **state)
{
	(void)state;
	assert_int_equal(CLIENT("\x82\x01x"), 1002);			/* not masked */
	assert_int_equal(SERVER("\x82\x81" M "x"), 1002);		/* masked */
	assert_int_equal(CLIENT("\xc2\x81" M "x"), 1002);		/* a reserved bit */
	assert_int_equal(CLIENT("\x83\x81" M "x"), 1002);		/* an unknown opcode */
	assert_int_equal(CLIENT("\x8b\x80" M), 1002);			/* an unknown control */
	assert_int_equal(CLIENT("\x80\x81" M "x"), 1002);		/* continues nothing */
	assert_int_equal(CLIENT("\x02\x81" M "x\x82\x81" M "y"), 1002); /* a new one inside */
	assert_int_equal(CLIENT("\x09\x80" M), 1002);			/* a control in fragments */
	assert_int_equal(CLIENT("\x89\xfe\x00\x7e" M), 1002);		/* a long control */
	assert_int_equal(CLIENT("\x82\xfe\x00\x05" M "12345"), 1002);	/* a length in too many */
	assert_int_equal(CLIENT("\x82\xff\0\0\0\0\0\0\1\0" M "1"), 1002);
	assert_int_equal(CLIENT("\x82\xff\x80\0\0\0\0\0\0\0" M "1"), 1002);
	assert_int_equal(CLIENT("\x82\x8a" M "1234567890"), 0); /* at the limit */
	assert_int_equal(CLIENT("\x82\x8b" M "1"), 1009);	/* above it */
	assert_int_equal(CLIENT("\x02\x86" M "123456\x80\x85" M "1"), 1009);
	assert_int_equal(CLIENT("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff" M "1"), 1009);
	assert_int_equal(CLIENT("\x81\x82" M "\xc3\x28"), 1007);
	assert_int_equal(CLIENT("\x81\x81" M "\xc3"), 1007);	     /* torn at the end */
	assert_int_equal(CLIENT("\x81\x83" M "\xed\xa0\x80"), 1007); /* a surrogate */
	assert_int_equal(CLIENT("\x82\x82" M "\xc3\x28"), 0);	     /* but bytes are bytes */
	assert_int_equal(CLIENT("\x88\x80" M), 1005);
	assert_int_equal(CLIENT("\x88\x81" M "\x03"), 1002);
	assert_int_equal(CLIENT("\x88\x82" M "\x03\xed"), 1002); /* 1005 is never sent */
	assert_int_equal(CLIENT("\x88\x82" M "\x00\x00"), 1002);
	assert_int_equal(CLIENT("\x88\x83" M "\x03\xe8\xff"), 1007);
	assert_int_equal(CLIENT("\x88\x82" M "\x0b\xb8"), 3000);
}

static void test_close_payload(void **state)
{
	char dst[WEBSOCKET_CONTROL_MAX], reason[200];

	(void)state;
	memset(reason, 'r', sizeof(reason));
	assert_int_equal(websocket_put_close(dst, 1000, STR_LIT("bye")), 5);
	assert_memory_equal(dst, "\x03\xe8 bye" + 0, 2);
	assert_int_equal(websocket_put_close(dst, 1000, (struct str){ reason, 123 }), 125);
	assert_int_equal(websocket_put_close(dst, 1000, (struct str){ reason, 124 }), 125);
	memcpy(reason + 122, "\xc3\xbc", 2); /* would be torn */
	assert_int_equal(websocket_put_close(dst, 1000, (struct str){ reason, 124 }), 124);
	assert_int_equal(websocket_put_close(dst, WEBSOCKET_NO_CODE, STR_LIT("x")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha1),	      cmocka_unit_test(test_key),
		cmocka_unit_test(test_any_chunking),  cmocka_unit_test(test_bad_frames),
		cmocka_unit_test(test_close_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
