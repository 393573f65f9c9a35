/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files are bytes: whatever they hold becomes text, and can be had unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "face/kit/name.h"

static void expect(const char *key_b64, struct str name, const char *text)
{
	struct json_writer w;
	struct buf out;

	buf_init(&out, 4096);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	name_write(&w, "n", key_b64, name);
	json_end_object(&w);
	assert_int_equal(json_writer_end(&w), 0);
	assert_true(str_is(buf_str(&out), text));
	buf_done(&out);
}

static void test_names(void **state)
{
	(void)state;
	expect("b", STR_LIT("\xc3\xa4\n"), "{\"n\":\"\xc3\xa4\\n\"}");
	expect("b", STR_LIT("a\xff\xc3\xa4\xc3"),
	       "{\"n\":\"a\\\\xff\xc3\xa4\\\\xc3\",\"b\":\"Yf/DpMM=\"}");
	expect(NULL, STR_LIT("\xff"), "{\"n\":\"\\\\xff\"}");
	expect("b", STR_LIT(""), "{\"n\":\"\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names) };

	return cmocka_run_group_tests_name("face-name", tests, NULL, NULL);
}
