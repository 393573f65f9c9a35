/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text of Prometheus, and the ranges of GET /v1/options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "base/value/histogram.h"
#include "face/rest/call.h"

static void expect_line(const struct buf *out, const char *line)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "\n%s\n", line);
	if (!memmem(buf_str(out).p, buf_str(out).n, text, strlen(text)))
		fail_msg("no line '%s' in %.*s", line, (int)buf_str(out).n, buf_str(out).p);
}

/* Every line is a comment or NAME[{labels}] VALUE, and each name is described once before. */
static void check_format(const struct buf *out)
{
	struct str rest = buf_str(out), line;

	assert_true(rest.n && rest.p[rest.n - 1] == '\n');
	while (rest.n && str_cut(rest, '\n', &line, &rest)) {
		struct str name, value;

		assert_true(str_starts(line, "# HELP cay_") || str_starts(line, "# TYPE cay_") ||
			    str_starts(line, "cay_"));
		assert_true(str_cut(line, ' ', &name, &value) && value.n > 0);
	}
}

static void test_histograms_are_cumulative(void **state)
{
	struct histogram h = { .count = 0 };
	struct buf out;

	(void)state;
	buf_init(&out, 65536);
	histogram_add(&h, 100); /* the first bound is inclusive */
	histogram_add(&h, 101);
	histogram_add(&h, 60000001); /* above the last bound */
	metrics_write_histogram(&out, "t_seconds", "Times.", &h);
	check_format(&out);
	assert_true(str_starts(buf_str(&out),
			       "# HELP cay_t_seconds Times.\n# TYPE cay_t_seconds histogram\n"));
	expect_line(&out, "cay_t_seconds_bucket{le=\"0.0001\"} 1");
	expect_line(&out, "cay_t_seconds_bucket{le=\"0.00025\"} 2");
	expect_line(&out, "cay_t_seconds_bucket{le=\"60\"} 2");
	expect_line(&out, "cay_t_seconds_bucket{le=\"+Inf\"} 3");
	expect_line(&out, "cay_t_seconds_count 3");
	expect_line(&out, "cay_t_seconds_sum 60.000202");
	buf_done(&out);
}

static void test_gauges_have_every_state(void **state)
{
	struct service_gauges gauges = { .pool_ready = 7, .storage_used_bytes = UINT64_C(1) << 40 };
	struct buf out;

	(void)state;
	for (uint32_t i = 0; i < SANDBOX_STATE_COUNT; i++)
		gauges.by_state[i] = 10 + i;
	buf_init(&out, 65536);
	metrics_write_gauges(&out, &gauges);
	check_format(&out);
	for (uint32_t i = 0; i < SANDBOX_STATE_COUNT; i++) {
		char line[128];

		(void)snprintf(line, sizeof(line), "cay_sandboxes{state=\"%s\"} %u",
			       sandbox_state_names[i], 10 + i);
		expect_line(&out, line);
	}
	assert_null(sandbox_state_names[SANDBOX_STATE_COUNT]);
	expect_line(&out, "cay_pool_ready 7");
	expect_line(&out, "cay_storage_used_bytes 1099511627776");
	buf_done(&out);
}

static void test_counters(void **state)
{
	struct service_counters counters = { .creates_cold = 1, .idle_timeouts = 9007199254740991 };
	struct buf out;

	(void)state;
	buf_init(&out, 65536);
	metrics_write_counters(&out, &counters);
	check_format(&out);
	expect_line(&out, "# TYPE cay_creates_cold_total counter");
	expect_line(&out, "cay_creates_cold_total 1");
	expect_line(&out, "cay_execs_total 0");
	expect_line(&out, "cay_create_duration_seconds_count 0");
	buf_done(&out);
}

static int64_t milli(const struct json *object, const char *key)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (json_next(object, &it, &name, &value))
		if (strcmp(name, key) == 0)
			return (int64_t)(json_number(value) * 1000 + 0.5);
	fail_msg("no member %s", key);
	return 0;
}

static const struct json *member(const struct json *object, const char *key)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (json_next(object, &it, &name, &value))
		if (strcmp(name, key) == 0)
			return value;
	fail_msg("no member %s", key);
	return NULL;
}

static void test_ranges_are_those_of_the_decoder(void **state)
{
	struct body body = { .doc = NULL };
	const struct json *sandbox, *row;
	struct json_writer w;
	struct buf out;

	(void)state;
	field_limits_set(&body_config);
	buf_init(&out, 65536);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	options_write_limits(&w);
	json_end_object(&w);
	assert_int_equal(json_writer_end(&w), 0);
	assert_int_equal(buf_append(&out, "", 1), 0);
	body_set(&body, buf_str(&out).p);
	sandbox = member(member(body.doc, "limits"), "sandbox");
	row = member(sandbox, "memory_mb");
	assert_int_equal(milli(row, "max"), body_config.max_memory_mb * 1000);
	assert_int_equal(milli(row, "default"), SANDBOX_MEMORY_MB * 1000);
	row = member(sandbox, "cpu_count");
	assert_int_equal(milli(row, "min"), 50);
	assert_int_equal(milli(row, "max"), body_config.max_cpu_milli);
	(void)member(member(member(body.doc, "limits"), "exec"), "timeout_sec");
	body_done(&body);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_histograms_are_cumulative),
		cmocka_unit_test(test_gauges_have_every_state),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_ranges_are_those_of_the_decoder),
	};

	return cmocka_run_group_tests_name("rest-system-metrics", tests, NULL, NULL);
}
