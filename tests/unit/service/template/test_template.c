/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as their directory tells them, damaged ones too; and builds by the fake engine. */
#include "../home.h"

#include <stdlib.h>
#include <unistd.h>

#include "service/template/template_internal.h"

static struct template *find(const char *name, enum err_code expected)
{
	struct err err = { .code = ERR_OK };
	struct template *tpl = template_find(home.service, str_of(name), &err);

	assert_int_equal(err.code, expected);
	assert_int_equal(tpl == NULL, expected != ERR_OK);
	return tpl;
}

static void a_template_is_what_its_files_say(void **state)
{
	struct engine_image_ref image;
	struct template *tpl;

	(void)state;
	home_template("mine", 'c',
		      "{\"workdir\":\"/w\",\"user\":\"me\",\"shell\":\"/bin/"
		      "sh\",\"env\":{\"A\":\"1\"},\"size_bytes\":77}");
	tpl = find("mine", ERR_OK);
	assert_string_equal(tpl->workdir, "/w");
	assert_string_equal(tpl->user, "me");
	assert_string_equal(tpl->shell, "/bin/sh");
	assert_int_equal(tpl->version, 1);
	assert_int_equal(tpl->size_bytes, 77);
	assert_ptr_equal(find("mine", ERR_OK), tpl);
	template_image(tpl, &image);
	assert_string_equal(image.name, "mine");
	assert_int_equal(image.hash[0], 0xcc);
}

static void damaged_files_do_no_harm(void **state)
{
	struct err err;

	(void)state;
	home_template("bad-meta", 'd', "{ this is not JSON");
	assert_string_equal(find("bad-meta", ERR_OK)->shell, "/bin/bash"); /* it is usable anyway */
	home_template("odd-meta", 'e',
		      "{\"workdir\":7,\"user\":null,\"size_bytes\":\"x\",\"env\":[1]}");
	assert_string_equal(find("odd-meta", ERR_OK)->workdir, "");
	home_file("templates/refs/no-hash", "1\n");
	(void)find("no-hash", ERR_TEMPLATE_NOT_FOUND);
	home_file("templates/refs/short-hash", "1 abc\n");
	(void)find("short-hash", ERR_TEMPLATE_NOT_FOUND);
	home_file("templates/refs/no-number",
		  "x bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n");
	(void)find("no-number", ERR_TEMPLATE_NOT_FOUND);
	home_file("templates/refs/empty", "");
	(void)find("empty", ERR_TEMPLATE_NOT_FOUND);
	assert_null(template_by_hash(
		home.service, "../x",
		"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", &err));
}

static void names_are_never_paths(void **state)
{
	static const char *const bad[] = { "",	   "..",     "../refs/base", "a/b",
					   "Base", "base\n", ".base" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		(void)find(bad[i], ERR_TEMPLATE_NOT_FOUND);
	(void)find("missing", ERR_TEMPLATE_NOT_FOUND);
}

static void names_are_listed_in_order(void **state)
{
	char *names = NULL;
	size_t count = 0;
	struct err err;

	(void)state;
	home_template("zeta", 'c', "{}");
	home_template("alpha", 'd', "{}");
	home_file("templates/refs/.hidden", "1 x\n");
	assert_int_equal(template_names(home.service, &names, &count, &err), 0);
	assert_int_equal(count, 3);
	assert_string_equal(names, "alpha");
	assert_string_equal(names + sizeof("alpha"), "base");
	assert_string_equal(names + sizeof("alpha") + sizeof("base"), "zeta");
	free(names);
}

static void one_that_is_being_removed_is_not_found(void **state)
{
	struct template *tpl = find("base", ERR_OK);

	(void)state;
	template_set_removing(home.service, STR_LIT("base"), true);
	assert_true(template_removing(home.service, STR_LIT("base")));
	(void)find("base", ERR_CONFLICT);
	template_set_removing(home.service, STR_LIT("base"), false);
	assert_ptr_equal(find("base", ERR_OK), tpl);
	template_set_removing(home.service, STR_LIT("unknown"), true);
	assert_false(template_removing(home.service, STR_LIT("unknown")));
}

/* ---- builds ---- */

static void a_build_ends_ready_or_failed(void **state)
{
	const struct build *build = NULL, *other = NULL;
	struct engine *engine = fake_opened();
	struct err err = { .code = ERR_OK };
	char first_id[sizeof(build->id)];

	(void)state;
	assert_null(build_find(home.service, STR_LIT("mine")));
	fake_hold(engine, FAKE_IMAGE_PREPARE);
	assert_int_equal(build_start(home.service, STR_LIT("mine"), &build, &err), 0);
	assert_int_equal(build->state, BUILD_RUNNING);
	assert_int_equal(build_start(home.service, STR_LIT("mine"), &other, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	memcpy(first_id, build->id, sizeof(first_id));
	HOME_UNTIL(fake_waiting(engine, FAKE_IMAGE_PREPARE));
	fake_release(engine, FAKE_IMAGE_PREPARE);
	HOME_UNTIL(build->state != BUILD_RUNNING);
	assert_int_equal(build->state, BUILD_READY);
	assert_true(build->finished_ms >= build->started_ms);
	fake_fail_next(engine, FAKE_IMAGE_PREPARE, ERR_ENGINE_FAILED);
	fake_fail_message(engine, "no disk left");
	assert_int_equal(build_start(home.service, STR_LIT("mine"), &build, &err), 0);
	assert_string_not_equal(build->id, first_id);
	HOME_UNTIL(build->state != BUILD_RUNNING);
	assert_int_equal(build->state, BUILD_FAILED);
	assert_non_null(strstr(build->error, "no disk left"));
	assert_ptr_equal(build_find(home.service, STR_LIT("mine")), build);
	fake_fail_message(engine, NULL);
}

static void a_log_is_read_from_any_place(void **state)
{
	const struct build *build = NULL;
	int64_t cursor = 0;
	struct err err;
	char text[8];
	size_t n = 0;

	(void)state;
	assert_int_equal(build_start(home.service, STR_LIT("mine"), &build, &err), 0);
	HOME_UNTIL(build->state != BUILD_RUNNING);
	home_file("builds/mine.log", "0123456789");
	assert_int_equal(build_log(home.service, build, &cursor, text, sizeof(text), &n), 0);
	assert_int_equal(n, 8);
	assert_int_equal(cursor, 8);
	assert_int_equal(build_log(home.service, build, &cursor, text, sizeof(text), &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(build_log(home.service, build, &cursor, text, sizeof(text), &n), 0);
	assert_int_equal(n, 0);
	cursor = -1; /* the end of it */
	assert_int_equal(build_log(home.service, build, &cursor, text, 3, &n), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(text, "789", 3);
	assert_int_equal(cursor, 10);
}

static void names_of_builds_are_checked(void **state)
{
	const struct build *build = NULL;
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(build_start(home.service, STR_LIT("../x"), &build, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(build_check(home.service, STR_LIT(""), &err), -1);
	assert_null(build);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(a_template_is_what_its_files_say),
		T(damaged_files_do_no_harm),
		T(names_are_never_paths),
		T(names_are_listed_in_order),
		T(one_that_is_being_removed_is_not_found),
		T(a_build_ends_ready_or_failed),
		T(a_log_is_read_from_any_place),
		T(names_of_builds_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
