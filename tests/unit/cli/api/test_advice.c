/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's errors in the terms of the command line, and completion's parsing of a line. */
#include "check.h"

#include <string.h>

#include "cli/api/advice.h"
#include "cli/line/typed.h"
#include "face/kit/error.h"

static void message_is(const char *command, const char *theirs, const char *ours)
{
	const char *words[2] = { command, NULL };
	char text[ERR_MESSAGE_MAX];
	struct cli cli = { 0 };
	size_t used;

	cli.command = command_find(words, 1, &used);
	advice_message(text, &cli, str_of(theirs));
	assert_string_equal(text, ours);
}

static void test_fields_become_options(void **state)
{
	message_is("create", "memory_mb must be 1 to 8192", "--memory must be 1 to 8192");
	message_is("create", "cpu_count must be 0.05 to 8", "--cpu must be 0.05 to 8");
	message_is("create", "name must be short", "--name must be short");
	/* A plain word in the middle is not a field. */
	message_is("create", "the name 'timeout' is in use", "the name 'timeout' is in use");
	message_is("create", "oom (memory_mb is 64).", "oom (--memory is 64).");
	message_is("create", "network.mode must be none", "--network must be none");
	/* A field without an option stays. */
	message_is("info", "memory_mb must be 1 to 8192", "memory_mb must be 1 to 8192");
	message_is("create", "xmemory_mb memory_mbx", "xmemory_mb memory_mbx");
	message_is("create", "", "");
	message_is("create", "....", "....");
}

static void test_long_messages_are_cut(void **state)
{
	char theirs[4096], ours[ERR_MESSAGE_MAX];
	const char *words[] = { "create" };
	struct cli cli = { 0 };
	size_t used;

	cli.command = command_find(words, 1, &used);
	for (size_t n = 1; n < sizeof(theirs); n += 7) {
		for (size_t i = 0; i < n; i++)
			theirs[i] = "cpu_count "[i % 10];
		advice_message(ours, &cli, (struct str){ theirs, n });
		assert_true(strlen(ours) < ERR_MESSAGE_MAX);
	}
}

static void test_no_hint_speaks_http(void **state)
{
	static const char *const words[] = { "GET ",  "POST ", "PUT ", "DELETE ",
					     "Send ", ".../",  "/v1/" };
	char hint[CLI_HINT_MAX];
	struct cli cli = { 0 };

	for (int code = ERR_OK; code < ERR_CODE_COUNT; code++) {
		/* These cannot come from a call of this program. */
		if (error_hint(code) == NULL || code == ERR_CONTEXT_NOT_FOUND ||
		    code == ERR_PREVIEW_PRIVATE || code == ERR_IDEMPOTENCY_MISMATCH ||
		    code == ERR_EDIT_AMBIGUOUS || code == ERR_UNSUPPORTED_MEDIA_TYPE ||
		    code == ERR_HEADERS_TOO_LARGE)
			continue;
		advice_hint(hint, &cli, code, str_of(error_hint(code)));
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (strstr(hint, words[i]) != NULL)
				fail_msg("%s: %s", err_name(code), hint);
	}
}

static void test_lines_being_typed(void **state)
{
	static const char *const value[] = { "create", "--network", "f" };
	static const char *const equals[] = { "create", "--network=f" };
	static const char *const two[] = { "--state", "/x", "template", "build", "b" };
	static const char *const inside[] = { "exec", "-u", "root", "web", "ls", "-" };
	static const char *const both[] = { "snapshot", "" };
	struct typed t;

	typed_read(&t, NULL, 0);
	assert_string_equal(t.current, "");
	assert_null(t.command);
	typed_read(&t, value, 3);
	assert_string_equal(t.option->name, "network");
	assert_string_equal(t.value, "f");
	typed_read(&t, equals, 2);
	assert_string_equal(t.option->name, "network");
	assert_string_equal(t.value, "f");
	typed_read(&t, two, 5);
	assert_string_equal(t.command->name, "template build");
	assert_string_equal(t.state, "/x");
	assert_int_equal(t.operand_count, 0);
	typed_read(&t, inside, 6);
	assert_true(t.literal);
	assert_int_equal(t.operand_count, 2);
	assert_string_equal(t.operands[0], "web");
	typed_read(&t, both, 2);
	assert_string_equal(t.command->name, "snapshot");
	assert_string_equal(t.family, "snapshot");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_become_options),
		cmocka_unit_test(test_long_messages_are_cut),
		cmocka_unit_test(test_no_hint_speaks_http),
		cmocka_unit_test(test_lines_being_typed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
