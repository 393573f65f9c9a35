/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a kernel's program as events. Code in the sandbox can write any line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "service/run/code_private.h"

static char got[4096];

static _printf_(1, 2) void note(const char *fmt, ...)
{
	size_t n = strlen(got);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(got + n, sizeof(got) - n, fmt, ap);
	va_end(ap);
}

#define SHOWN(s) (int)(s).n, (s).p

static void on_event(void *arg, const struct code_event *event)
{
	(void)arg;
	switch (event->type) {
	case CODE_COUNT:
		note("count %d", (int)event->execution_count);
		break;
	case CODE_STDOUT:
	case CODE_STDERR:
		note("%s %.*s %d", event->type == CODE_STDOUT ? "out" : "err", SHOWN(event->text),
		     (int)event->at_us);
		break;
	case CODE_RESULT:
		note("result %d", event->is_main);
		for (size_t i = 0; i < event->part_count; i++)
			note(" %s%s%.*s", event->parts[i].name,
			     event->parts[i].structured ? ":" : "=", SHOWN(event->parts[i].value));
		break;
	case CODE_ERROR:
		note("error %.*s,%.*s,%.*s", SHOWN(event->name), SHOWN(event->value),
		     SHOWN(event->traceback));
		break;
	}
}

static void expect(const char *line, enum code_line kind, const char *events)
{
	got[0] = '\0';
	assert_int_equal(code_line_read(str_of(line), "me", on_event, NULL), kind);
	assert_string_equal(got, events);
}

static void test_events(void **state)
{
	(void)state;
	expect("{\"id\":\"me\",\"type\":\"number_of_executions\",\"execution_count\":3}",
	       CODE_LINE_EVENT, "count 3");
	expect("{\"id\":\"me\",\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":12}",
	       CODE_LINE_EVENT, "out a 12");
	expect("{\"id\":\"me\",\"type\":\"stderr\",\"text\":\"b\",\"timestamp\":13}",
	       CODE_LINE_EVENT, "err b 13");
	expect("{\"id\":\"me\",\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":"
	       "\"t\"}",
	       CODE_LINE_EVENT, "error E,v,t");
	expect("{\"id\":\"me\",\"type\":\"end_of_execution\"}", CODE_LINE_END, "");
}

static void test_parts_of_results(void **state)
{
	(void)state;
	expect("{\"id\":\"me\",\"type\":\"result\",\"is_main_result\":true,\"text\":\"1\","
	       "\"json\":{\"a\": [1, 2.5, null]},\"png\":\"AA==\",\"extra\":{\"x/y\":\"z\"}}",
	       CODE_LINE_EVENT,
	       "result 1 text=1 json:{\"a\":[1,2.5,null]} png=AA== extra:{\"x/y\":\"z\"}");
	expect("{\"id\":\"me\",\"type\":\"result\",\"json\":7}", CODE_LINE_EVENT,
	       "result 0 json:7");
}

static void test_too_much_in_a_result_is_left_out(void **state)
{
	char line[2048] = "{\"id\":\"me\",\"type\":\"result\"";

	(void)state;
	for (int i = 0; i < CODE_PARTS_MAX + 5; i++) {
		size_t n = strlen(line);

		(void)snprintf(line + n, sizeof(line) - n, ",\"p%02d\":\"\"", i);
	}
	line[strlen(line)] = '}';
	got[0] = '\0';
	assert_int_equal(code_line_read(str_of(line), "me", on_event, NULL), CODE_LINE_EVENT);
	assert_int_equal(strlen(got), strlen("result 0") + CODE_PARTS_MAX * strlen(" p00="));
}

static void test_lines_that_are_no_events(void **state)
{
	(void)state;
	expect("", CODE_LINE_OTHER, "");
	expect("[]", CODE_LINE_OTHER, "");
	expect("{\"id\":\"me\"", CODE_LINE_OTHER, "");
	expect("{\"type\":\"stdout\",\"text\":\"x\"}", CODE_LINE_OTHER, "");
	expect("{\"id\":\"other\",\"type\":\"end_of_execution\"}", CODE_LINE_OTHER, "");
	expect("{\"id\":\"me\",\"type\":\"unknown\"}", CODE_LINE_OTHER, "");
	expect("{\"id\":\"me\",\"type\":7}", CODE_LINE_OTHER, "");
}

static void test_members_of_other_types_count_as_absent(void **state)
{
	(void)state;
	expect("{\"id\":\"me\",\"type\":\"stdout\",\"text\":{\"a\":1},\"timestamp\":\"x\"}",
	       CODE_LINE_EVENT, "out  0");
	expect("{\"id\":\"me\",\"type\":\"error\",\"name\":1,\"other\":2}", CODE_LINE_EVENT,
	       "error ,,");
}

static void test_requests(void **state)
{
	struct text_pair env[] = { { STR_LIT("K"), STR_LIT("v\n") } };
	struct code_spec spec = { .code = STR_LIT("a\"b"), .env = { env, 1 } };
	char name[300];
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	assert_int_equal(code_line_write(&out, "me", &spec), 0);
	assert_true(str_is(buf_str(&out), "{\"op\":\"execute\",\"id\":\"me\",\"code\":\"a\\\"b\","
					  "\"env\":{\"K\":\"v\\n\"}}\n"));
	memset(name, 'N', sizeof(name));
	env[0].key = (struct str){ name, 256 };
	assert_int_equal(code_line_write(&out, "me", &spec), 0);
	env[0].key.n = 257;
	assert_true(code_line_write(&out, "me", &spec) < 0);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_parts_of_results),
		cmocka_unit_test(test_too_much_in_a_result_is_left_out),
		cmocka_unit_test(test_lines_that_are_no_events),
		cmocka_unit_test(test_members_of_other_types_count_as_absent),
		cmocka_unit_test(test_requests),
	};

	return cmocka_run_group_tests_name("service-run-code_line", tests, NULL, NULL);
}
