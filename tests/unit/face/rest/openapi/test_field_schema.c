/* SPDX-License-Identifier: Apache-2.0 */
/* Field tables as JSON Schema: ranges, defaults and references. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/rest/openapi/field_schema.h"

static const char *const colours[] = { "red", "green", NULL };

static const struct field inner[] = { { .name = "deep", .type = FIELD_INT, .min = 1, .max = 3 },
				      { .type = FIELD_END } };
static const struct field table[] = {
	{ .name = "number", .type = FIELD_INT, .min = -5, .max = 5, .fallback = 4, .doc = "one" },
	{ .name = "colour", .type = FIELD_ENUM, .names = colours, .fallback = 1 },
	{ .name = "list", .type = FIELD_LIST, .fields = inner, .max = 2, .required = true },
	{ .type = FIELD_END }
};

static const char *inner_is_named(const struct field *fields)
{
	return fields == inner ? "Inner" : NULL;
}

static void is_written(void (*write)(struct json_writer *w), const char *wanted)
{
	struct json_writer w;
	struct json *doc;
	struct err err;
	struct buf out;

	buf_init(&out, 65536);
	json_writer_init(&w, &out);
	write(&w);
	assert_int_equal(json_writer_end(&w), 0);
	doc = json_parse(buf_str(&out), &err);
	assert_non_null(doc);
	if (!memmem(buf_data(&out), buf_len(&out), wanted, strlen(wanted)))
		fail_msg("%s is not in %.*s", wanted, (int)buf_len(&out), buf_data(&out));
	json_free(doc);
	buf_done(&out);
}

static void write_body(struct json_writer *w)
{
	field_write_schema(table, w, NULL);
}

static void write_answer(struct json_writer *w)
{
	field_write_answer(table, true, w, NULL);
}

static void bodies_have_ranges_and_defaults(void **state)
{
	is_written(write_body, "\"minimum\":-5,\"maximum\":5,\"default\":4");
	is_written(write_body, "\"description\":\"one\"");
	is_written(write_body, "\"enum\":[\"red\",\"green\"],\"default\":\"green\"");
	is_written(write_body, "\"maxItems\":2");
	is_written(write_body, "\"required\":[\"list\"]");
}

static void answers_refer_to_named_tables(void **state)
{
	field_names_set(inner_is_named);
	is_written(write_answer, "\"$ref\":\"#/components/schemas/Inner\"");
	is_written(write_answer, "\"required\":[\"number\",\"colour\",\"list\"]");
	field_names_set(NULL);
	is_written(write_answer, "\"deep\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_have_ranges_and_defaults),
		cmocka_unit_test(answers_refer_to_named_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
