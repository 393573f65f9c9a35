/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a creation in E2B's control plane, and its network rules, as specs of the service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "face/e2b/call.h"

static int create(struct body *body, const char *text, struct e2b_create *ret)
{
	field_limits_set(&body_config);
	body_set(body, text);
	return create_read(body->doc, &body_config, E2B_TIMEOUT_SEC, &body->arena, ret, &body->err);
}

static void test_defaults(void **state)
{
	struct body body = { .doc = NULL };
	struct e2b_create made;

	(void)state;
	assert_int_equal(create(&body, "{\"templateID\":\"base\",\"somethingNew\":1}", &made), 0);
	assert_true(str_is(made.template, "base"));
	assert_int_equal(made.spec.timeout_sec, E2B_TIMEOUT_SEC);
	assert_int_equal(made.spec.cpu_milli, SANDBOX_CPU_MILLI);
	assert_int_equal(made.spec.memory_mb, SANDBOX_MEMORY_MB);
	assert_int_equal(made.spec.disk_size_mb, SANDBOX_DISK_MB);
	assert_int_equal(made.spec.on_timeout, ON_TIMEOUT_DESTROY);
	assert_true(made.spec.memory);
	assert_false(made.spec.auto_resume);
	assert_int_equal(made.spec.network.mode, NETWORK_FULL);
	assert_false(made.network_sent);
	assert_int_equal(made.ports, E2B_PORTS_OPEN);
	body_done(&body);
}

static void test_every_field(void **state)
{
	struct body body = { .doc = NULL };
	struct e2b_create made;

	(void)state;
	assert_int_equal(
		create(&body,
		       "{\"templateID\":\"ns/web:v2\",\"timeout\":0,\"envVars\":{\"A\":\"1\"},"
		       "\"metadata\":{\"k\":\"v\"},\"autoPause\":true,"
		       "\"autoResume\":{\"enabled\":true},\"allow_internet_access\":false,"
		       "\"network\":{\"allowOut\":[\"pypi.org\"],\"allowPublicTraffic\":false}}",
		       &made),
		0);
	assert_true(str_is(template_name_of(made.template), "web"));
	assert_int_equal(made.spec.timeout_sec, 1); /* 0 ends a sandbox as soon as possible */
	assert_int_equal(made.spec.env.count, 1);
	assert_true(str_is(made.spec.metadata.list[0].value, "v"));
	assert_int_equal(made.spec.on_timeout, ON_TIMEOUT_PAUSE);
	assert_true(made.spec.auto_resume);
	assert_true(made.network_sent);
	assert_int_equal(made.spec.network.mode, NETWORK_RESTRICTED);
	assert_int_equal(made.spec.network.allow.count, 1);
	assert_int_equal(made.ports, E2B_PORTS_TOKEN);
	assert_int_equal(create(&body,
				"{\"templateID\":\"b\",\"autoPause\":true,"
				"\"autoPauseMemory\":false}",
				&made),
			 0);
	assert_int_equal(made.spec.on_timeout, ON_TIMEOUT_HIBERNATE);
	body_done(&body);
}

static void test_refusals(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{}", "templateID is required" },
		{ "{\"templateID\":\"\"}", "templateID must be a string of 1 to" },
		{ "{\"templateID\":\"b\",\"timeout\":86401}", "timeout must be an integer" },
		{ "{\"templateID\":\"b\",\"timeout\":-1}", "0 to 86400" },
		{ "{\"templateID\":\"b\",\"envVars\":{\"A\":1}}", "envVars.A must be a string" },
		{ "{\"templateID\":\"b\",\"network\":{\"allowOut\":\"x\"}}",
		  "network.allowOut must be an array" },
		{ "{\"templateID\":\"b\",\"autoResume\":{\"enabled\":true},"
		  "\"autoPauseMemory\":false}",
		  "autoPauseMemory" },
		{ "{\"templateID\":\"b\",\"volumeMounts\":[{}]}", "volumeMounts" },
		{ NULL, NULL },
	};
	struct body body = { .doc = NULL };
	struct e2b_create made;

	(void)state;
	for (const struct body_refusal *row = rows; row->text; row++) {
		if (create(&body, row->text, &made) == 0)
			fail_msg("accepted: %s", row->text);
		if (!strstr(body.err.message, row->what))
			fail_msg("%s: %s", row->text, body.err.message);
	}
	body_done(&body);
}

static void test_small_hosts_limit_the_defaults(void **state)
{
	const struct service_config small = { .max_cpu_milli = 500,
					      .max_memory_mb = 256,
					      .max_disk_size_mb = 1024,
					      .max_timeout_sec = 600 };
	struct body body = { .doc = NULL };
	struct e2b_create made;

	(void)state;
	field_limits_set(&small);
	body_set(&body, "{\"templateID\":\"b\"}");
	assert_int_equal(
		create_read(body.doc, &small, E2B_TIMEOUT_V1_SEC, &body.arena, &made, &body.err),
		0);
	assert_int_equal(made.spec.cpu_milli, 500);
	assert_int_equal(made.spec.memory_mb, 256);
	assert_int_equal(made.spec.disk_size_mb, 1024);
	assert_int_equal(made.spec.timeout_sec, E2B_TIMEOUT_V1_SEC);
	body_done(&body);
}

static void test_network_rules(void **state)
{
	static const struct str hosts[] = { STR_LIT("a.example"), STR_LIT("10.0.0.0/8") };
	static const struct str all[] = { STR_LIT("0.0.0.0/0") };
	const struct text_list some = { hosts, 2 }, everything = { all, 1 };
	struct egress_want want;

	(void)state;
	/* Open: allowed entries change nothing, denied ones are kept. */
	assert_true(network_want(
		&(struct network_body){ .internet = true, .allow = some, .deny = some }, &want));
	assert_int_equal(want.mode, NETWORK_FULL);
	assert_int_equal(want.allow.count, 0);
	assert_int_equal(want.deny.count, 2);
	assert_true(want.has_mode && want.has_allow && want.has_deny);
	/* Everything is denied: only allowed entries are left. */
	(void)network_want(
		&(struct network_body){ .internet = true, .allow = some, .deny = everything },
		&want);
	assert_int_equal(want.mode, NETWORK_RESTRICTED);
	assert_int_equal(want.allow.count, 2);
	assert_int_equal(want.deny.count, 0);
	(void)network_want(&(struct network_body){ .internet = false }, &want);
	assert_int_equal(want.mode, NETWORK_NONE);
	/* A body that says nothing. */
	assert_false(network_want(&(struct network_body){ .internet = true }, &want));
}

static void test_names_of_templates(void **state)
{
	static const char *const rows[][2] = { { "base", "base" },
					       { "ns/base", "base" },
					       { "base:v1", "base" },
					       { "ns/base:v1", "base" },
					       { "", "" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_true(str_is(template_name_of(str_of(rows[i][0])), rows[i][1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_every_field),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_small_hosts_limit_the_defaults),
		cmocka_unit_test(test_network_rules),
		cmocka_unit_test(test_names_of_templates),
	};

	return cmocka_run_group_tests_name("e2b-sandbox-create", tests, NULL, NULL);
}
