/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, the file, the environment and flags, and errors in each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config.h"

static char path[] = "/tmp/cay-config-XXXXXX";
static struct config config;
static struct err err;

static void write_file(const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* cayd --config PATH flag1 flag2 */
static int load(const char *flag1, const char *flag2)
{
	const char *argv[5] = { "cayd", "--config", path };
	int argc = 3;

	if (flag1)
		argv[argc++] = flag1;
	if (flag2)
		argv[argc++] = flag2;
	config_done(&config);
	return config_load(&config, argc, (char *const *)(uintptr_t)argv, &err);
}

/* Whether an engine of the registry is on. */
static bool engine_on(const char *name)
{
	for (size_t i = 0; i < config.engine_count; i++)
		if (strcmp(config.engines[i].driver->name, name) == 0)
			return config.engines[i].enabled;
	fail_msg("no engine %s", name);
	return false;
}

static void expect_error(const char *want)
{
	if (!strstr(err.message, want))
		fail_msg("'%s' does not contain '%s'", err.message, want);
}

static int setup(void **state)
{
	int fd;

	(void)state;
	(void)strcpy(path, "/tmp/cay-config-XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	(void)unsetenv("CAY_LISTEN");
	(void)unsetenv("CAY_POOL_MAX");
	return close(fd);
}

/* The section of an engine: its settings are named after it, and go into its own struct. */
static void an_engine_has_a_section(void **state)
{
	(void)state;
	assert_int_equal(load("--engine-local", "--engine-local-proxied"), 0);
	assert_true(engine_on("local"));
	write_file("engine_local_proxied = maybe\n");
	assert_int_equal(load(NULL, NULL), -1);
	expect_error("engine_local_proxied must be true or false");
	write_file("engine_local_nothing = 1\n");
	assert_int_equal(load(NULL, NULL), -1);
	expect_error("unknown setting 'engine_local_nothing'");
	write_file("engine_nothing = true\n");
	assert_int_equal(load(NULL, NULL), -1);
	expect_error("unknown setting 'engine_nothing'");
}

static int teardown(void **state)
{
	config_done(&config);
	config = (struct config){ .print = false };
	(void)state;
	return unlink(path);
}

static void an_empty_file_leaves_the_defaults(void **state)
{
	(void)state;
	assert_int_equal(load(NULL, NULL), 0);
	assert_string_equal(config.state, "/var/lib/cay");
	assert_true(engine_on("native"));
	assert_false(engine_on("local"));
	assert_int_equal(config.pool_max, 16);
}

static void flags_win_over_the_environment_and_that_over_the_file(void **state)
{
	(void)state;
	write_file("# a comment\n\nlisten = 127.0.0.1:1\npool_max = 20\nengine_local = yes\n");
	assert_int_equal(load(NULL, NULL), 0);
	assert_string_equal(config.listen, "127.0.0.1:1");
	assert_true(engine_on("local"));
	(void)setenv("CAY_LISTEN", "127.0.0.1:2", 1);
	(void)setenv("CAY_POOL_MAX", "30", 1);
	assert_int_equal(load("--listen=127.0.0.1:3", "--engine-local=off"), 0);
	assert_string_equal(config.listen, "127.0.0.1:3");
	assert_int_equal(config.pool_max, 30);
	assert_false(engine_on("local"));
	assert_int_equal(load("--listen", "127.0.0.1:4"), 0);
	assert_string_equal(config.listen, "127.0.0.1:4");
}

static void numbers_have_bounds(void **state)
{
	(void)state;
	assert_int_equal(load("--pids-max=16", NULL), 0);
	assert_int_equal(config.pids_max, 16);
	assert_int_equal(load("--pids-max=15", NULL), -1);
	expect_error("pids_max must be an integer of 16 to");
	assert_int_equal(load("--pids-max=-1", NULL), -1);
	assert_int_equal(load("--pids-max=", NULL), -1);
	assert_int_equal(load("--pids-max=99999999999999999999", NULL), -1);
	assert_int_equal(load("--pool=maybe", NULL), -1);
	expect_error("pool must be true or false");
}

static void errors_name_the_place(void **state)
{
	(void)state;
	write_file("listen = 127.0.0.1:1\nlisteb = x\n");
	assert_int_equal(load(NULL, NULL), -1);
	expect_error(":2: unknown setting 'listeb'");
	write_file("listen\n");
	assert_int_equal(load(NULL, NULL), -1);
	expect_error(":1: expected name = value");
	write_file("");
	(void)setenv("CAY_POOL_MAX", "many", 1);
	assert_int_equal(load(NULL, NULL), -1);
	expect_error("CAY_POOL_MAX: pool_max must be");
	(void)unsetenv("CAY_POOL_MAX");
	assert_int_equal(load("--listeb=x", NULL), -1);
	expect_error("unknown argument '--listeb=x'");
	assert_int_equal(load("listen", NULL), -1);
	assert_int_equal(load("--listen", NULL), -1);
	expect_error("--listen needs a value");
}

static void a_named_file_must_exist(void **state)
{
	const char *argv[] = { "cayd", "--config", "/nonexistent/cay.conf" };

	(void)state;
	assert_int_equal(config_load(&config, 3, (char *const *)(uintptr_t)argv, &err), -1);
	expect_error("cannot read /nonexistent/cay.conf");
}

static void settings_must_fit_together(void **state)
{
	(void)state;
	assert_int_equal(load("--pool-min=5", "--pool-max=4"), -1);
	expect_error("pool_min must not exceed pool_max");
	assert_int_equal(load("--pool-min=4", "--pool-max=4"), 0);
	assert_int_equal(load("--listen-redirect=127.0.0.1:80", NULL), -1);
	expect_error("listen_redirect needs tls_cert");
	assert_int_equal(load("--state=relative", NULL), -1);
	expect_error("absolute");
}

static void a_text_that_is_too_long_is_an_error(void **state)
{
	static char flag[CONFIG_TEXT_MAX + 32];

	(void)state;
	(void)strcpy(flag, "--listen=");
	memset(flag + 9, 'x', CONFIG_TEXT_MAX - 1);
	assert_int_equal(load(flag, NULL), 0);
	memset(flag + 9, 'x', CONFIG_TEXT_MAX);
	assert_int_equal(load(flag, NULL), -1);
	expect_error("listen is too long");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_empty_file_leaves_the_defaults),
		T(flags_win_over_the_environment_and_that_over_the_file),
		T(numbers_have_bounds),
		T(errors_name_the_place),
		T(an_engine_has_a_section),
		T(a_named_file_must_exist),
		T(settings_must_fit_together),
		T(a_text_that_is_too_long_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
