/* SPDX-License-Identifier: Apache-2.0 */
/* Modes that a program left enabled, however its bytes are split. */
#include "check.h"

#include <string.h>

#include "cli/session/screen.h"

static void left_on(const char *bytes, const char *undo)
{
	char text[SCREEN_RESET_MAX];
	size_t n = strlen(bytes);

	for (size_t step = 1; step <= n + 1; step++) {
		struct screen screen = { 0 };

		for (size_t at = 0; at < n; at += step)
			screen_watch(&screen, (struct str){ bytes + at, MIN(step, n - at) });
		assert_int_equal(screen_reset(&screen, text), strlen(undo));
		assert_memory_equal(text, undo, strlen(undo));
	}
}

static void test_modes(void **state)
{
	left_on("plain\r\n\033[31mred\033[0m", "");
	left_on("\033[?1049hvim", "\033[?1049l");
	left_on("\033[?1049hvim\033[?1049l", "");
	left_on("\033[?25l", "\033[?25h");
	left_on("\033[?25l\033[?25h", "");
	left_on("\033[?12;25l", "\033[?25h");
	left_on("\033[?1000;1006h\033[?2004h\033[?1h\033=",
		"\033[?1l\033[?1000l\033[?1006l\033[?2004l\033>");
	left_on("\033=\033>", "");
	left_on("\033[?1049h\033c", "");		    /* a full reset */
	left_on("\033[1049h\033[25l\033[>1;2c\033[4h", ""); /* not private */
	left_on("\033[\033[?1049h", "\033[?1049l");	    /* started again */
	left_on("\033[?99999999999999999999h\033[?1;2;3;4;5;6;7;8;9;1049h", "\033[?1l");
}

static void test_all_fit(void **state)
{
	struct screen screen = { .on = ~0u };
	char text[SCREEN_RESET_MAX];

	assert_true(screen_reset(&screen, text) < SCREEN_RESET_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_all_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
