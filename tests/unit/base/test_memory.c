/* SPDX-License-Identifier: Apache-2.0 */
/* arena and buf: behaviour at, below and above their limits. */
#include "check.h"

#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"

static void arena_respects_its_limit(void **state)
{
	struct arena arena;

	arena_init(&arena, 64);
	assert_non_null(arena_alloc(&arena, 48));
	assert_null(arena_alloc(&arena, 17)); /* rounds up to 32: over */
	assert_non_null(arena_alloc(&arena, 16));
	assert_null(arena_alloc(&arena, 1));
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 7));
	arena_done(&arena);
	arena_done(&arena);
}

static void arena_gives_zeroed_aligned_memory(void **state)
{
	struct arena arena;

	arena_init(&arena, 1 << 20);
	for (size_t size = 0; size < 300; size++) {
		unsigned char *p = arena_alloc(&arena, size);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xaa, size);
	}
	arena_done(&arena);
}

static void arena_reset_keeps_a_block_and_zeroes_again(void **state)
{
	struct arena arena;
	unsigned char *first, *again;

	arena_init(&arena, 1 << 20);
	first = arena_alloc(&arena, 100);
	memset(first, 0xff, 100);
	assert_non_null(arena_alloc(&arena, 100000)); /* a block of its own */
	arena_reset(&arena);
	assert_int_equal(arena.used_bytes, 0);
	again = arena_alloc(&arena, 100);
	assert_ptr_equal(first, again);
	assert_int_equal(again[99], 0);
	arena_done(&arena);
	arena_reset(&arena); /* of an empty one */
}

static void arena_copies_text(void **state)
{
	struct arena arena;

	arena_init(&arena, 4096);
	assert_string_equal(arena_strdup(&arena, "hello"), "hello");
	assert_string_equal(arena_dup(&arena, "hello", 4), "hell");
	assert_string_equal(arena_dup(&arena, NULL, 0), "");
	assert_string_equal(arena_printf(&arena, "%s-%d", "x", 7), "x-7");
	assert_null(arena_printf(&arena, "%5000d", 1));
	arena_done(&arena);
}

static void buf_refuses_one_byte_too_many(void **state)
{
	struct buf buf;

	buf_init(&buf, 10);
	assert_int_equal(buf_append(&buf, "0123456789", 10), 0);
	assert_int_equal(buf_putc(&buf, 'x'), -ENOBUFS);
	assert_int_equal(buf_len(&buf), 10);
	buf_consume(&buf, 1);
	assert_int_equal(buf_putc(&buf, 'x'), 0);
	assert_str(buf_str(&buf), "123456789x");
	assert_int_equal(buf_append(&buf, "", 0), 0);
	assert_int_equal(buf_append(&buf, "a", SIZE_MAX), -ENOBUFS);
	buf_done(&buf);
}

static void buf_is_a_queue(void **state)
{
	struct buf buf;
	unsigned in = 0, out = 0;

	buf_init(&buf, 4096);
	for (int round = 0; round < 2000; round++) {
		for (int i = 0; i < 7; i++)
			if (buf_putc(&buf, (char)in) == 0)
				in++;
		for (int i = 0; i < 6 && buf_len(&buf); i++, out++) {
			assert_int_equal((unsigned char)buf_data(&buf)[0], (unsigned char)out);
			buf_consume(&buf, 1);
		}
	}
	assert_int_equal(in - out, buf_len(&buf));
	buf_done(&buf);
}

static void buf_gives_large_memory_back(void **state)
{
	struct buf buf;
	char *at;

	buf_init(&buf, 1 << 20);
	assert_int_equal(buf_reserve(&buf, 100000, &at), 0);
	memset(at, 'x', 100000);
	buf_commit(&buf, 100000);
	buf_consume(&buf, 100000);
	assert_null(buf.base);
	assert_str(buf_str(&buf), "");
	assert_int_equal(buf_puts(&buf, "again"), 0);
	assert_str(buf_str(&buf), "again");
	buf_clear(&buf);
	assert_int_equal(buf_len(&buf), 0);
	buf_done(&buf);
}

static void buf_formats_up_to_its_limit(void **state)
{
	struct buf buf;

	buf_init(&buf, 8);
	assert_int_equal(buf_printf(&buf, "%d", 1234567), 0);
	assert_str(buf_str(&buf), "1234567");
	assert_int_equal(buf_printf(&buf, "%s", "no room"), -ENOBUFS);
	assert_str(buf_str(&buf), "1234567");
	buf_done(&buf);
	buf_init(&buf, 8);
	assert_int_equal(buf_printf(&buf, "%s", "12345678"), 0);
	assert_str(buf_str(&buf), "12345678");
	assert_int_equal(buf_printf(&buf, "%s", ""), 0);
	buf_done(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_respects_its_limit),
		cmocka_unit_test(arena_gives_zeroed_aligned_memory),
		cmocka_unit_test(arena_reset_keeps_a_block_and_zeroes_again),
		cmocka_unit_test(arena_copies_text),
		cmocka_unit_test(buf_refuses_one_byte_too_many),
		cmocka_unit_test(buf_is_a_queue),
		cmocka_unit_test(buf_gives_large_memory_back),
		cmocka_unit_test(buf_formats_up_to_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
