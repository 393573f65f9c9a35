/* SPDX-License-Identifier: Apache-2.0 */
/* The output of df, and the numbers from the agent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/df/df.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static const struct df_format human = { .human_base = 1024, .unit = "" },
			      si = { .human_base = 1000, .unit = "" };

static const char *counted(uint64_t bytes, const struct df_format *format)
{
	static char text[DF_TEXT_SIZE];

	df_count(text, bytes, format);
	return text;
}

static const char *percent(uint64_t used, uint64_t available)
{
	static char text[DF_TEXT_SIZE];

	df_percent(text, used, available);
	return text;
}

/* Expected texts are those of GNU df. */
static void test_letters(void **state)
{
	(void)state;
	assert_string_equal(counted(0, &human), "0");
	assert_string_equal(counted(1023, &human), "1023");
	assert_string_equal(counted(1024, &human), "1.0K");
	assert_string_equal(counted(1025, &human), "1.1K");
	assert_string_equal(counted(10 * 1024, &human), "10K");
	assert_string_equal(counted(10 * 1024 - 1, &human), "10K");
	assert_string_equal(counted(MIB - 1, &human), "1.0M");
	assert_string_equal(counted(3 * GIB, &human), "3.0G");
	assert_string_equal(counted(300 * MIB, &human), "300M");
	assert_string_equal(counted(UINT64_MAX, &human), "16E");
	assert_string_equal(counted(1000, &si), "1.0k");
	assert_string_equal(counted(2500000, &si), "2.5M");
}

static void test_blocks(void **state)
{
	struct df_format blocks = { .block_bytes = 1024, .unit = "" };
	uint64_t bytes;

	(void)state;
	assert_string_equal(counted(1, &blocks), "1");
	assert_string_equal(counted(UINT64_MAX, &blocks), "18014398509481984");
	blocks.block_bytes = MIB;
	blocks.unit = "M";
	assert_string_equal(counted(3 * GIB, &blocks), "3072M");
	assert_int_equal(df_block_bytes("512", &bytes), 0);
	assert_int_equal(bytes, 512);
	assert_int_equal(df_block_bytes("10k", &bytes), 0);
	assert_int_equal(bytes, 10240);
	assert_int_equal(df_block_bytes("MiB", &bytes), 0);
	assert_int_equal(bytes, MIB);
	assert_int_equal(df_block_bytes("GB", &bytes), 0);
	assert_int_equal(bytes, 1000000000);
	for (const char *const *wrong =
		     (const char *const[]){ "", "0", "X", "1X", "-1", "1KiBs",
					    "99999999999999999999", "32E", NULL };
	     *wrong; wrong++)
		assert_true(df_block_bytes(*wrong, &bytes) < 0);
}

static void test_percent(void **state)
{
	(void)state;
	assert_string_equal(percent(0, 0), "-");
	assert_string_equal(percent(0, 5), "0%");
	assert_string_equal(percent(1, 999999), "1%");
	assert_string_equal(percent(5, 0), "100%");
	assert_string_equal(percent(UINT64_MAX / 4, UINT64_MAX / 4), "50%");
}

static void test_table(void **state)
{
	static const struct df_row rows[] = {
		{ .source = "none",
		  .target = "/",
		  .size = 3 * GIB,
		  .used = GIB,
		  .available = 2 * GIB },
		{ .source = "none", .target = "/a b", .unread = true },
	};
	struct df_format format = { .columns = { DF_SOURCE, DF_SIZE, DF_USED, DF_AVAILABLE,
						 DF_PERCENT, DF_TARGET },
				    .column_count = 6,
				    .block_bytes = 1024,
				    .block_name = "1K",
				    .unit = "" };
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	(void)state;
	assert_non_null(to);
	assert_int_equal(df_print(to, rows, 2, &format), 0);
	(void)fclose(to);
	assert_string_equal(text, "Filesystem     1K-blocks    Used Available Use% Mounted on\n"
				  "none             3145728 1048576   2097152  34% /\n"
				  "none                   -       -         -    - /a b\n");
	free(text);
}

static void test_disk(void **state)
{
	uint64_t limit = 7, used = 7;

	(void)state;
	assert_true(df_disk_parse(str_of("          3221225472              1048576\n"), &limit,
				  &used));
	assert_int_equal(limit, 3 * GIB);
	assert_int_equal(used, MIB);
	for (const char *const *wrong =
		     (const char *const[]){ "", "\n", "1\n", "1 \n", "0 0\n", "1 2", "1 2 3\n",
					    "1 2\n\n", "-1 2\n", "a b\n", "1\t2\n",
					    "99999999999999999999 1\n", NULL };
	     *wrong; wrong++)
		assert_false(df_disk_parse(str_of(*wrong), &limit, &used));
}

static void test_mounts(void **state)
{
	struct df_row rows[] = { { .target = "/" },
				 { .target = "/dev" },
				 { .target = "/dev/shm" },
				 { .target = "/dev" } };

	(void)state;
	assert_ptr_equal(df_mounts_find(rows, 4, "/"), &rows[0]);
	assert_ptr_equal(df_mounts_find(rows, 4, "/device"), &rows[0]);
	assert_ptr_equal(df_mounts_find(rows, 4, "/dev/null"), &rows[3]);
	assert_ptr_equal(df_mounts_find(rows, 4, "/dev/shm/x"), &rows[2]);
	assert_null(df_mounts_find(rows, 0, "/"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_letters), cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_percent), cmocka_unit_test(test_table),
		cmocka_unit_test(test_disk),	cmocka_unit_test(test_mounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
