/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a sandbox's tree as E2B's EntryInfo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "face/e2b/envd/envd.h"
#include "service/files/files.h"

static void expect(const struct files_entry *entry, const char *text)
{
	struct json_writer w;
	struct buf out;

	buf_init(&out, 4096);
	json_writer_init(&w, &out);
	entry_write(&w, NULL, entry);
	assert_int_equal(json_writer_end(&w), 0);
	assert_true(str_is(buf_str(&out), text));
	buf_done(&out);
}

static void test_a_file_with_metadata(void **state)
{
	struct files_entry entry = { .kind = FILES_KIND_FILE,
				     .mode = 04750,
				     .uid = 7,
				     .gid = 8,
				     .size = 12,
				     .modified_ms = 1700000000123,
				     .path = STR_LIT("/d/f\xff"),
				     .name = STR_LIT("f\xff"),
				     .user = STR_LIT("user"),
				     .marks = STR_LIT("e2b.k=v\nother=x\n") };

	(void)state;
	expect(&entry,
	       "{\"name\":\"f\\\\xff\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/d/f\\\\xff\","
	       "\"size\":\"12\",\"mode\":488,\"permissions\":\"-rwxr-x---\","
	       "\"owner\":\"user\",\"group\":\"8\","
	       "\"modifiedTime\":\"2023-11-14T22:13:20.123Z\",\"metadata\":{\"k\":\"v\"}}");
}

static void test_links_show_their_targets(void **state)
{
	struct files_entry entry = { .kind = FILES_KIND_SYMLINK,
				     .mode = 0777,
				     .path = STR_LIT("/l"),
				     .name = STR_LIT("l"),
				     .behind = { FILES_KIND_DIRECTORY, 0755, STR_LIT("/d") } };

	(void)state;
	expect(&entry, "{\"name\":\"l\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/l\","
		       "\"size\":\"0\",\"mode\":493,\"permissions\":\"Lrwxrwxrwx\","
		       "\"owner\":\"0\",\"group\":\"0\",\"modifiedTime\":\"\","
		       "\"symlinkTarget\":\"/d\"}");
	entry.behind.path = (struct str){ NULL, 0 }; /* it leads nowhere */
	entry.behind.kind = FILES_KIND_UNKNOWN;
	expect(&entry, "{\"name\":\"l\",\"type\":\"FILE_TYPE_UNSPECIFIED\",\"path\":\"/l\","
		       "\"size\":\"0\",\"mode\":511,\"permissions\":\"Lrwxrwxrwx\","
		       "\"owner\":\"0\",\"group\":\"0\",\"modifiedTime\":\"\","
		       "\"symlinkTarget\":\"/l\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_with_metadata),
		cmocka_unit_test(test_links_show_their_targets),
	};

	return cmocka_run_group_tests_name("e2b-envd-entry", tests, NULL, NULL);
}
