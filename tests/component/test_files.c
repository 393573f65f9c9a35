/* SPDX-License-Identifier: Apache-2.0 */
/* File operations through the whole daemon; the tool inside is played here, also a hostile one. */
#include <string.h>

#include "played_tool.h"

static void refused(struct answer *a, int status, const char *code)
{
	expect_status(a, status);
	assert_string_equal(error_code(a), code);
}

/* ---- tests ---- */

static void test_arguments(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run =
		played_begin(&req, "GET", "/stat?path=a%20b&follow=true", NULL, NULL);

	(void)state;
	assert_string_equal(run->args, "stat|base=/workspace|path=a b|follow=1|");
	played_entry(run, "a b", TOOL_KIND_FILE, 5);
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 200);
	assert_string_equal(text_of(&a, "path"), "a b");
	assert_string_equal(text_of(&a, "type"), "file");
	assert_string_equal(text_of(&a, "mode"), "0644");
	assert_int_equal(int_of(&a, "size"), 5);
	answer_free(&a);
	/* An argument is one argument, whatever is in it. */
	run = played_begin(&req, "POST", "/grep", NULL,
			   "{\"pattern\":\"x|fixed=1\",\"path\":\"/"
			   "etc\",\"include\":\"*.[co]\",\"exclude\":\"*.o\",\"context\":2}");
	assert_non_null(strstr(run->args, "pattern=x|fixed=1|"));
	assert_non_null(strstr(run->args, "include=*.[co]|include=!*.o|")); /* in this order */
	assert_non_null(strstr(run->args, "before=2|after=2|"));
	assert_non_null(strstr(run->args, "fixed=0|"));
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 200);
	answer_free(&a);
}

static void test_refusals_name_the_field(void **state)
{
	static const struct {
		const char *method, *rest, *body, *named;
	} bad[] = {
		{ "GET", "/stat", NULL, "path" },
		{ "GET", "/stat?path=", NULL, "path" },
		{ "GET", "/stat?path=a%00b", NULL, "path" },
		{ "GET", "/stat?path=a&path_b64=YQ%3D%3D", NULL, "path" },
		{ "GET", "/stat?path_b64=***", NULL, "path_b64" },
		{ "GET", "/stat?path_b64=YQBi", NULL, "path" }, /* a NUL inside */
		{ "GET", "/stat?path=a&follow=maybe", NULL, "follow" },
		{ "GET", "/stat?path=a&other=1", NULL, "other" },
		{ "GET", "?depth=0", NULL, "depth" },
		{ "GET", "?depth=17", NULL, "depth" },
		{ "GET", "?limit=10001", NULL, "limit" },
		{ "GET", "/read?path=a&offset=0", NULL, "offset" },
		{ "GET", "/read?path=a&limit=2001", NULL, "limit" },
		{ "GET", "/archive?path=a&format=rar", NULL, "format" },
		{ "PUT", "/raw?path=a&mode=8", "x", "mode" },
		{ "PUT", "/raw?path=a&mode=17777", "x", "mode" },
		{ "POST", "", "{\"path\":\"a\"}", "content" },
		{ "POST", "", "{\"path\":\"a\",\"content\":\"x\",\"content_b64\":\"eA==\"}",
		  "content" },
		{ "POST", "", "{\"path\":\"a\",\"content_b64\":\"x\"}", "content_b64" },
		{ "POST", "", "{\"content\":\"x\"}", "path" },
		{ "POST", "/batch", "{\"files\":[]}", "files" },
		{ "POST", "/batch", "{\"files\":[1]}", "files[0]" },
		{ "POST", "/batch",
		  "{\"files\":[{\"path\":\"a\",\"content\":\"\"},{\"path\":\"b\"}]}",
		  "files[1].content" },
		{ "POST", "/batch", "{\"files\":[{\"path\":\"a\",\"content\":\"\",\"x\":1}]}",
		  "files[0].x" },
		{ "POST", "/edit", "{\"path\":\"a\",\"new_string\":\"b\"}", "old_string" },
		{ "POST", "/edit", "{\"path\":\"a\",\"old_string\":\"b\"}", "new_string" },
		{ "POST", "/edit", "{\"path\":\"a\",\"old_string\":\"b\",\"new_string\":\"b\"}",
		  "new_string" },
		{ "POST", "/move", "{\"from\":\"a\"}", "to" },
		{ "POST", "/move", "{\"to\":\"a\"}", "from" },
		{ "POST", "/chmod", "{\"path\":\"a\"}", "mode" },
		{ "POST", "/chown", "{\"path\":\"a\"}", "user" },
		{ "POST", "/glob", "{}", "pattern" },
		{ "POST", "/grep", "{\"pattern\":\"a\",\"context\":21}", "context" },
		{ "POST", "/grep", "{\"pattern\":\"a\",\"timeout_sec\":601}", "timeout_sec" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct answer *a = call(bad[i].method, played_url(bad[i].rest), bad[i].body);

		if (a->status != 400 || !strstr(error_message(a), bad[i].named))
			fail_msg("%s %s: %d %s", bad[i].rest, bad[i].body ? bad[i].body : "",
				 a->status, a->body);
	}
	assert_int_equal(played_count, 0);
	refused(call("GET", "/v1/sandboxes/none/files/stat?path=a", NULL), 404,
		"sandbox_not_found");
}

static void test_download(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run = played_begin(&req, "GET", "/raw?path=f", NULL, NULL);

	(void)state;
	played_entry(run, "f", TOOL_KIND_FILE, 10);
	played_data(run, "01234");
	played_data(run, "56789");
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 200);
	assert_string_equal(a.body, "0123456789");
	assert_non_null(strstr(a.head, "Content-Length: 10\r\n"));
	assert_non_null(strstr(a.head, "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n"));
	assert_int_equal(run->released, 10);
	answer_free(&a);

	run = played_begin(&req, "GET", "/raw?path=f", "Range: bytes=7-\r\n", NULL);
	assert_non_null(strstr(run->args, "offset=7|"));
	played_entry(run, "f", TOOL_KIND_FILE, 10);
	played_data(run, "789");
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 206);
	assert_non_null(strstr(a.head, "Content-Range: bytes 7-9/10\r\n"));
	answer_free(&a);

	run = played_begin(&req, "GET", "/raw?path=f", "Range: bytes=70-\r\n", NULL);
	played_entry(run, "f", TOOL_KIND_FILE, 10);
	played_end_badly(run, TOOL_BAD_RANGE);
	request_wait(&req, &a);
	expect_status(&a, 416);
	assert_non_null(strstr(a.head, "Content-Range: bytes */10\r\n"));
	answer_free(&a);
}

/* An incomplete answer never looks complete. */
static void test_downloads_that_break_off(void **state)
{
	static const enum tool_error ends[] = { TOOL_CHANGED, TOOL_OK };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct request req;
		struct tool_run *run = played_begin(&req, "GET", "/raw?path=f", NULL, NULL);

		played_entry(run, "f", TOOL_KIND_FILE, 10);
		played_data(run, "01234");
		if (ends[i])
			played_end_badly(run, ends[i]);
		else
			played_end_well(run); /* it says it is done, with half of it */
		world_turns(20);
		request_drop(&req);
	}
}

static void test_hostile_frames(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run;

	(void)state;
	run = played_begin(&req, "GET", "/raw?path=f", NULL, NULL);
	played_data(run, "no entry before it");
	request_wait(&req, &a);
	refused(&a, 502, "tool_failed");
	assert_true(run->cancelled);
	answer_free(&a);

	run = played_begin(&req, "GET", "/raw?path=f", NULL, NULL);
	played_end_well(run);
	request_wait(&req, &a);
	refused(&a, 502, "tool_failed");
	answer_free(&a);

	run = played_begin(&req, "GET", "/stat?path=f", NULL, NULL);
	played_entry(run, "f", TOOL_KIND_FILE, 1);
	played_entry(run, "f", TOOL_KIND_FILE, 1);
	request_wait(&req, &a);
	refused(&a, 502, "tool_failed");
	answer_free(&a);

	run = played_begin(&req, "GET", "/stat?path=f", NULL, NULL);
	played_data(run, "what for?");
	request_wait(&req, &a);
	refused(&a, 502, "tool_failed");
	answer_free(&a);

	/* More than it promised: cut, never passed on as something else. */
	run = played_begin(&req, "GET", "/raw?path=f", NULL, NULL);
	played_entry(run, "f", TOOL_KIND_FILE, 2);
	played_data(run, "0123456789");
	world_turns(20);
	assert_true(run->cancelled);
	request_drop(&req);
}

static void test_errors_have_codes(void **state)
{
	(void)state;
	for (int error = 1; error <= TOOL_ERROR_LAST; error++) {
		struct request req;
		struct answer a;
		struct tool_run *run = played_begin(&req, "GET", "/stat?path=f", NULL, NULL);

		played_end_badly(run, (enum tool_error)error);
		request_wait(&req, &a);
		assert_in_range(a.status, 400, 507);
		assert_non_null(a.doc); /* whatever bytes the name has */
		assert_true(strlen(error_code(&a)) > 3 && strlen(error_message(&a)) > 5);
		if (error == TOOL_EDIT_MANY)
			assert_non_null(
				strstr(error_message(&a), "(3 matches); first on line 4, 9"));
		if (error == TOOL_DISK_FULL)
			assert_non_null(strstr(error_message(&a), "5 MiB"));
		answer_free(&a);
	}
}

static void test_upload(void **state)
{
	struct request req;
	struct answer a;
	struct tool_end created = { .flags = TOOL_END_CREATED };
	struct tool_run *run = played_begin(&req, "PUT", "/raw?path=f&mode=600&if_match=%22x-y%22",
					    NULL, "the content");

	(void)state;
	assert_non_null(strstr(run->args, "mode=600|"));
	assert_non_null(strstr(run->args, "if_unchanged=x-y|"));
	world_turns(5);
	assert_int_equal(buf_len(&run->fed), 0); /* nothing before the tool is ready */
	run->hooks.on_ready(run->arg);
	for (int i = 0; i < 500 && !run->committed; i++)
		loop_turn(world.loop, 1);
	assert_true(run->committed);
	assert_true(str_is(buf_str(&run->fed), "the content"));
	played_entry(run, "f", TOOL_KIND_FILE, 11);
	played_end(run, &created);
	request_wait(&req, &a);
	expect_status(&a, 201);
	answer_free(&a);
}

static void test_uploads_wait_and_break_off(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run = played_begin(&req, "PUT", "/raw?path=f", NULL, "some bytes");

	(void)state;
	run->full = true;
	run->hooks.on_ready(run->arg);
	world_turns(20);
	assert_int_equal(buf_len(&run->fed), 10);
	assert_false(run->committed); /* the end is a byte like any other */
	run->hooks.on_room(run->arg);
	world_turns(20);
	assert_true(run->committed);
	played_end_badly(run, TOOL_DISK_FULL);
	request_wait(&req, &a);
	refused(&a, 507, "disk_full");
	answer_free(&a);

	/* The client disconnects: the tool is informed, and nothing is committed. */
	run = played_begin(&req, "PUT", "/raw?path=f", NULL, "some bytes");
	request_drop(&req);
	world_turns(20);
	assert_true(run->cancelled);
	assert_false(run->committed);
}

static void test_content_at_hand(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run = played_begin(
		&req, "POST", "/batch", NULL,
		"{\"files\":[{\"path\":\"a\",\"content\":\"A\"},{\"path\":\"b\",\"content_b64\":"
		"\"QkI=\",\"mode\":\"0600\"}]}");
	struct str in = buf_str(&run->fed);
	uint8_t types[8];
	struct frame frame;
	size_t n = 0;

	(void)state;
	while (n < ARRAY_LEN(types) && frame_next(in, TOOL_PAYLOAD_MAX, &frame) == 1) {
		types[n++] = frame.type;
		in.p += frame_size(&frame);
		in.n -= frame_size(&frame);
	}
	assert_int_equal(n, 5);
	assert_memory_equal(
		types, ((uint8_t[]){ TOOL_FILE, TOOL_DATA, TOOL_FILE, TOOL_DATA, TOOL_COMMIT }), 5);
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 200);
	answer_free(&a);
}

static void test_an_answer_that_is_too_long(void **state)
{
	static char path[20000];
	struct request req;
	struct answer a;
	struct tool_run *run = played_begin(&req, "GET", "?limit=10000", NULL, NULL);

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	for (int i = 0; i < 3000 && !run->cancelled; i++)
		played_entry(run, path, TOOL_KIND_FILE, 1);
	assert_true(run->cancelled);
	request_wait(&req, &a);
	expect_status(&a, 200);
	assert_string_equal(text_of(&a, "reason"), "bytes");
	answer_free(&a);
}

static void test_limits(void **state)
{
	struct request req[4];
	struct answer a;

	(void)state;
	for (int i = 0; i < 2; i++)
		(void)played_begin(&req[i], "GET", "/stat?path=f", NULL, NULL);
	refused(call("GET", played_url("/stat?path=f"), NULL), 429, "quota_exceeded");
	played_end_badly(&played[0], TOOL_NOT_FOUND);
	request_wait(&req[0], &a);
	answer_free(&a);
	(void)played_begin(&req[2], "GET", "/stat?path=f", NULL, NULL);
	request_drop(&req[2]); /* a client that goes makes room too */
	world_turns(20);
	assert_true(played_last()->cancelled);
	(void)played_begin(&req[3], "GET", "/stat?path=f", NULL, NULL);
	/* A tool that does nothing is not waited for for ever. */
	played_last()->waiting_ms = 1;
	request_wait(&req[3], &a);
	refused(&a, 504, "timeout");
	assert_true(played_last()->cancelled);
	answer_free(&a);
	request_drop(&req[1]);
}

static int setup_limits(void **state)
{
	played_count = 0;
	world_prepare();
	world.config.file_ops_per_sandbox = 2;
	world_start();
	played_box = make("{}");
	return 0;
}

static void test_the_sandbox_ends(void **state)
{
	struct request req;
	struct answer a;
	struct tool_run *run = played_begin(&req, "GET", "/stat?path=f", NULL, NULL);
	struct err gone;
	struct tool_outcome outcome = { .error = &gone };

	(void)state;
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", played_box), NULL), 204);
	(void)err_set(&gone, ERR_UNAVAILABLE, "the link broke");
	if (!run->cancelled)
		run->hooks.on_end(run->arg, &outcome);
	request_wait(&req, &a);
	refused(&a, 410, "sandbox_gone");
	answer_free(&a);
}

static void test_a_watch(void **state)
{
	struct tool_said said = { .type = TOOL_EVENT };
	struct request req;
	struct answer a;
	struct tool_run *run =
		played_begin(&req, "GET", "/watch?path=src&recursive=true", NULL, NULL);

	(void)state;
	run->hooks.on_ready(run->arg);
	said.event = (struct tool_event){ .change = TOOL_RENAMED,
					  .kind = TOOL_KIND_FILE,
					  .path = STR_LIT("new\xff"),
					  .from = STR_LIT("old") };
	run->hooks.on_said(run->arg, &said);
	played_end_well(run);
	request_wait(&req, &a);
	expect_status(&a, 200);
	assert_non_null(strstr(a.body, "event: started\n"));
	assert_non_null(strstr(a.body, "event: renamed\n"));
	assert_non_null(strstr(a.body, "\"from\":\"src/old\""));
	assert_non_null(strstr(a.body, "\"path\":\"src/new\\\\xff\",\"path_b64\":"));
	answer_free(&a);
}

#define T(name) cmocka_unit_test_setup_teardown(name, played_setup, played_teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_arguments),
		T(test_refusals_name_the_field),
		T(test_download),
		T(test_downloads_that_break_off),
		T(test_hostile_frames),
		T(test_errors_have_codes),
		T(test_upload),
		T(test_uploads_wait_and_break_off),
		T(test_content_at_hand),
		T(test_an_answer_that_is_too_long),
		cmocka_unit_test_setup_teardown(test_limits, setup_limits, played_teardown),
		T(test_the_sandbox_ends),
		T(test_a_watch),
	};

	return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
