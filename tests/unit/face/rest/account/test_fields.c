/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of keys, webhooks and secrets as specs of the service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "face/rest/call.h"
#include "service/event/webhook.h"
#include "service/secret/secret.h"

static int read_key(struct body *body, const char *text, struct key_spec *ret)
{
	body_set(body, text);
	return key_spec_read(body->doc, &body->arena, ret, &body->err);
}

static void test_a_key(void **state)
{
	struct body body = { .doc = NULL };
	struct key_spec spec;

	(void)state;
	assert_int_equal(read_key(&body,
				  "{\"name\":\"ci\",\"scopes\":[\"exec\",\"sandboxes:read\"],"
				  "\"max_sandboxes\":-1,\"max_creates_per_sec\":1000000000}",
				  &spec),
			 0);
	assert_true(str_is(spec.name, "ci"));
	assert_int_equal(spec.scopes, AUTH_EXEC | AUTH_SANDBOXES_READ);
	assert_int_equal(spec.limits[QUOTA_SANDBOXES], QUOTA_NONE);
	assert_int_equal(spec.limits[QUOTA_CREATES], QUOTA_MAX);
	assert_int_equal(spec.limits[QUOTA_MEMORY], 0);
	/* Every name that GET /v1/options lists is accepted. */
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "{\"name\":\"k\",\"scopes\":[\"%s\"]}",
			       auth_scope_names[i]);
		assert_int_equal(read_key(&body, text, &spec), 0);
		assert_int_equal(spec.scopes, 1u << i);
	}
	body_done(&body);
}

static void test_keys_that_are_refused(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{\"scopes\":[\"exec\"]}", "name is required" },
		{ "{\"name\":\"\",\"scopes\":[\"exec\"]}",
		  "name must be a string of 1 to 64 bytes" },
		{ "{\"name\":\"k\"}", "scopes is required" },
		{ "{\"name\":\"k\",\"scopes\":[]}", "scopes must name at least one scope" },
		{ "{\"name\":\"k\",\"scopes\":[\"exec\",\"root\"]}", "scopes[1] must be one of" },
		{ "{\"name\":\"k\",\"scopes\":[\"exec\"],\"max_vcpus\":-2}", "max_vcpus" },
		{ "{\"name\":\"k\",\"scopes\":[\"exec\"],\"max_vcpus\":1000000001}",
		  "-1 to 1000000000" },
		{ "{\"name\":\"k\",\"scopes\":[\"exec\"],\"id\":\"x\"}", "id" },
		{ NULL, NULL },
	};
	struct body body = { .doc = NULL };
	struct key_spec spec;

	(void)state;
	for (const struct body_refusal *row = rows; row->text; row++) {
		if (read_key(&body, row->text, &spec) == 0)
			fail_msg("accepted: %s", row->text);
		if (!strstr(body.err.message, row->what))
			fail_msg("%s: %s", row->text, body.err.message);
	}
	body_done(&body);
}

static void test_a_changed_key(void **state)
{
	struct body body = { .doc = NULL };
	struct key_patch patch;

	(void)state;
	body_set(&body, "{\"max_disk_mb\":0}");
	assert_int_equal(key_patch_read(body.doc, &patch, &body.err), 0);
	assert_false(patch.has_name);
	for (int i = 0; i < QUOTA_COUNT; i++)
		assert_int_equal(patch.has_limit[i], i == QUOTA_DISK);
	body_set(&body, "{\"name\":\"n\",\"max_disk_mb\":null}");
	assert_int_equal(key_patch_read(body.doc, &patch, &body.err), 0);
	assert_true(patch.has_name && str_is(patch.name, "n"));
	assert_false(patch.has_limit[QUOTA_DISK]);
	body_set(&body, "{\"scopes\":[\"admin\"]}"); /* cannot be changed */
	assert_int_equal(key_patch_read(body.doc, &patch, &body.err), -1);
	assert_non_null(strstr(body.err.message, "scopes"));
	body_done(&body);
}

static void test_webhooks(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{}", "url is required" },
		{ "{\"url\":\"http://\"}", "url must be a string of 8 to 2048 bytes" },
		{ "{\"url\":\"http://h/x\",\"secret\":\"short\"}",
		  "secret must be a string of 16 to 128" },
		{ "{\"url\":\"http://h/x\",\"events\":\"sandbox\"}", "events must be an array" },
		{ "{\"url\":\"http://h/x\",\"enabled\":1}", "enabled" },
		{ NULL, NULL },
	};
	struct body body = { .doc = NULL };
	struct webhook_spec spec = { .enabled = false };

	(void)state;
	assert_int_equal(body_decode(&body, webhook_create_fields,
				     "{\"url\":\"https://h/x\",\"events\":[\"sandbox\"]}", &spec),
			 0);
	assert_true(spec.has_url && spec.has_events && spec.enabled);
	assert_false(spec.has_secret || spec.has_enabled || spec.has_workspace);
	assert_int_equal(spec.events.count, 1);
	spec = (struct webhook_spec){ .enabled = true };
	assert_int_equal(body_decode(&body, webhook_patch_fields, "{\"enabled\":false}", &spec), 0);
	assert_true(spec.has_enabled && !spec.enabled && !spec.has_url);
	body_done(&body);
	body_refuse(webhook_create_fields, sizeof(spec), rows);
}

static void test_secrets(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{\"name\":\"A\"}", "value is required" },
		{ "{\"name\":\"\",\"value\":\"v\"}", "name must be a string of 1 to 128 bytes" },
		{ "{\"name\":\"A\",\"value\":\"\"}", "value must be a string of 1 to" },
		{ "{\"name\":\"A\",\"value\":\"a\\u0000b\"}", "value must not contain NUL" },
		{ "{\"name\":\"A\",\"value\":\"v\",\"scope\":\"host\"}", "scope must be one of" },
		{ NULL, NULL },
	};
	struct body body = { .doc = NULL };
	struct secret_spec spec = { .scope = 0 };

	(void)state;
	assert_int_equal(body_decode(&body, secret_create_fields,
				     "{\"name\":\"A\",\"value\":\"v\",\"scope\":\"workspace\","
				     "\"external_workspace_id\":\"w\",\"hosts\":[\"h.example\"]}",
				     &spec),
			 0);
	assert_int_equal(spec.scope, SECRET_WORKSPACE);
	assert_true(str_is(spec.external_workspace_id, "w"));
	assert_int_equal(spec.hosts.count, 1);
	body_done(&body);
	body_refuse(secret_create_fields, sizeof(spec), rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_key),	      cmocka_unit_test(test_keys_that_are_refused),
		cmocka_unit_test(test_a_changed_key), cmocka_unit_test(test_webhooks),
		cmocka_unit_test(test_secrets),
	};

	return cmocka_run_group_tests_name("rest-account-fields", tests, NULL, NULL);
}
