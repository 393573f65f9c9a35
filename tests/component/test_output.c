/* SPDX-License-Identifier: Apache-2.0 */
/* Output by cursor: events, documents, bytes, in every chunking. */
#include <string.h>

#include "inside.h"

/* ---- events ---- */

static void test_stream(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = post("/exec/stream", "{\"command\":\"echo hi there\"}");
	expect_status(a, 200);
	assert_non_null(strstr(a->head, "Content-Type: text/event-stream"));
	assert_true(a->complete);
	assert_string_equal(strstr(a->body, "event: stdout"),
			    strstr(a->body, "event: stdout\nid: 9:0\n"
					    "data: {\"data\":\"hi there\\n\",\"cursor\":9}\n\n"));
	assert_ptr_equal(strstr(a->body, "event: started\nid: 0:0\ndata: {\"process_id\":"),
			 a->body);
	assert_non_null(strstr(a->body, "event: exit\nid: 9:0\ndata: {\"exit_code\":0,"
					"\"signal\":null,\"reason\":\"exited\","));
	assert_non_null(strstr(a->body, "\"stdout_bytes\":9,\"stderr_bytes\":0"));
	a = post("/exec/stream", "{\"command\":\"error bad\"}");
	assert_non_null(strstr(a->body, "event: stderr\nid: 0:4\n"
					"data: {\"data\":\"bad\\n\",\"cursor\":4}"));
	a = post("/exec/stream", "{\"command\":\"oom\"}");
	assert_non_null(strstr(a->body, "\"reason\":\"oom\""));
	assert_non_null(strstr(a->body, "\"memory_limit_bytes\":67108864"));
	a = post("/exec/stream", "{\"command\":\"sleep 60000\",\"timeout_sec\":1}");
	assert_non_null(strstr(a->body, "\"exit_code\":124"));
	assert_non_null(strstr(a->body, "\"reason\":\"timeout\""));
}

/* "aé€😀z" split at every position: delivered as whole characters, once. */
static void test_utf8_is_never_torn(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	struct request req;
	struct answer a;
	char *all;

	(void)state;
	new_sandbox("{}");
	for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
		char head[sizeof(text)];
		const char *name = path_of("u%zu", cut);

		memcpy(head, text, cut);
		head[cut] = '\0';
		start(name, "cat");
		follow_send(&req, sandbox, name, "follow=true");
		(void)request_until(&req, "\r\n\r\n");
		type(name, head);
		world_turns(5);
		type(name, text + cut);
		close_input(name);
		request_wait(&req, &a);
		all = gather(&a, "stdout");
		assert_string_equal(all, text);
		assert_null(strstr(a.body, "data_b64"));
		assert_non_null(strstr(a.body, "\"cursor\":11}"));
		free(all);
		answer_free(&a);
	}
}

/* Byte by byte is the worst chunking there is. */
static void test_utf8_byte_by_byte(void **state)
{
	static const char text[] = "\xf0\x9f\x98\x80\xe2\x82\xac";
	struct request req;
	struct answer a;
	char *all;

	(void)state;
	new_sandbox("{}");
	start("b", "cat");
	follow_send(&req, sandbox, "b", "follow=true");
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		type("b", (const char[]){ text[i], '\0' });
	close_input("b");
	request_wait(&req, &a);
	all = gather(&a, "stdout");
	assert_string_equal(all, text);
	assert_int_equal(count(a.body, "event: stdout"), 2);
	free(all);
	answer_free(&a);
}

static void test_binary(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("b", "cat");
	follow_send(&req, sandbox, "b", "follow=true");
	expect_status(post("/processes/b/stdin", "{\"data_b64\":\"AAD/\"}"), 204);
	(void)request_until(&req, "{\"data_b64\":\"AAD/\",\"cursor\":3}");
	/* The start of a character that never ends is delivered with the end. */
	expect_status(post("/processes/b/stdin", "{\"data_b64\":\"eOKC\"}"), 204);
	(void)request_until(&req, "{\"data\":\"x\",\"cursor\":4}");
	close_input("b");
	(void)request_until(&req, "{\"data_b64\":\"4oI=\",\"cursor\":6}");
	(void)request_until(&req, "event: exit");
	request_wait(&req, &a);
	answer_free(&a);
	/* Mostly NUL is valid UTF-8, but no text. */
	a = *get("/processes/b/output?format=json");
	assert_int_equal(strlen(text_of(&a, "stdout_b64")), 8);
}

static void test_cursors(void **state)
{
	struct request req;
	struct answer *a, late;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	type("c", "0123456789");
	a = get("/processes/c/output?cursor=4");
	expect_status(a, 200);
	assert_true(a->complete);
	assert_string_equal(a->body, "event: stdout\nid: 10:0\n"
				     "data: {\"data\":\"456789\",\"cursor\":10}\n\n");
	a = get("/processes/c/output?cursor=10:0");
	assert_string_equal(a->body, "");
	a = get("/processes/c/output?tail=3&format=raw");
	assert_string_equal(a->body, "789");
	assert_non_null(strstr(a->head, "Cay-Cursor: 7\r\n"));
	a = get("/processes/c/output?tail=1000&format=raw");
	assert_string_equal(a->body, "0123456789");
	a = get("/processes/c/output?cursor=11");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "cursor"));
	expect_status(get("/processes/c/output?cursor=0:1"), 400);
	/* What an EventSource sends when it reconnects. */
	request_send(&req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/c/output", sandbox),
		     "Last-Event-ID: 8:0\r\n", NULL);
	request_wait(&req, &late);
	assert_non_null(strstr(late.body, "\"data\":\"89\""));
	answer_free(&late);
	/* Its URL is still the original one; the events received since count. */
	request_send(&req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/c/output?tail=10", sandbox),
		     "Last-Event-ID: 9:0\r\n", NULL);
	request_wait(&req, &late);
	assert_non_null(strstr(late.body, "\"data\":\"9\""));
	answer_free(&late);
	request_send(&req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/c/output?cursor=2", sandbox),
		     "Last-Event-ID: 9:0\r\n", NULL);
	request_wait(&req, &late);
	assert_non_null(strstr(late.body, "\"data\":\"9\""));
	answer_free(&late);
	request_send(&req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/c/output", sandbox),
		     "Accept: application/json\r\n", NULL);
	request_wait(&req, &late);
	assert_string_equal(text_of(&late, "stdout"), "0123456789");
	assert_string_equal(text_of(&late, "state"), "running");
	assert_int_equal(int_of(&late, "stdout_cursor"), 10);
	answer_free(&late);
}

static void test_bad_questions(void **state)
{
	static const struct {
		const char *query, *field;
	} rows[] = {
		{ "cursor=x", "cursor" },
		{ "cursor=", "cursor" },
		{ "cursor=-1", "cursor" },
		{ "cursor=1:2:3", "cursor" },
		{ "follow=maybe", "follow" },
		{ "stream=stdin", "stream" },
		{ "format=xml", "format" },
		{ "tail=-1", "tail" },
		{ "tail=x", "tail" },
		{ "tail=1&cursor=0", "tail" },
		{ "format=raw&stream=both", "stream" },
		{ "format=json&follow=true", "follow" },
		{ "colour=red", "colour" },
	};
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	start("c", "hang");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		a = get(path_of("/processes/c/output?%s", rows[i].query));
		expect_status(a, 400);
		if (!strstr(error_message(a), rows[i].field))
			fail_msg("%s: %s", rows[i].query, error_message(a));
	}
	expect_status(get("/processes/none/output"), 404);
	expect_status(get("/processes/99/output"), 404);
	expect_status(get("/processes/c/output?stream=stderr&format=raw"), 200);
}

static void test_json_document(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	start("s", "spew 1000000");
	a = get("/processes/s/output?format=json&cursor=999990");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "stdout"), "xxxxxxxxxx");
	assert_string_equal(text_of(a, "state"), "exited");
	assert_string_equal(text_of(a, "reason"), "exited");
	assert_int_equal(int_of(a, "stdout_bytes"), 1000000);
	assert_false(json_bool(member(a->doc, "more")));
	start("c", "cat");
	type("c", "ok\xe2\x82"); /* the rest of it will come */
	a = get("/processes/c/output?format=json");
	assert_string_equal(text_of(a, "stdout"), "ok");
	assert_int_equal(int_of(a, "stdout_cursor"), 2);
	type("c", "\xac");
	a = get("/processes/c/output?format=json&cursor=2");
	assert_string_equal(text_of(a, "stdout"), "\xe2\x82\xac");
}

/* ---- bytes ---- */

static void test_raw(void **state)
{
	struct request req;
	struct answer *a, late;

	(void)state;
	new_sandbox("{}");
	start("s", "spew 1000000");
	a = get("/processes/s/output?format=raw");
	expect_status(a, 200);
	assert_true(a->complete);
	assert_int_equal(a->n, 1000000);
	assert_non_null(strstr(a->head, "Content-Type: application/octet-stream"));
	assert_non_null(strstr(a->head, "Cay-Cursor: 0\r\n"));
	/* The first byte that still exists is a later one. */
	start("t", "spew 3000000");
	a = get("/processes/t/output?format=raw");
	assert_non_null(strstr(a->head, path_of("Cay-Cursor: %d\r\n", 3000000 - (1 << 20))));
	assert_int_equal(a->n, 1 << 20);
	start("d", "drip 3 20");
	follow_send(&req, sandbox, "d", "format=raw&follow=true");
	(void)request_until(&req, "Cay-Cursor: 0"); /* nothing to wait for: the head comes */
	request_wait(&req, &late);
	assert_string_equal(late.body, "3\n2\n1\n");
	assert_true(late.complete);
	answer_free(&late);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_stream),
		TEST(test_utf8_is_never_torn),
		TEST(test_utf8_byte_by_byte),
		TEST(test_binary),
		TEST(test_cursors),
		TEST(test_bad_questions),
		TEST(test_json_document),
		TEST(test_raw),
	};

	return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
