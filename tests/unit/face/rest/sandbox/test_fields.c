/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of sandbox calls as specs of the service, and the messages for values out of range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "face/rest/call.h"
#include "service/sandbox/initializer.h"
#include "service/secret/secret.h"

static void test_create_defaults(void **state)
{
	struct body body = { .doc = NULL };
	struct sandbox_spec spec = { .cpu_milli = 0 };

	(void)state;
	assert_int_equal(body_decode(&body, sandbox_create_fields, "{}", &spec), 0);
	assert_true(str_is(spec.template, "base"));
	assert_false(spec.has_template || spec.has_cpu || spec.has_memory || spec.has_disk);
	assert_int_equal(spec.cpu_milli, SANDBOX_CPU_MILLI);
	assert_int_equal(spec.memory_mb, SANDBOX_MEMORY_MB);
	assert_int_equal(spec.disk_size_mb, SANDBOX_DISK_MB);
	assert_int_equal(spec.timeout_sec, SANDBOX_TIMEOUT_SEC);
	assert_int_equal(spec.on_timeout, ON_TIMEOUT_DESTROY);
	assert_int_equal(spec.pool_mode, POOL_PREFER);
	assert_true(spec.memory);
	assert_false(spec.has_count || spec.network.has_mode);
	body_done(&body);
}

static void test_create_values(void **state)
{
	struct body body = { .doc = NULL };
	struct sandbox_spec spec = { .cpu_milli = 0 };

	(void)state;
	assert_int_equal(
		body_decode(&body, sandbox_create_fields,
			    "{\"template\":\"t.1\",\"name\":\"n\",\"cpu_count\":0.05,"
			    "\"memory_mb\":16384,\"timeout_sec\":86400,\"on_timeout\":\"pause\","
			    "\"env\":{\"A\":\"b\"},\"count\":2,"
			    "\"network\":{\"mode\":\"restricted\",\"allow\":[\"x.org:443\"]},"
			    "\"pool\":{\"mode\":\"require\",\"wait_ms\":30000},"
			    "\"secrets\":[\"S\",{\"name\":\"T\",\"as\":\"broker\","
			    "\"hosts\":[\"h\"]}],"
			    "\"initializers\":[\"id\",{\"argv\":[\"a\"],\"timeout_sec\":3600,"
			    "\"continue_on_error\":true},{\"cmd\":\"c\",\"env\":{\"K\":\"v\"}}]}",
			    &spec),
		0);
	assert_true(spec.has_template && spec.has_cpu && spec.has_memory && !spec.has_disk);
	assert_int_equal(spec.cpu_milli, 50);
	assert_int_equal(spec.memory_mb, 16384);
	assert_int_equal(spec.on_timeout, ON_TIMEOUT_PAUSE);
	assert_int_equal(spec.count, 2);
	assert_int_equal(spec.network.mode, NETWORK_RESTRICTED);
	assert_true(str_is(spec.network.allow.list[0], "x.org:443"));
	assert_int_equal(spec.pool_mode, POOL_REQUIRE);
	assert_int_equal(spec.pool_wait_ms, 30000);
	assert_int_equal(spec.secrets.count, 2);
	assert_true(str_is(spec.secrets.list[0].env, "S"));
	assert_int_equal(spec.secrets.list[0].way, GRANT_ENV);
	assert_true(str_is(spec.secrets.list[1].env, "T")); /* by default the name */
	assert_int_equal(spec.secrets.list[1].way, GRANT_BROKER);
	assert_int_equal(spec.secrets.list[1].hosts.count, 1);
	assert_int_equal(spec.initializers.count, 3);
	assert_true(str_is(spec.initializers.list[0].exec.command, "id"));
	assert_int_equal(spec.initializers.list[0].exec.timeout_sec, INITIALIZER_TIMEOUT_SEC);
	assert_int_equal(spec.initializers.list[1].exec.argv.count, 1);
	assert_int_equal(spec.initializers.list[1].exec.timeout_sec, 3600);
	assert_true(spec.initializers.list[1].continue_on_error);
	assert_true(str_is(spec.initializers.list[2].exec.command, "c"));
	assert_int_equal(spec.initializers.list[2].exec.env.count, 1);
	body_done(&body);
}

static void test_create_refusals(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{\"cpu_count\":0.049}", "cpu_count" },
		{ "{\"cpu_count\":8.001}", "8" },
		{ "{\"memory_mb\":16385}", "memory_mb must be an integer" },
		{ "{\"memory_mb\":16385}", "1 to 16384" },
		{ "{\"memory_mb\":\"1024\"}", "memory_mb" },
		{ "{\"timeout_sec\":0}", "1 to 86400" },
		{ "{\"idle_timeout_sec\":-1}", "idle_timeout_sec" },
		{ "{\"template\":\"Base\"}", "template must be 1-" },
		{ "{\"on_timeout\":\"explode\"}", "on_timeout must be one of" },
		{ "{\"network\":{\"mode\":\"open\"}}", "network.mode must be one of" },
		{ "{\"pool\":{\"wait_ms\":30001}}", "pool.wait_ms" },
		{ "{\"count\":0}", "count" },
		{ "{\"colour\":1}", "colour" },
		{ "{\"secrets\":[7]}", "secrets[0] must be a name or {name, as, env, hosts}" },
		{ "{\"secrets\":[{}]}", "secrets[0].name is required" },
		{ "{\"secrets\":[{\"name\":\"\"}]}",
		  "secrets[0].name must be a string of 1 to 128" },
		{ "{\"secrets\":[\"A\",{\"name\":\"T\",\"as\":\"x\"}]}", "secrets[1].as" },
		{ "{\"secrets\":[{\"name\":\"T\",\"hosts\":[1]}]}", "secrets[0].hosts[0]" },
		{ "{\"secrets\":[{\"name\":\"T\",\"x\":1}]}", "secrets[0].x" },
		{ "{\"initializers\":[\"\"]}", "initializers[0] must be a command" },
		{ "{\"initializers\":[{\"timeout_sec\":3601}]}",
		  "initializers[0].timeout_sec must be an integer" },
		{ "{\"initializers\":[{\"command\":\"a\",\"cmd\":\"b\"}]}", "exactly one" },
		{ "{\"initializers\":[{\"env\":{\"A\":1}}]}", "initializers[0].env.A" },
		{ NULL, NULL },
	};

	(void)state;
	body_refuse(sandbox_create_fields, sizeof(struct sandbox_spec), rows);
}

static void test_patch_distinguishes_absent_and_null(void **state)
{
	struct body body = { .doc = NULL };
	struct sandbox_patch patch = { .has_name = false };

	(void)state;
	assert_int_equal(body_decode(&body, sandbox_patch_fields, "{}", &patch), 0);
	assert_false(patch.has_name || patch.has_metadata || patch.has_timeout ||
		     patch.has_secrets);
	/* null removes a name; for a number it is the same as absent. */
	assert_int_equal(body_decode(&body, sandbox_patch_fields,
				     "{\"name\":null,\"timeout_sec\":null,\"metadata\":{}}",
				     &patch),
			 0);
	assert_true(patch.has_name && patch.has_metadata);
	assert_null(patch.name.p);
	assert_false(patch.has_timeout);
	patch = (struct sandbox_patch){ .has_name = false };
	assert_int_equal(body_decode(&body, sandbox_patch_fields,
				     "{\"name\":\"n\",\"always_on\":false}", &patch),
			 0);
	assert_true(patch.has_name && patch.has_always_on);
	assert_true(str_is(patch.name, "n"));
	body_done(&body);
	body_refuse(sandbox_patch_fields, sizeof(patch),
		    (const struct body_refusal[]){ { "{\"name\":\"\"}", "name must be 1-63" },
						   { "{\"timeout_sec\":0}", "timeout_sec" },
						   { NULL, NULL } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_defaults),
		cmocka_unit_test(test_create_values),
		cmocka_unit_test(test_create_refusals),
		cmocka_unit_test(test_patch_distinguishes_absent_and_null),
	};

	return cmocka_run_group_tests_name("rest-sandbox-fields", tests, NULL, NULL);
}
