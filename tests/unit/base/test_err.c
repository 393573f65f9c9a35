/* SPDX-License-Identifier: Apache-2.0 */
/* The error table, and the guarantee that foreign text cannot forge a line of the log. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"

static void every_code_is_complete(void **state)
{
	for (int i = 0; i < ERR_CODE_COUNT; i++) {
		enum err_code code = (enum err_code)i;

		assert_non_null(err_name(code));
		assert_int_equal(err_from_name(err_name(code)), code); /* so names are unique */
	}
	assert_int_equal(err_from_name("no such name"), ERR_INTERNAL);
}

static void messages_are_bounded(void **state)
{
	char longer[2 * ERR_MESSAGE_MAX];
	struct err err;

	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(err_set(&err, ERR_CONFLICT, "%s", longer), -1);
	assert_int_equal(strlen(err.message), ERR_MESSAGE_MAX - 1);
	assert_int_equal(err_set_errno(&err, ERR_INTERNAL, -ENOENT, "%s", longer), -1);
	assert_int_equal(err.errno_value, ENOENT);
	assert_int_equal(strlen(err.message), ERR_MESSAGE_MAX - 1);
	assert_int_equal(err_set_errno(&err, ERR_INTERNAL, EACCES, "opening"), -1);
	assert_string_equal(err.message, "opening: Permission denied");
	assert_int_equal(err_set(NULL, ERR_INTERNAL, "nobody listens"), -1);
}

/* Runs one log call with standard error in a pipe. */
static size_t logged(char *dst, size_t size, enum log_level level, const char *text)
{
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t n;

	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
	log_at(level, "%s", text);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	n = read(ends[0], dst, size - 1);
	n = n < 0 ? 0 : n;
	dst[n] = '\0';
	close(saved);
	close(ends[0]);
	close(ends[1]);
	return (size_t)n;
}

static void foreign_text_cannot_forge_lines(void **state)
{
	char line[8192], longer[6000];
	size_t n;

	log_init("test", LOG_INFO);
	n = logged(line, sizeof(line), LOG_WARN, "a\nb\r\x1b[31m\x7f\\c");
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
	assert_non_null(strstr(line, "warn test: a\\x0ab\\x0d\\x1b[31m\\x7f\\x5cc\n"));
	assert_null(strchr(line, '\x1b'));

	memset(longer, '\n', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	n = logged(line, sizeof(line), LOG_ERROR, longer);
	assert_in_range(n, 100, 2048);
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
}

static void levels_filter(void **state)
{
	enum log_level level = LOG_ERROR;
	char line[512];

	log_init("test", LOG_WARN);
	assert_int_equal(logged(line, sizeof(line), LOG_INFO, "quiet"), 0);
	assert_true(logged(line, sizeof(line), LOG_WARN, "loud") > 0);
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_DEBUG);
	assert_int_equal(log_level_parse("DEBUG", &level), -EINVAL);
	assert_int_equal(level, LOG_DEBUG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_is_complete),
		cmocka_unit_test(messages_are_bounded),
		cmocka_unit_test(foreign_text_cannot_forge_lines),
		cmocka_unit_test(levels_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
