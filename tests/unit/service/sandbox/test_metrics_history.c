/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU usage of a sandbox in metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/time.h"
#include "service/sandbox/sandbox_internal.h"

static void test_without_samples_the_start_counts(void **state)
{
	struct sandbox sandbox = { .started_ms = time_real_ms() - 1000 };
	struct engine_stat stat = { .cpu_us = 500000 };
	double percent = history_cpu_percent(&sandbox, &stat);

	(void)state;
	assert_true(percent > 5 && percent <= 50.1);
	stat.cpu_us = 0;
	assert_true(history_cpu_percent(&sandbox, &stat) == 0);
}

static void test_one_that_never_ran_uses_nothing(void **state)
{
	struct sandbox sandbox = { .started_ms = 0 };
	struct engine_stat stat = { .cpu_us = 500000 };

	(void)state;
	assert_true(history_cpu_percent(&sandbox, &stat) == 0);
}

/* A sample that was taken just now does not yield a rate. */
static void test_a_new_sample_is_skipped(void **state)
{
	struct service service = { .sandboxes = sandboxes_new() };
	struct sandbox sandbox = { .service = &service, .started_ms = time_real_ms() - 1000 };
	struct engine_stat stat = { .cpu_us = 500000 };

	(void)state;
	assert_non_null(service.sandboxes);
	history_asked(&sandbox);
	history_first(&sandbox, &stat);
	assert_true(history_cpu_percent(&sandbox, &stat) > 5);
	history_free(&sandbox);
	free(service.sandboxes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_samples_the_start_counts),
		cmocka_unit_test(test_one_that_never_ran_uses_nothing),
		cmocka_unit_test(test_a_new_sample_is_skipped),
	};

	return cmocka_run_group_tests_name("service-sandbox-metrics_history", tests, NULL, NULL);
}
