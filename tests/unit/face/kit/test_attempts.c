/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong credentials and calls without any are counted per client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "face/kit/attempts.h"

static struct attempts attempts;

static int setup(void **state)
{
	(void)state;
	attempts = (struct attempts){ .slots = { { .who = 0 } } };
	/* The tests count within one minute. */
	while (time_mono_us() / 60000000 != (time_mono_us() + 1000000) / 60000000)
		;
	return 0;
}

static void test_wrong(void **state)
{
	struct str one = STR_LIT("192.0.2.1"), two = STR_LIT("192.0.2.2");
	struct err err;

	(void)state;
	for (uint32_t i = 0; i < 2 * ATTEMPTS_TOKEN; i++) {
		(void)err_set(&err, ERR_UNAUTHENTICATED, "wrong");
		assert_int_equal(attempts_refuse(&attempts, one, ATTEMPTS_TOKEN, &err), -1);
		assert_int_equal(err.code,
				 i < ATTEMPTS_TOKEN ? ERR_UNAUTHENTICATED : ERR_RATE_LIMITED);
	}
	assert_false(attempts_allowed(&attempts, one, ATTEMPTS_TOKEN));
	assert_true(attempts_allowed(&attempts, two, ATTEMPTS_TOKEN));
}

static void test_open(void **state)
{
	struct str one = STR_LIT("192.0.2.1"), two = STR_LIT("192.0.2.2");
	struct err err;

	(void)state;
	for (int i = 0; i < ATTEMPTS_OPEN; i++)
		assert_int_equal(attempts_open(&attempts, one, &err), 0);
	assert_int_equal(attempts_open(&attempts, one, &err), -1);
	assert_int_equal(err.code, ERR_RATE_LIMITED);
	assert_int_equal(attempts_open(&attempts, two, &err), 0);
	/* Neither kind counts for the other. */
	assert_true(attempts_allowed(&attempts, one, ATTEMPTS_TOKEN));
}

/* Strangers, however many, do not make the daemon forget a client that it knows. */
static void test_known(void **state)
{
	struct str one = STR_LIT("192.0.2.1");
	struct err err;
	char text[24];

	(void)state;
	assert_false(attempts_known(&attempts, one));
	attempts_right(&attempts, one);
	assert_true(attempts_known(&attempts, one));
	for (int i = 0; i < 5 * ATTEMPT_SLOTS; i++) {
		(void)snprintf(text, sizeof(text), "198.51.%d.%d", i / 256, i % 256);
		attempts_wrong(&attempts, str_of(text));
		assert_int_equal(attempts_open(&attempts, str_of(text), &err), 0);
		assert_false(attempts_known(&attempts, str_of(text)));
	}
	assert_true(attempts_known(&attempts, one));
	for (size_t i = 0; i < ATTEMPT_SLOTS; i++)
		attempts.known[i].minute -= ATTEMPT_KNOWN_MINUTES + 1;
	assert_false(attempts_known(&attempts, one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_wrong, setup),
		cmocka_unit_test_setup(test_open, setup),
		cmocka_unit_test_setup(test_known, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
