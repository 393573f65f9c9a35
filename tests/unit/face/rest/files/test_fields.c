/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of file calls as struct files_spec: values, defaults, and values out of range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "face/rest/files/files.h"

static void test_writes(void **state)
{
	struct body body = { .doc = NULL };
	struct files_spec spec = { .parents = false };

	(void)state;
	assert_int_equal(body_decode(&body, files_write_fields,
				     "{\"path\":\"/a\",\"content\":\"\",\"mode\":\"0600\","
				     "\"owner\":\"u\",\"fsync\":true,\"if_match\":\"e\"}",
				     &spec),
			 0);
	assert_true(str_is(spec.path, "/a") && str_is(spec.mode, "0600") &&
		    str_is(spec.owner, "u") && str_is(spec.if_match, "e"));
	assert_non_null(spec.content.p); /* an empty file is content, too */
	assert_int_equal(spec.content.n, 0);
	assert_null(spec.content_b64.p);
	assert_true(spec.parents && spec.fsync);
	body_done(&body);
}

static void test_a_batch(void **state)
{
	struct body body = { .doc = NULL };
	struct files_spec spec = { .parents = false };

	(void)state;
	assert_int_equal(body_decode(&body, files_batch_fields,
				     "{\"files\":[{\"path\":\"a\",\"content\":\"x\"},"
				     "{\"path_b64\":\"/w==\",\"content_b64\":\"eA==\","
				     "\"mode\":\"755\"}],\"user\":\"root\"}",
				     &spec),
			 0);
	assert_int_equal(spec.files.count, 2);
	assert_true(str_is(spec.files.list[0].path, "a"));
	assert_true(str_is(spec.files.list[1].path_b64, "/w=="));
	assert_true(str_is(spec.files.list[1].mode, "755"));
	assert_true(str_is(spec.user, "root"));
	assert_int_equal(body_decode(&body, files_batch_fields, "{\"files\":[]}", &spec), 0);
	assert_int_equal(spec.files.count, 0);
	body_done(&body);
	body_refuse(files_batch_fields, sizeof(spec),
		    (const struct body_refusal[]){
			    { "{}", "files is required" },
			    { "{\"files\":[7]}", "files[0] must be an object" },
			    { "{\"files\":[{\"path\":\"a\"},{\"path\":\"\"}]}",
			      "files[1].path must be a string of 1 to 32768 bytes" },
			    { "{\"files\":[{\"path\":\"a\",\"owner\":\"u\"}]}", "files[0].owner" },
			    { NULL, NULL } });
}

static void test_searches(void **state)
{
	struct body body = { .doc = NULL };
	struct files_spec spec = { .parents = false };

	(void)state;
	assert_int_equal(body_decode(&body, files_grep_fields, "{\"pattern\":\"x\"}", &spec), 0);
	assert_int_equal(spec.max_matches, FILES_MATCHES_DEFAULT);
	assert_int_equal(spec.max_bytes, FILES_GREP_BYTES_DEFAULT);
	assert_int_equal(spec.timeout_sec, FILES_TIMEOUT_DEFAULT_SEC);
	assert_int_equal(spec.context, 0);
	assert_null(spec.path.p); /* the working directory */
	spec = (struct files_spec){ .parents = false };
	assert_int_equal(body_decode(&body, files_glob_fields,
				     "{\"pattern\":\"*\",\"limit\":10000,\"gitignore\":true}",
				     &spec),
			 0);
	assert_int_equal(spec.limit, FILES_LIST_MAX);
	assert_true(spec.include_hidden && spec.gitignore);
	body_done(&body);
	body_refuse(files_grep_fields, sizeof(spec),
		    (const struct body_refusal[]){
			    { "{}", "pattern is required" },
			    { "{\"pattern\":\"\"}", "pattern must be a string of 1 to 8192 bytes" },
			    { "{\"pattern\":\"x\",\"context\":21}", "0 to 20" },
			    { "{\"pattern\":\"x\",\"max_matches\":0}", "1 to 10000" },
			    { "{\"pattern\":\"x\",\"max_bytes\":8388609}", "1 to 8388608" },
			    { "{\"pattern\":\"x\",\"timeout_sec\":601}", "1 to 600" },
			    { "{\"pattern\":\"x\",\"fixed\":\"yes\"}", "fixed" },
			    { NULL, NULL } });
}

static void test_changes(void **state)
{
	struct body body = { .doc = NULL };
	struct files_spec spec = { .parents = true };

	(void)state;
	assert_int_equal(
		body_decode(&body, files_move_fields, "{\"from\":\"a\",\"to\":\"b\"}", &spec), 0);
	assert_true(str_is(spec.path, "a") && str_is(spec.to, "b"));
	assert_false(spec.parents || spec.overwrite);
	assert_int_equal(
		body_decode(&body, files_copy_fields, "{\"from\":\"a\",\"to\":\"b\"}", &spec), 0);
	assert_true(spec.recursive);
	spec = (struct files_spec){ .parents = true };
	/* user is the new owner here, not the acting user. */
	assert_int_equal(body_decode(&body, files_chown_fields,
				     "{\"path\":\"a\",\"user\":\"u\",\"group\":\"g\"}", &spec),
			 0);
	assert_true(str_is(spec.owner, "u") && str_is(spec.group, "g"));
	assert_null(spec.user.p);
	assert_int_equal(body_decode(&body, files_edit_fields,
				     "{\"path\":\"a\",\"old_string\":\"x\",\"new_string\":\"\"}",
				     &spec),
			 0);
	assert_non_null(spec.new_string.p);
	body_done(&body);
	body_refuse(files_edit_fields, sizeof(spec),
		    (const struct body_refusal[]){
			    { "{\"path\":\"a\",\"old_string\":\"x\"}", "new_string is required" },
			    { "{\"path\":\"a\",\"old_string\":\"\",\"new_string\":\"\"}",
			      "old_string must be a string of 1 to 4194304 bytes" },
			    { NULL, NULL } });
	body_refuse(files_chmod_fields, sizeof(spec),
		    (const struct body_refusal[]){
			    { "{\"path\":\"a\"}", "mode is required" },
			    { "{\"path\":\"a\",\"mode\":\"123456\"}", "1 to 5 bytes" },
			    { "{\"path\":\"a\",\"mode\":420}", "mode must be a string" },
			    { NULL, NULL } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_a_batch),
		cmocka_unit_test(test_searches),
		cmocka_unit_test(test_changes),
	};

	return cmocka_run_group_tests_name("rest-files-fields", tests, NULL, NULL);
}
