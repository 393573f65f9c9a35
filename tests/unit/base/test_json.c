/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/json.h"

static struct json *parsed(const char *text)
{
	struct err err;
	struct json *doc = json_parse(str_of(text), &err);

	if (!doc)
		print_error("%s: %s\n", text, err.message);
	assert_non_null(doc);
	return doc;
}

static void refused(struct str text, const char *why)
{
	struct err err = { .code = ERR_OK };

	assert_null(json_parse(text, &err));
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not say '%s'", err.message, why);
}

static void what_is_not_strict_json_is_refused(void **state)
{
	refused(STR_LIT(""), "no bytes");
	refused((struct str){ NULL, 0 }, "no bytes");
	refused(STR_LIT("5"), "line 1");
	refused(STR_LIT("{} x"), "end of file");
	refused(STR_LIT("{}{}"), "end of file");
	refused(STR_LIT("{\"a\":1,\"a\":1}"), "duplicate");
	refused(STR_LIT("{\"a\":1,}"), "line 1");
	refused(STR_LIT("{'a':1}"), "line 1");
	refused(STR_LIT("[01]"), "line 1");
	refused(STR_LIT("[1e999]"), "overflow");
	refused(STR_LIT("[-1e999]"), "overflow");
	refused(STR_LIT("[NaN]"), "line 1");
	refused(STR_LIT("[9223372036854775808]"), "big integer");
	refused(STR_LIT("[\"\xff\"]"), "decode byte");
	refused(STR_LIT("[\"\\ud800\"]"), "Unicode");
	refused(STR_LIT("[\"a\nb\"]"), "newline");
	refused(STR_LIT("{\"a\\u0000b\":1}"), "NUL");
	refused(STR_LIT("{\n\"a\": tru}"), "line 2");
	refused((struct str){ "[1]\0", 4 }, "end of file");
}

static void foreign_bytes_do_not_reach_a_message_raw(void **state)
{
	struct err err;

	assert_null(json_parse(STR_LIT("[\x1b[31m]"), &err));
	assert_null(strchr(err.message, '\x1b'));
}

static void nesting_is_bounded(void **state)
{
	char text[2 * 65 + 1];

	for (size_t depth = 64; depth <= 65; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		if (depth == 64) {
			struct json *doc = json_parse((struct str){ text, 2 * depth }, NULL);

			assert_non_null(doc);
			json_free(doc);
		} else {
			refused((struct str){ text, 2 * depth }, "64 levels");
		}
	}
	json_free(parsed(
		"[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]"));
}

static void number_of_values_is_bounded(void **state)
{
	size_t most = 131072, n = 0;
	char *text = malloc(2 * most + 8);

	for (int extra = 0; extra <= 1; extra++) {
		n = 0;
		text[n++] = '[';
		for (size_t i = 0; i < most + (size_t)extra; i++) {
			if (i)
				text[n++] = ',';
			text[n++] = '1';
		}
		text[n++] = ']';
		if (extra)
			refused((struct str){ text, n }, "131072 values");
		else
			json_free(json_parse((struct str){ text, n }, NULL));
	}
	free(text);
}

static void values_are_seen_as_they_are(void **state)
{
	struct json *doc = parsed("{\"z\":[1,2.5,\"a\\u0000b\",true,false,null],\"a\":-9}");
	const struct json *list, *value;
	const char *key;
	void *it = NULL;

	assert_int_equal(json_type(doc), JSON_OBJECT);
	assert_int_equal(json_size(doc), 2);
	assert_true(json_next(doc, &it, &key, &list));
	assert_string_equal(key, "z"); /* document order, not sorted */
	assert_true(json_next(doc, &it, &key, &value));
	assert_int_equal(json_int(value), -9);
	assert_false(json_next(doc, &it, &key, &value));
	assert_int_equal(json_size(list), 6);
	assert_int_equal(json_type(json_at(list, 0)), JSON_INT);
	assert_int_equal(json_type(json_at(list, 1)), JSON_REAL);
	assert_int_equal(json_str(json_at(list, 2)).n, 3);
	assert_true(json_bool(json_at(list, 3)));
	assert_false(json_bool(json_at(list, 4)));
	assert_int_equal(json_type(json_at(list, 5)), JSON_NULL);
	assert_null(json_at(list, 6));
	assert_str(json_str(json_at(list, 0)), "");
	json_free(doc);
	json_free(NULL);
}

struct sizing {
	int64_t timeout;
	bool on;
	struct str name;
	int mode;
};

static const char *const modes[] = { "none", "restricted", "full", NULL };

static int decode(const char *text, struct sizing *s, struct err *err)
{
	_cleanup_json_ struct json *doc = parsed(text);
	struct json_reader r;

	*s = (struct sizing){ .timeout = 300, .name = STR_LIT("") };
	*err = (struct err){ .code = ERR_OK };
	json_reader_init(&r, doc, "", err);
	json_read_int(&r, "timeout_sec", 1, 86400, &s->timeout);
	json_read_bool(&r, "on", &s->on);
	json_read_str(&r, "name", 1, 4, &s->name);
	json_read_enum(&r, "mode", modes, &s->mode);
	(void)json_read_object(&r, "env");
	(void)json_read_array(&r, "list", 2);
	return json_reader_end(&r);
}

static void fields_in_range_are_taken(void **state)
{
	struct sizing s;
	struct err err;

	assert_int_equal(decode("{}", &s, &err), 0);
	assert_int_equal(s.timeout, 300);
	assert_int_equal(decode("{\"timeout_sec\":1}", &s, &err), 0);
	assert_int_equal(s.timeout, 1);
	assert_int_equal(decode("{\"timeout_sec\":86400,\"on\":true,\"mode\":\"full\",\"env\":{},"
				"\"list\":[1,2],\"name\":\"abcd\"}",
				&s, &err),
			 0);
	assert_int_equal(s.timeout, 86400);
	assert_true(s.on);
	assert_int_equal(s.mode, 2);
	assert_int_equal(decode("{\"timeout_sec\":null,\"env\":null}", &s, &err), 0);
	assert_int_equal(s.timeout, 300);
}

static void fields_out_of_range_are_named(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "{\"timeout_sec\":0}", "timeout_sec must be an integer from 1 to 86400" },
		{ "{\"timeout_sec\":86401}", "timeout_sec must be an integer from 1 to 86400" },
		{ "{\"timeout_sec\":5.0}", "timeout_sec must be an integer from 1 to 86400" },
		{ "{\"timeout_sec\":\"5\"}", "timeout_sec must be an integer from 1 to 86400" },
		{ "{\"timeout_sec\":true}", "timeout_sec must be an integer from 1 to 86400" },
		{ "{\"on\":1}", "on must be true or false" },
		{ "{\"name\":\"\"}", "name must be a string of 1 to 4 bytes" },
		{ "{\"name\":\"abcde\"}", "name must be a string of 1 to 4 bytes" },
		{ "{\"name\":[]}", "name must be a string of 1 to 4 bytes" },
		{ "{\"name\":\"a\\u0000\"}", "name must not contain NUL bytes" },
		{ "{\"mode\":\"Full\"}", "mode must be one of: none, restricted, full" },
		{ "{\"mode\":2}", "mode must be one of: none, restricted, full" },
		{ "{\"env\":[]}", "env must be an object" },
		{ "{\"list\":{}}", "list must be an array of at most 2 elements" },
		{ "{\"list\":[1,2,3]}", "list must be an array of at most 2 elements" },
		{ "{\"timeout\":5}", "timeout is not a known field" },
		{ "{\"a\\u001b\":5}", "a? is not a known field" },
		{ "[]", "the request body must be a JSON object" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sizing s;
		struct err err;

		assert_int_equal(decode(cases[i].text, &s, &err), -1);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
		assert_string_equal(err.message, cases[i].message);
	}
}

static void the_first_problem_sticks(void **state)
{
	struct sizing s;
	struct err err;

	assert_int_equal(decode("{\"name\":\"\",\"timeout_sec\":0,\"on\":3}", &s, &err), -1);
	assert_string_equal(err.message, "timeout_sec must be an integer from 1 to 86400");
}

static void inner_objects_have_a_path(void **state)
{
	struct json *doc = parsed("{\"cpu\":0}");
	struct json_reader r;
	struct err err;
	int64_t cpu = 1;

	for (int dot = 0; dot <= 1; dot++) {
		json_reader_init(&r, doc, dot ? "limits." : "limits", &err);
		json_read_int(&r, "cpu", 1, 8, &cpu);
		assert_int_equal(json_reader_end(&r), -1);
		assert_string_equal(err.message, "limits.cpu must be an integer from 1 to 8");
	}
	json_reader_init(&r, NULL, "limits", &err);
	assert_int_equal(json_reader_end(&r), -1);
	assert_string_equal(err.message, "limits must be a JSON object");
	json_free(doc);
}

static void readers_take_64_members_and_no_more(void **state)
{
	char text[2048], key[8];

	for (int members = 64; members <= 65; members++) {
		struct json_reader r;
		struct json *doc;
		struct err err;
		int64_t value = -1;
		size_t n = 0;

		for (int i = 0; i < members; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\"k%d\":%d",
					      i ? "," : "{", i, i);
		(void)snprintf(text + n, sizeof(text) - n, "}");
		doc = parsed(text);
		json_reader_init(&r, doc, "", &err);
		for (int i = 0; i < 64; i++) {
			(void)snprintf(key, sizeof(key), "k%d", i);
			json_read_int(&r, key, 0, 100, &value);
		}
		assert_int_equal(json_reader_end(&r), members == 64 ? 0 : -1);
		assert_int_equal(value, members == 64 ? 63 : -1);
		json_free(doc);
	}
}

static void written(struct buf *buf, const char *text)
{
	if (!str_is(buf_str(buf), text))
		fail_msg("wrote %.*s, not %s", (int)buf_len(buf), buf_data(buf), text);
	buf_done(buf);
}

static void the_writer_writes_every_type(void **state)
{
	struct json_writer w;
	struct buf buf;

	buf_init(&buf, 4096);
	json_writer_init(&w, &buf);
	json_begin_object(&w, NULL);
	json_put_int(&w, "min", INT64_MIN);
	json_put_real(&w, "half", 0.5);
	json_put_real(&w, "one", 1);
	json_put_real(&w, "tenth", 0.1);
	json_put_real(&w, "nan", NAN);
	json_put_bool(&w, "yes", true);
	json_put_null(&w, "nil");
	json_put_text(&w, "none", NULL);
	json_put_time(&w, "at", 1);
	json_put_time(&w, "never", 0);
	json_begin_array(&w, "list");
	json_begin_array(&w, NULL);
	json_end_array(&w);
	json_put_raw(&w, NULL, STR_LIT("{\"x\":1}"));
	json_end_array(&w);
	json_begin_object(&w, "e");
	json_end_object(&w);
	json_put_value(&w, "v", NULL);
	json_end_object(&w);
	assert_int_equal(json_writer_end(&w), 0);
	written(&buf, "{\"min\":-9223372036854775808,\"half\":0.5,\"one\":1.0,\"tenth\":0.1,"
		      "\"nan\":null,\"yes\":true,\"nil\":null,\"none\":null,"
		      "\"at\":\"1970-01-01T00:00:00.001Z\",\"never\":null,"
		      "\"list\":[[],{\"x\":1}],\"e\":{},\"v\":null}");
}

static void the_writer_escapes(void **state)
{
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
		{ STR_LIT(""), "\"\"" },
		{ STR_LIT("plain / text"), "\"plain / text\"" },
		{ STR_LIT("q\"b\\n\nr\rt\tb\bf\f"), "\"q\\\"b\\\\n\\nr\\rt\\tb\\bf\\f\"" },
		{ STR_LIT("a\0b\x01\x1f\x7f"), "\"a\\u0000b\\u0001\\u001f\\u007f\"" },
		{ STR_LIT("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
		{ STR_LIT("a\xff"
			  "b"),
		  "\"a\xef\xbf\xbd"
		  "b\"" },
		{ STR_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ STR_LIT("cut\xe2\x82"), "\"cut\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_writer w;
		struct buf buf;

		buf_init(&buf, 4096);
		json_writer_init(&w, &buf);
		json_put_str(&w, NULL, cases[i].in);
		assert_int_equal(json_writer_end(&w), 0);
		written(&buf, cases[i].out);
	}
}

static void base64_has_its_padding(void **state)
{
	static const char *const out[] = { "\"\"", "\"Zg==\"", "\"Zm8=\"", "\"Zm9v\"",
					   "\"Zm9vYg==\"" };

	for (size_t n = 0; n < ARRAY_LEN(out); n++) {
		struct json_writer w;
		struct buf buf;

		buf_init(&buf, 64);
		json_writer_init(&w, &buf);
		json_put_b64(&w, NULL, (struct str){ "foobar", n });
		assert_int_equal(json_writer_end(&w), 0);
		written(&buf, out[n]);
	}
}

static void limits_and_bad_pairing_stick(void **state)
{
	struct json_writer w;
	struct buf buf;

	for (size_t limit = 0; limit < 12; limit++) {
		buf_init(&buf, limit);
		json_writer_init(&w, &buf);
		json_begin_object(&w, NULL);
		json_put_text(&w, "a", "\x01");
		json_end_object(&w);
		assert_int_equal(json_writer_end(&w), limit < 14 ? -ENOBUFS : 0);
		buf_done(&buf);
		buf_init(&buf, limit);
		json_writer_init(&w, &buf);
		json_put_b64(&w, NULL, STR_LIT("123456"));
		assert_int_equal(json_writer_end(&w), limit < 10 ? -ENOBUFS : 0);
		buf_done(&buf);
	}
	buf_init(&buf, 100);
	json_writer_init(&w, &buf);
	json_begin_object(&w, NULL);
	assert_int_equal(json_writer_end(&w), -EINVAL);
	buf_done(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_strict_json_is_refused),
		cmocka_unit_test(foreign_bytes_do_not_reach_a_message_raw),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(number_of_values_is_bounded),
		cmocka_unit_test(values_are_seen_as_they_are),
		cmocka_unit_test(fields_in_range_are_taken),
		cmocka_unit_test(fields_out_of_range_are_named),
		cmocka_unit_test(the_first_problem_sticks),
		cmocka_unit_test(inner_objects_have_a_path),
		cmocka_unit_test(readers_take_64_members_and_no_more),
		cmocka_unit_test(the_writer_writes_every_type),
		cmocka_unit_test(the_writer_escapes),
		cmocka_unit_test(base64_has_its_padding),
		cmocka_unit_test(limits_and_bad_pairing_stick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
