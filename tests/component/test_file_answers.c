/* SPDX-License-Identifier: Apache-2.0 */
/* The answers to file operations, byte by byte, as the tool's frames lead to them. */
#include <string.h>

#include "played_tool.h"

#define WHEN "\"2023-11-14T22:13:20.000Z\""
#define ENTRY(path, name, type, size, mode, target, etag)                                      \
	"\"path\":\"" path "\",\"name\":\"" name "\",\"type\":\"" type "\",\"size\":" size     \
	",\"mode\":\"" mode "\",\"uid\":0,\"gid\":0,\"user\":\"sandbox\",\"group\":null,"      \
	"\"modified_at\":" WHEN ",\"accessed_at\":null,\"changed_at\":null,\"target\":" target \
	",\"etag\":" etag
#define FILE_F(size) \
	ENTRY("f", "f", "file", size, "0644", "null", "\"0-0-" size "-17979cfe362a0000-0\"")

static void say(struct tool_run *run, const struct tool_said *said)
{
	run->hooks.on_said(run->arg, said);
}

static void say_match(struct tool_run *run, uint8_t flags, uint64_t line, const char *text)
{
	struct tool_said said = { .type = TOOL_MATCH };

	said.match = (struct tool_match){ .flags = flags,
					  .line = line,
					  .column = flags & TOOL_MATCH_CONTEXT ? 0 : 2,
					  .path = STR_LIT("a.c"),
					  .text = str_of(text) };
	say(run, &said);
}

static void say_item(struct tool_run *run, const char *path, enum tool_error error)
{
	struct tool_said said = { .type = TOOL_ITEM };

	said.item = (struct tool_item){
		.error = error, .bytes = 3, .created = true, .path = str_of(path)
	};
	say(run, &said);
}

static void expect_body(struct request *req, struct tool_run *run, const struct tool_end *with,
			const char *body)
{
	struct answer a;

	played_end(run, with);
	request_wait(req, &a);
	assert_string_equal(a.body, body);
	answer_free(&a);
}

static void test_answers_on_one_path(void **state)
{
	struct tool_end done = { .flags = TOOL_END_CREATED,
				 .entries = 4,
				 .matches = 2,
				 .first_line = 7,
				 .total_lines = 9 };
	struct request req;
	struct tool_run *run;

	(void)state;
	run = played_begin(&req, "POST", "", NULL, "{\"path\":\"f\",\"content\":\"x\"}");
	played_entry(run, "f", TOOL_KIND_FILE, 1);
	expect_body(&req, run, &done, "{" FILE_F("1") ",\"created\":true}");
	run = played_begin(&req, "POST", "/edit", NULL,
			   "{\"path\":\"f\",\"old_string\":\"x\",\"new_string\":\"y\"}");
	played_entry(run, "f", TOOL_KIND_FILE, 1);
	expect_body(&req, run, &done,
		    "{" FILE_F("1") ",\"replacements\":2,\"first_line\":7,\"total_lines\":9}");
	run = played_begin(&req, "POST", "/chmod", NULL, "{\"path\":\"f\",\"mode\":\"644\"}");
	expect_body(&req, run, &done, "{\"path\":\"f\",\"entries\":4}");
	run = played_begin(&req, "POST", "/mkdir", NULL, "{\"path_b64\":\"//8=\"}");
	expect_body(&req, run, &done,
		    "{\"path\":\"\\\\xff\\\\xff\",\"path_b64\":\"//8=\",\"created\":true}");
	run = played_begin(&req, "GET", "/exists?path=f", NULL, NULL);
	played_entry(run, "f", TOOL_KIND_SOCKET, 1);
	expect_body(&req, run, &done, "{\"exists\":true,\"type\":\"socket\"}");
	run = played_begin(&req, "GET", "/exists?path=f", NULL, NULL);
	expect_body(&req, run, &done, "{\"exists\":false,\"type\":null}");
}

static void test_answers_of_lists(void **state)
{
	struct tool_end cut = { .cut = TOOL_CUT_COUNT, .skipped_unreadable = 1 };
	struct tool_end deep = { .skipped_deep = 1 };
	struct tool_said link = { .type = TOOL_ENTRY };
	struct request req;
	struct tool_run *run = played_begin(&req, "GET", "?path=d", NULL, NULL);

	(void)state;
	played_entry(run, "sub", TOOL_KIND_DIRECTORY, 0);
	link.entry = (struct tool_entry){ .kind = TOOL_KIND_SYMLINK,
					  .mode = 0777,
					  .size = UINT64_MAX,
					  .mtime_ns = 1700000000000000000,
					  .path = STR_LIT("l\xfe"),
					  .user = STR_LIT("sandbox"),
					  .target = STR_LIT("sub") };
	say(run, &link);
	expect_body(&req, run, &cut,
		    "{\"data\":[{" ENTRY(
			    "d/sub", "sub", "directory", "0", "0644", "null",
			    "null") "},{" ENTRY("d/l\\\\xfe\",\"path_b64\":\"ZC9s/g==",
						"l\\\\xfe\",\"name_b64\":\"bP4=", "symlink",
						"9223372036854775807", "0777", "\"sub\"",
						"null") "}],\"truncated\":true,\"reason\":"
							"\"limit\",\"skipped_unreadable\":1}");
	run = played_begin(&req, "POST", "/glob", NULL, "{\"pattern\":\"*\"}");
	expect_body(&req, run, &deep,
		    "{\"data\":[],\"truncated\":true,\"reason\":\"depth\","
		    "\"skipped_unreadable\":0}");
}

static void test_answers_of_grep(void **state)
{
	struct tool_end done = { .matches = 2, .files = 5, .skipped_binary = 1 };
	struct request req;
	struct tool_run *run =
		played_begin(&req, "POST", "/grep", NULL, "{\"pattern\":\"m\",\"context\":1}");

	(void)state;
	say_match(run, TOOL_MATCH_CONTEXT, 1, "far");
	say_match(run, TOOL_MATCH_CONTEXT, 2, "near");
	say_match(run, 0, 3, "hm");
	say_match(run, TOOL_MATCH_CONTEXT, 4, "between");
	say_match(run, TOOL_MATCH_CUT, 5, "mm");
	say_match(run, TOOL_MATCH_CONTEXT | TOOL_MATCH_GAP, 9, "elsewhere");
	expect_body(&req, run, &done,
		    "{\"data\":[{\"path\":\"a.c\",\"line\":3,\"column\":2,\"text\":\"hm\","
		    "\"before\":[\"near\"],\"after\":[\"between\"]},"
		    "{\"path\":\"a.c\",\"line\":5,\"column\":2,\"text\":\"mm\",\"cut\":true,"
		    "\"before\":[\"between\"],\"after\":[]}],\"matches\":2,"
		    "\"files_searched\":5,\"files_skipped_binary\":1,"
		    "\"files_skipped_unreadable\":0,\"files_skipped_limit\":0,"
		    "\"truncated\":false,\"reason\":null}");
}

static void test_answers_with_items(void **state)
{
	struct tool_end done = { .failed = 1, .entries = 2, .bytes = 6 };
	struct tool_said line = { .type = TOOL_LINE };
	struct request req;
	struct tool_run *run = played_begin(&req, "POST", "/batch", NULL,
					    "{\"files\":[{\"path\":\"a\",\"content\":\"A\"}]}");

	(void)state;
	say_item(run, "a", TOOL_OK);
	say_item(run, "b", TOOL_NOT_FOUND);
	expect_body(&req, run, &done,
		    "{\"data\":[{\"path\":\"a\",\"ok\":true,\"size\":3,\"created\":true,"
		    "\"error\":null},{\"path\":\"b\",\"ok\":false,\"size\":3,\"created\":true,"
		    "\"error\":{\"code\":\"file_not_found\",\"message\":\"does not exist\"}}],"
		    "\"failed\":1}");
	run = played_begin(&req, "PUT", "/archive?path=d", NULL, "bytes");
	say_item(run, "b", TOOL_NOT_FOUND);
	expect_body(&req, run, &done,
		    "{\"failed\":[{\"path\":\"b\",\"code\":\"file_not_found\","
		    "\"message\":\"does not exist\"}],\"failed_count\":1,\"entries\":2,"
		    "\"bytes\":6}");
	run = played_begin(&req, "GET", "/read?path=f", NULL, NULL);
	line.line = (struct tool_line){
		.number = 1, .bytes = 900, .flags = TOOL_LINE_CUT, .text = STR_LIT("one\t")
	};
	say(run, &line);
	expect_body(&req, run,
		    &(struct tool_end){
			    .entries = 1, .offset = 1, .total_lines = 3, .total_bytes = 950 },
		    "{\"path\":\"f\",\"content\":\"     1\\tone\\t ... [line cut: 900 bytes]\\n\","
		    "\"total_lines\":3,\"total_bytes\":950,\"offset\":1,\"lines_returned\":1,"
		    "\"truncated\":true,\"binary\":false,"
		    "\"hint\":\"lines 1 to 1 of 3; continue with offset=2\"}");
}

/* ---- the same for E2B ---- */

static char e2b_id[32], e2b_token[80];

static void e2b_make(void)
{
	struct request req;
	struct answer a;

	request_send(&req, NULL, "POST", "/v2/sandboxes",
		     path_of("X-API-KEY: e2b_%s\r\n", world.admin + 4),
		     "{\"templateID\":\"base\"}");
	request_wait(&req, &a);
	expect_status(&a, 201);
	(void)snprintf(e2b_id, sizeof(e2b_id), "%s", text_of(&a, "sandboxID"));
	(void)snprintf(e2b_token, sizeof(e2b_token), "%s", text_of(&a, "envdAccessToken"));
	answer_free(&a);
}

static struct tool_run *e2b_begin(struct request *req, const char *procedure, const char *body)
{
	size_t before = played_count;

	request_send(req, NULL, "POST", path_of("/filesystem.Filesystem/%s", procedure),
		     path_of("E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n"
			     "X-Access-Token: %s\r\n",
			     e2b_id, e2b_token),
		     body);
	for (int i = 0; i < 500 && played_count == before; i++)
		loop_turn(world.loop, 1);
	assert_int_equal(played_count, before + 1);
	return played_last();
}

#define E2B_F(path)                                                                          \
	"{\"name\":\"f\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"" path "\",\"size\":\"7\","  \
	"\"mode\":420,\"permissions\":\"-rw-r--r--\",\"owner\":\"sandbox\",\"group\":\"0\"," \
	"\"modifiedTime\":" WHEN "}"

static void test_answers_of_e2b(void **state)
{
	struct tool_end done = { .flags = TOOL_END_CREATED };
	struct request req;
	struct tool_run *run;

	(void)state;
	e2b_make();
	run = e2b_begin(&req, "Stat", "{\"path\":\"/d/f\"}");
	played_entry(run, "/d/f", TOOL_KIND_FILE, 7);
	expect_body(&req, run, &done, "{\"entry\":" E2B_F("/d/f") "}");
	run = e2b_begin(&req, "ListDir", "{\"path\":\"/d\"}");
	played_entry(run, "f", TOOL_KIND_FILE, 7);
	played_entry(run, "s/f", TOOL_KIND_FILE, 7);
	expect_body(&req, run, &done, "{\"entries\":[" E2B_F("/d/f") "," E2B_F("/d/s/f") "]}");
	run = e2b_begin(&req, "ListDir", "{\"path\":\"/d\"}");
	expect_body(&req, run, &done, "{\"entries\":[]}");
	run = e2b_begin(&req, "Remove", "{\"path\":\"/d/f\"}");
	expect_body(&req, run, &done, "{}");
}

/* The operation continues, and finds neither a request nor its memory. */
static void test_e2b_clients_disconnect(void **state)
{
	static const char *const procedures[] = { "Stat", "ListDir", "MakeDir", "Remove" };
	struct tool_end done = { .flags = TOOL_END_CREATED };

	(void)state;
	e2b_make();
	for (size_t i = 0; i < ARRAY_LEN(procedures); i++) {
		struct request req;
		struct tool_run *run = e2b_begin(&req, procedures[i], "{\"path\":\"/d\"}");

		request_drop(&req);
		world_turns(20);
		played_entry(run, "f", TOOL_KIND_FILE, 7);
		played_end(run, &done);
		world_turns(5);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, played_setup, played_teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_answers_on_one_path), T(test_answers_of_lists),
		T(test_answers_of_grep),     T(test_answers_with_items),
		T(test_answers_of_e2b),	     T(test_e2b_clients_disconnect),
	};

	return cmocka_run_group_tests_name("file_answers", tests, NULL, NULL);
}
