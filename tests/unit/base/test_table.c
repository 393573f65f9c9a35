/* SPDX-License-Identifier: Apache-2.0 */
/* slot tables and maps, the map against a plain array as its model. */
#include "check.h"

#include <errno.h>
#include <stdio.h>

#include "base/map.h"
#include "base/rand.h"
#include "base/slot.h"

static void slot_handles_die_with_their_object(void **state)
{
	struct slot_table table;
	slot_handle a, b, c;
	int x, y;

	slot_init(&table, 4);
	assert_int_equal(slot_put(&table, &x, &a), 0);
	assert_int_equal(slot_put(&table, &y, &b), 0);
	assert_ptr_equal(slot_get(&table, a), &x);
	assert_ptr_equal(slot_take(&table, a), &x);
	assert_null(slot_get(&table, a));
	assert_null(slot_take(&table, a));
	assert_int_equal(slot_put(&table, &x, &c), 0); /* the same place, another generation */
	assert_int_not_equal(a, c);
	assert_null(slot_get(&table, a));
	assert_ptr_equal(slot_get(&table, c), &x);
	assert_null(slot_get(&table, 0));
	assert_null(slot_get(&table, UINT64_MAX));
	assert_null(slot_get(&table, c + 100));
	slot_done(&table);
	assert_null(slot_get(&table, c));
}

static void slot_stops_at_its_limit(void **state)
{
	struct slot_table table;
	slot_handle handles[20], extra = 7;
	uint32_t cursor = 0;
	int objects[20], seen = 0;

	slot_init(&table, 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(slot_put(&table, &objects[i], &handles[i]), 0);
	assert_int_equal(slot_put(&table, &objects[0], &extra), -ENOBUFS);
	assert_int_equal(extra, 7);
	assert_int_equal(table.live, 20);
	assert_ptr_equal(slot_take(&table, handles[9]), &objects[9]);
	while (slot_next(&table, &cursor))
		seen++;
	assert_int_equal(seen, 19);
	assert_int_equal(slot_put(&table, &objects[9], &extra), 0);
	slot_done(&table);
}

static struct str key_of(char dst[16], unsigned number)
{
	return (struct str){ dst, (size_t)snprintf(dst, 16, "key-%u", number) };
}

static void map_keeps_what_was_put(void **state)
{
	struct map map;
	char text[16];
	int a, b;

	map_init(&map);
	assert_null(map_get(&map, STR_LIT("x")));
	assert_null(map_take(&map, STR_LIT("x")));
	assert_int_equal(map_put(&map, STR_LIT("x"), &a), 0);
	assert_int_equal(map_put(&map, STR_LIT("x"), &b), -EEXIST);
	assert_ptr_equal(map_get(&map, STR_LIT("x")), &a);
	assert_null(map_get(&map, STR_LIT("xx")));
	assert_int_equal(map_put(&map, STR_LIT(""), &b), 0);
	assert_int_equal(map_put(&map, (struct str){ "a\0b", 3 }, &b), 0);
	assert_null(map_get(&map, STR_LIT("a")));
	assert_ptr_equal(map_take(&map, STR_LIT("")), &b);
	assert_null(map_get(&map, key_of(text, 1)));
	map_done(&map);
}

static void map_agrees_with_a_plain_array(void **state)
{
	static int objects[512];
	static bool present[512];
	struct map map;
	size_t cursor = 0, count = 0, walked = 0;
	char text[16];

	map_init(&map);
	for (int step = 0; step < 60000; step++) {
		uint16_t dice[2];
		unsigned i;

		rand_bytes(dice, sizeof(dice));
		i = dice[0] % 512;
		if (dice[1] % 2) {
			int r = map_put(&map, key_of(text, i), &objects[i]);

			assert_int_equal(r, present[i] ? -EEXIST : 0);
			present[i] = true;
		} else {
			void *taken = map_take(&map, key_of(text, i));

			assert_ptr_equal(taken, present[i] ? &objects[i] : NULL);
			present[i] = false;
		}
	}
	for (unsigned i = 0; i < 512; i++) {
		count += present[i];
		assert_ptr_equal(map_get(&map, key_of(text, i)), present[i] ? &objects[i] : NULL);
	}
	while (map_next(&map, &cursor))
		walked++;
	assert_int_equal(map.count, count);
	assert_int_equal(walked, count);
	map_done(&map);
}

static void labels_are_well_formed(void **state)
{
	int seen[256] = { 0 };
	char label[21];

	for (int i = 0; i < 2000; i++) {
		rand_label(label, 20);
		assert_int_equal(strlen(label), 20);
		for (int k = 0; k < 20; k++) {
			bool word = (label[k] >= 'a' && label[k] <= 'z') ||
				    (label[k] >= '0' && label[k] <= '9');

			assert_true(word);
			seen[(unsigned char)label[k]]++;
		}
	}
	for (const char *p = "abcdefghijklmnopqrstuvwxyz0123456789"; *p; p++)
		assert_in_range(seen[(unsigned char)*p], 800, 1450); /* 1111 expected each */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slot_handles_die_with_their_object),
		cmocka_unit_test(slot_stops_at_its_limit),
		cmocka_unit_test(map_keeps_what_was_put),
		cmocka_unit_test(map_agrees_with_a_plain_array),
		cmocka_unit_test(labels_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
