/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/field.h"
#include "service/texts.h"

static const char *const colours[] = { "red", "green", NULL };

struct inner_and_outer {
	bool flag_sent; /* at offset 0 */
	int64_t number;
	bool flag;
	struct str text;
	struct str name;
	int colour;
	struct text_map map;
	struct text_list list;
	int64_t deep;
};
#define AT(member) offsetof(struct inner_and_outer, member)

static const struct field inner[] = { { .name = "deep",
					.type = FIELD_INT,
					.offset = AT(deep),
					.min = 1,
					.max = 3,
					.fallback = 2 },
				      { .type = FIELD_END } };
static const struct field table[] = {
	{ .name = "number",
	  .type = FIELD_INT,
	  .offset = AT(number),
	  .min = -5,
	  .max = 5,
	  .fallback = 4 },
	{ .name = "flag",
	  .type = FIELD_BOOL,
	  .offset = AT(flag),
	  .sent = FIELD_SENT(AT(flag_sent)) },
	{ .name = "text",
	  .type = FIELD_STR,
	  .offset = AT(text),
	  .min = 1,
	  .max = 3,
	  .fallback_text = "def" },
	{ .name = "name", .type = FIELD_NAME, .offset = AT(name), .max = 4 },
	{ .name = "colour",
	  .type = FIELD_ENUM,
	  .offset = AT(colour),
	  .names = colours,
	  .fallback = 1 },
	{ .name = "map", .type = FIELD_MAP, .offset = AT(map) },
	{ .name = "list", .type = FIELD_STRINGS, .offset = AT(list), .max = 2 },
	{ .name = "object", .type = FIELD_OBJECT, .fields = inner },
	{ .name = "later", .type = FIELD_LATER },
	{ .name = "later_flag", .type = FIELD_LATER_BOOL },
	{ .name = "later_colour", .type = FIELD_LATER_ENUM, .names = colours },
	{ .type = FIELD_END }
};

static int decode(const char *body, struct inner_and_outer *ret, struct err *err)
{
	static struct json *doc;
	static struct arena arena;

	json_free(doc);
	arena_done(&arena);
	arena_init(&arena, 65536);
	doc = json_parse(str_of(body), err);
	if (!doc)
		return -1;
	memset(ret, 0, sizeof(*ret));
	*err = (struct err){ .code = ERR_OK };
	return field_decode(table, doc, "", &arena, ret, err);
}

static void test_defaults_and_values(void **state)
{
	struct inner_and_outer v;
	struct err err;

	(void)state;
	assert_int_equal(decode("{}", &v, &err), 0);
	assert_int_equal(v.number, 4);
	assert_int_equal(v.colour, 1);
	assert_int_equal(v.deep, 2);
	assert_true(str_is(v.text, "def"));
	assert_false(v.flag_sent);
	assert_int_equal(decode("{\"number\":-5,\"flag\":false,\"text\":\"abc\",\"name\":\"a.b\","
				"\"colour\":\"red\",\"map\":{},\"list\":[\"x\",\"y\"],"
				"\"object\":{\"deep\":3},\"later\":[],\"later_flag\":false,"
				"\"later_colour\":\"red\"}",
				&v, &err),
			 0);
	assert_int_equal(v.number, -5);
	assert_int_equal(v.colour, 0);
	assert_int_equal(v.deep, 3);
	assert_true(v.flag_sent);
	assert_int_equal(v.list.count, 2);
	assert_true(str_is(v.list.list[1], "y"));
	assert_non_null(v.map.list); /* given, and empty */
	assert_int_equal(v.map.count, 0);
	assert_int_equal(decode("{\"map\":{\"a\":\"b\"}}", &v, &err), 0);
	assert_true(str_is(v.map.list[0].key, "a") && str_is(v.map.list[0].value, "b"));
	assert_null(v.list.list); /* not given */
	assert_int_equal(decode("{\"number\":null,\"flag\":null,\"object\":null}", &v, &err), 0);
	assert_int_equal(v.number, 4);
	assert_false(v.flag_sent);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *body, *named;
		enum err_code code;
	} bad[] = {
		{ "{\"number\":6}", "number", ERR_INVALID_REQUEST },
		{ "{\"number\":-6}", "number", ERR_INVALID_REQUEST },
		{ "{\"number\":true}", "number", ERR_INVALID_REQUEST },
		{ "{\"flag\":\"no\"}", "flag", ERR_INVALID_REQUEST },
		{ "{\"text\":\"\"}", "text", ERR_INVALID_REQUEST },
		{ "{\"text\":\"abcd\"}", "text", ERR_INVALID_REQUEST },
		{ "{\"name\":\"abcde\"}", "name", ERR_INVALID_REQUEST },
		{ "{\"name\":\"-a\"}", "name", ERR_INVALID_REQUEST },
		{ "{\"colour\":\"blue\"}", "colour", ERR_INVALID_REQUEST },
		{ "{\"map\":[]}", "map", ERR_INVALID_REQUEST },
		{ "{\"map\":{\"k\":1}}", "map.k", ERR_INVALID_REQUEST },
		{ "{\"list\":[\"a\",\"b\",\"c\"]}", "list", ERR_INVALID_REQUEST },
		{ "{\"list\":[1]}", "list[0]", ERR_INVALID_REQUEST },
		{ "{\"object\":{\"deep\":4}}", "object.deep", ERR_INVALID_REQUEST },
		{ "{\"object\":{\"shallow\":4}}", "shallow", ERR_INVALID_REQUEST },
		{ "{\"unknown\":1}", "unknown", ERR_INVALID_REQUEST },
		{ "{\"later\":1}", "later", ERR_UNSUPPORTED },
		{ "{\"later_flag\":true}", "later_flag", ERR_UNSUPPORTED },
		{ "{\"later_colour\":\"green\"}", "later_colour", ERR_UNSUPPORTED },
		{ "{\"later_colour\":\"blue\"}", "later_colour", ERR_INVALID_REQUEST },
	};
	struct inner_and_outer v;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(decode(bad[i].body, &v, &err), -1);
		if (err.code != bad[i].code || !strstr(err.message, bad[i].named))
			fail_msg("%s: %s", bad[i].body, err.message);
	}
	(void)!decode("[]", &v, &err);
}

static void test_open_tables(void **state)
{
	struct inner_and_outer v = { .number = 0 };
	struct arena arena;
	struct json *doc;
	struct err err;

	(void)state;
	arena_init(&arena, 65536);
	doc = json_parse(STR_LIT("{\"number\":5,\"unknown\":1,\"object\":{\"deep\":3,\"x\":[]}}"),
			 &err);
	assert_int_equal(field_decode_open(table, doc, &arena, &v, &err), 0);
	assert_int_equal(v.number, 5);
	assert_int_equal(v.deep, 3);
	json_free(doc);
	doc = json_parse(STR_LIT("{\"unknown\":1,\"object\":{\"deep\":4}}"), &err);
	assert_int_equal(field_decode_open(table, doc, &arena, &v, &err), -1);
	assert_non_null(strstr(err.message, "object.deep"));
	json_free(doc);
	arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_defaults_and_values),
					    cmocka_unit_test(test_refusals),
					    cmocka_unit_test(test_open_tables) };

	return cmocka_run_group_tests_name("face-field", tests, NULL, NULL);
}
