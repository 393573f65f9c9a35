/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that keeps the output of a stream. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/output/ring.h"

/* The byte at each cursor is known, so any piece can be checked by itself. */
static char byte_at(uint64_t cursor)
{
	return (char)(cursor * 131 + (cursor >> 8) * 17);
}

static void put_some(struct ring *ring, uint64_t *given, size_t n)
{
	static char chunk[20000];

	for (size_t i = 0; i < n; i++)
		chunk[i] = byte_at(*given + i);
	ring_put(ring, chunk, n);
	*given += n;
}

/* Reads everything from *cursor; returns the number of lost bytes. */
static uint64_t read_on(const struct ring *ring, uint64_t *cursor)
{
	uint64_t lost = 0;

	for (;;) {
		uint64_t before = *cursor;
		struct str piece = ring_peek(ring, cursor);

		lost += *cursor - before;
		if (piece.n == 0)
			return lost;
		for (size_t i = 0; i < piece.n; i++)
			assert_int_equal(piece.p[i], byte_at(*cursor + i));
		*cursor += piece.n;
	}
}

/* Any chunking of writes and any pattern of reads: each byte is read once, in order, or counted. */
static void test_ring_keep_last(void **state)
{
	srand(1);
	for (int round = 0; round < 300; round++) {
		size_t limit = 1 + (size_t)rand() % 30000;
		uint64_t given = 0, cursor = 0, lost = 0, got = 0;
		struct ring ring;

		ring_init(&ring, limit, RING_KEEP_LAST, NULL);
		assert_null(ring.data);
		for (int i = 0; i < 50; i++) {
			put_some(&ring, &given, (size_t)rand() % (rand() % 4 ? 100 : 20000));
			assert_true(ring.capacity <= limit);
			assert_true(ring.total == given && ring.end == given);
			if (rand() % 3 == 0) {
				uint64_t before = cursor, gap = read_on(&ring, &cursor);

				lost += gap;
				got += cursor - before - gap;
			}
		}
		lost += read_on(&ring, &cursor);
		assert_true(cursor == given);
		assert_true(got + lost <= given);
		cursor = 0;
		assert_true(read_on(&ring, &cursor) == (given > limit ? given - limit : 0));
		ring_done(&ring);
	}
}

static void test_ring_keep_first(void **state)
{
	srand(2);
	for (int round = 0; round < 300; round++) {
		size_t limit = (size_t)rand() % 30000;
		uint64_t given = 0, cursor = 0;
		struct ring ring;

		ring_init(&ring, limit, RING_KEEP_FIRST, NULL);
		for (int i = 0; i < 20; i++)
			put_some(&ring, &given, (size_t)rand() % 5000);
		assert_true(ring.total == given);
		assert_true(read_on(&ring, &cursor) == 0);
		assert_true(cursor == MIN(given, (uint64_t)limit));
		ring_done(&ring);
		put_some(&ring, &given, 100); /* after the end: counted, not kept */
		assert_true(ring.total == given);
		assert_null(ring.data);
	}
}

static void test_ring_grows(void **state)
{
	struct ring ring;
	uint64_t given = 0;

	ring_init(&ring, 1 << 20, RING_KEEP_LAST, NULL);
	put_some(&ring, &given, 1);
	assert_int_equal(ring.capacity, 4096);
	put_some(&ring, &given, 4096);
	assert_int_equal(ring.capacity, 8192);
	ring_done(&ring);
}

/* Bytes that the caller stores itself and that are read across the wrap equal all others. */
static void test_ring_in_place(void **state)
{
	srand(3);
	for (int round = 0; round < 300; round++) {
		size_t limit = 1 + (size_t)rand() % 30000;
		uint64_t given = 0, cursor = 0;
		struct ring ring;

		ring_init(&ring, limit, RING_KEEP_LAST, NULL);
		for (int i = 0; i < 100; i++) {
			struct iovec pieces[2];
			size_t wanted = 1 + (size_t)rand() % 9000, n = 0, used;
			int count = ring_room(&ring, wanted, pieces);

			for (int k = 0; k < count; k++)
				n += pieces[k].iov_len;
			assert_int_equal(n, MIN(wanted, ring.capacity));
			used = (size_t)rand() % (n + 1); /* a read may bring less, or nothing */
			for (size_t k = 0; k < used; k++) {
				bool first = k < pieces[0].iov_len;
				char *at =
					first ? (char *)pieces[0].iov_base + k
					      : (char *)pieces[1].iov_base + k - pieces[0].iov_len;

				*at = byte_at(given + k);
			}
			ring_commit(&ring, used);
			given += used;
			assert_true(ring.total == given && ring.end == given);
			cursor = ring.begin;
			(void)read_on(&ring, &cursor);
			assert_true(cursor == given);
			if (ring.end == ring.begin)
				continue;
			n = 1 + (size_t)rand() % (size_t)(ring.end - ring.begin);
			count = ring_pieces(&ring, ring.end - n, n, pieces);
			assert_int_equal(pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0),
					 n);
			for (size_t k = 0; k < pieces[0].iov_len; k++)
				assert_int_equal(((char *)pieces[0].iov_base)[k],
						 byte_at(ring.end - n + k));
		}
		ring_done(&ring);
	}
}

/*
 * From keeping the first to keeping the last bytes: what is held stays readable until more arrives.
 */
static void test_ring_turns(void **state)
{
	uint64_t given = 0, cursor = 0;
	struct ring ring;

	ring_init(&ring, 1000, RING_KEEP_FIRST, NULL);
	put_some(&ring, &given, 900);
	ring_keep_last(&ring, 2000); /* nothing was dropped: it continues */
	put_some(&ring, &given, 1000);
	assert_true(read_on(&ring, &cursor) == 0 && cursor == 1900);
	ring_done(&ring);

	given = cursor = 0;
	ring_init(&ring, 1000, RING_KEEP_FIRST, NULL);
	put_some(&ring, &given, 1500);
	put_some(&ring, &given, 1); /* nothing follows dropped bytes */
	ring_keep_last(&ring, 2000);
	assert_true(read_on(&ring, &cursor) == 0 && cursor == 1000);
	put_some(&ring, &given, 10);
	assert_true(read_on(&ring, &cursor) == 501 && cursor == 1511);
	ring_done(&ring);
}

static int asked;

static bool make_room(struct ring_budget *budget, size_t n)
{
	asked++;
	return false;
}

static void test_ring_budget(void **state)
{
	struct ring_budget budget = { .max_bytes = 10000, .make_room = make_room };
	struct ring a, b;
	uint64_t given_a = 0, given_b = 0, cursor = 0;

	ring_init(&a, 1 << 20, RING_KEEP_LAST, &budget);
	ring_init(&b, 1 << 20, RING_KEEP_LAST, &budget);
	put_some(&a, &given_a, 8000);
	assert_int_equal(budget.used, 8192);
	assert_int_equal(asked, 0);
	put_some(&a, &given_a, 8000); /* over the limit: it keeps its size */
	assert_int_equal(asked, 1);
	assert_int_equal(a.capacity, 8192);
	put_some(&a, &given_a, 8000); /* and does not request memory again */
	assert_int_equal(asked, 1);
	assert_true(read_on(&a, &cursor) == given_a - 8192);
	put_some(&b, &given_b, 100); /* the first page is always there */
	assert_int_equal(b.capacity, 4096);
	ring_done(&a);
	ring_done(&b);
	assert_int_equal(budget.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring_keep_last), cmocka_unit_test(test_ring_keep_first),
		cmocka_unit_test(test_ring_grows),     cmocka_unit_test(test_ring_in_place),
		cmocka_unit_test(test_ring_turns),     cmocka_unit_test(test_ring_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
