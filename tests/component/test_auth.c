/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, scopes, tenants and quotas. */
#include <string.h>

#include "face/rest/call.h"
#include "world.h"

static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };

/* A path that matches the pattern; the objects in it do not exist. */
static const char *fill(const char *pattern)
{
	char text[256];
	size_t n = 0;

	while (*pattern && n + 8 < sizeof(text)) {
		if (*pattern != '{') {
			text[n++] = *pattern++;
			continue;
		}
		n += (size_t)sprintf(text + n, "none");
		pattern = strchr(pattern, '}') + 1;
	}
	text[n] = '\0';
	return path_of("%s", text);
}

/* Every route of the table with no key, a wrong one, one without the scope, one with it. */
static void test_matrix(void **state)
{
	char weak[64], other[64];

	(void)state;
	(void)snprintf(weak, sizeof(weak), "%s", make_key("[\"metrics\"]"));
	(void)snprintf(other, sizeof(other), "%s", make_key("[\"exec\"]"));
	for (size_t i = 0; i < rest_route_count; i++) {
		const struct rest_route *route = &rest_routes[i];
		const char *path = fill(route->row.pattern), *method = methods[route->row.method];
		const char *body = route->body ? "{}" : NULL;
		const char *lacking = route->row.scope == AUTH_METRICS ? other : weak;
		int status;

		if (strcmp(path, "/v1/events") == 0)
			path = "/v1/events?format=json"; /* the stream does not end */
		if (strcmp(path, "/v1/admin/shutdown") == 0)
			body = "{\"destroy\":7}"; /* refused, should it get that far */
		status = call_as(NULL, method, path, body)->status;
		assert_int_equal(status, (route->row.flags & ROUTE_OPEN) ? 200 : 401);
		if ((route->row.flags & ROUTE_OPEN))
			continue;
		assert_non_null(
			strstr(call_as(NULL, method, path, body)->head, "WWW-Authenticate"));
		status = call_as("cay_0000000000000000000000000000000000000000", method, path, body)
				 ->status;
		assert_int_equal(status, 401);
		assert_int_equal(call_as("nonsense", method, path, body)->status, 401);
		status = call_as(lacking, method, path, body)->status;
		if (route->row.scope)
			assert_int_equal(status, 403);
		else
			assert_true(status == 200 || status == 400); /* of an empty body */
		if (ticket_opens(route)) { /* with a ticket no more than with its key */
			const char *want = path_of("{\"path\":\"%s\"}", fill(route->row.pattern));

			expect_status(call_as(lacking, "POST", "/v1/tickets", want), 403);
			expect_status(call("POST", "/v1/tickets", want), 201);
		}
		status = call(method, path, body)->status;
		assert_true(status != 401 && status != 403);
	}
}

static void test_key_life(void **state)
{
	const char *key = make_key("[\"sandboxes:read\",\"keys\"]");
	struct answer *a = call_as(key, "GET", "/v1/sandboxes", NULL);
	struct request req;
	struct answer own;
	char id[64];

	(void)state;
	expect_status(a, 200);
	/* The same digits behind E2B's prefix, and the other header. */
	expect_status(call_as(path_of("e2b_%s", key + 4), "GET", "/v1/sandboxes", NULL), 200);
	request_send(&req, NULL, "GET", "/v1/sandboxes", path_of("X-API-Key: %s\r\n", key), NULL);
	request_wait(&req, &own);
	expect_status(&own, 200);
	answer_free(&own);
	/* It can grant its own scopes, and nothing else. */
	expect_status(call_as(key, "POST", "/v1/keys",
			      "{\"name\":\"c\",\"scopes\":[\"sandboxes:read\"]}"),
		      201);
	expect_status(call_as(key, "POST", "/v1/keys", "{\"name\":\"c\",\"scopes\":[\"admin\"]}"),
		      403);
	expect_status(call_as(key, "POST", "/v1/keys", "{\"name\":\"c\",\"scopes\":[\"root\"]}"),
		      400);
	expect_status(call("POST", "/v1/keys", "{\"name\":\"c\",\"scopes\":[]}"), 400);
	expect_status(call("POST", "/v1/keys", "{\"scopes\":[\"exec\"]}"), 400);
	a = call("POST", "/v1/keys", "{\"name\":\"gone\",\"scopes\":[\"exec\"]}");
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
	key = path_of("%s", text_of(a, "key"));
	a = call("GET", "/v1/keys", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 4);
	assert_null(strstr(a->body, "cay_")); /* secrets are shown once */
	a = call("GET", "/v1/keys?limit=3", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 3);
	a = call("GET", path_of("/v1/keys?cursor=%s", text_of(a, "next_cursor")), NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	expect_status(call_as(key, "GET", "/v1/options", NULL), 200);
	expect_status(call("DELETE", path_of("/v1/keys/%s", id), NULL), 204);
	expect_status(call_as(key, "GET", "/v1/options", NULL), 401);
	expect_status(call("DELETE", path_of("/v1/keys/%s", id), NULL), 404);
	world_restart(); /* keys outlive the daemon, so do deletions */
	expect_status(call_as(key, "GET", "/v1/options", NULL), 401);
	expect_status(call("GET", "/v1/options", NULL), 200);
}

static void test_last_admin_stays(void **state)
{
	struct answer *a = call("GET", "/v1/keys", NULL);
	const char *id = path_of("/v1/keys/%s",
				 json_str(member(json_at(member(a->doc, "data"), 0), "id")).p);

	(void)state;
	expect_status(call("DELETE", id, NULL), 409);
}

/* A key that lacks exec is shown its sandbox by the E2B face, without the token of the inside. */
static void test_no_token_without_exec(void **state)
{
	const char *scopes = "[\"sandboxes:read\",\"sandboxes:write\"]";
	const char *weak = make_key(scopes);
	const char *full = make_key("[\"sandboxes:read\",\"sandboxes:write\",\"exec\"]");
	struct answer *a = call_as(weak, "POST", "/v1/sandboxes", "{}");
	const char *id = path_of("%s", text_of(a, "id"));

	(void)state;
	expect_status(a, 201);
	a = call_as(weak, "GET", path_of("/sandboxes/%s", id), NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "sandboxID"), id);
	assert_string_equal(text_of(a, "envdAccessToken"), "");
	a = call_as(weak, "GET", path_of("/v2/sandboxes/%s", id), NULL);
	assert_string_equal(text_of(a, "envdAccessToken"), "");
	a = call_as(weak, "GET", "/v2/sandboxes", NULL);
	expect_status(a, 200);
	assert_null(strstr(a->body, "Token"));
	for (int i = 0; i < 2; i++)
		expect_status(call_as(weak, "POST",
				      path_of("/sandboxes/%s/%s", id, i ? "resume" : "connect"),
				      "{}"),
			      403);
	expect_status(call_as(weak, "POST", path_of("/sandboxes/%s/fork", id), "{}"), 403);
	expect_status(call_as(weak, "POST", "/sandboxes", "{\"templateID\":\"base\"}"), 403);
	a = call_as(full, "POST", "/v1/sandboxes", "{}");
	a = call_as(full, "GET", path_of("/sandboxes/%s", path_of("%s", text_of(a, "id"))), NULL);
	assert_int_equal(strlen(text_of(a, "envdAccessToken")), 64);
}

static void test_initializers_need_exec(void **state)
{
	const char *weak = make_key("[\"sandboxes:write\"]");
	const char *full = make_key("[\"sandboxes:write\",\"exec\"]");
	const char *one = "{\"initializers\":[\"true\"]}";
	struct answer *a = call_as(weak, "POST", "/v1/sandboxes", one);

	(void)state;
	expect_status(a, 403);
	assert_string_equal(error_code(a), "forbidden");
	a = call_as(weak, "POST", "/v1/sandboxes", "{\"count\":2,\"initializers\":[\"true\"]}");
	assert_int_not_equal(a->status, 201);
	expect_status(call_as(weak, "POST", "/v1/sandboxes", "{\"initializers\":[]}"), 201);
	expect_status(call_as(full, "POST", "/v1/sandboxes", one), 201);
}

/* Another tenant's sandbox is reported as not found. */
static void test_tenants(void **state)
{
	const char *scopes = "[\"sandboxes:read\",\"sandboxes:write\",\"exec\"]";
	const char *a_key = make_key(scopes), *b_key = make_key(scopes);
	char id[64], *absent, *foreign;
	struct answer *a = call_as(a_key, "POST", "/v1/sandboxes", "{\"name\":\"mine\"}");
	static const struct {
		const char *method, *tail, *body;
	} calls[] = {
		{ "GET", "", NULL },	     { "DELETE", "", NULL },
		{ "PATCH", "", "{}" },	     { "POST", "/exec", "{\"command\":\"true\"}" },
		{ "POST", "/extend", "{}" }, { "GET", "/env", NULL },
		{ "GET", "/metrics", NULL },
	};

	(void)state;
	expect_status(a, 201);
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		a = call_as(b_key, calls[i].method,
			    path_of("/v1/sandboxes/%s%s", id, calls[i].tail), calls[i].body);
		expect_status(a, 404);
		foreign = strdup(error_message(a));
		a = call_as(b_key, calls[i].method,
			    path_of("/v1/sandboxes/%s%s", "aaaaaaaaaaaaaaaaaaaa", calls[i].tail),
			    calls[i].body);
		expect_status(a, 404);
		absent = strdup(error_message(a));
		assert_int_equal(strlen(foreign), strlen(absent));
		free(foreign);
		free(absent);
	}
	expect_status(call_as(b_key, "GET", "/v1/sandboxes/mine", NULL), 404);
	a = call_as(b_key, "GET", "/v1/sandboxes", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 0);
	/* Names are unique per tenant. */
	expect_status(call_as(b_key, "POST", "/v1/sandboxes", "{\"name\":\"mine\"}"), 201);
	a = call("GET", "/v1/sandboxes", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 2);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", id), NULL), 200);
	expect_status(call("GET", "/v1/sandboxes/mine", NULL), 404); /* ambiguous */
	expect_status(call_as(a_key, "DELETE", "/v1/sandboxes/mine", NULL), 204);
	expect_status(call("GET", "/v1/sandboxes/mine", NULL), 200); /* no longer */
}

/* A key with the given scopes and limits, made by another: its text in a static buffer. */
static const char *sub_key(const char *maker, const char *scopes, const char **ret_id)
{
	struct answer *a = call_as(maker, "POST", "/v1/keys",
				   path_of("{\"name\":\"sub\",\"scopes\":%s}", scopes));

	expect_status(a, 201);
	*ret_id = path_of("%s", text_of(a, "id"));
	return path_of("%s", text_of(a, "key"));
}

#define MANAGER "[\"keys\",\"sandboxes:read\",\"sandboxes:write\"]"

/* A key manages the keys below it. Keys of others are reported as not found. */
static void test_keys_of_others(void **state)
{
	const char *a_id, *b_id, *child_id, *grandchild_id;
	const char *a_key = sub_key(world.admin, MANAGER, &a_id);
	const char *b_key = sub_key(world.admin, MANAGER, &b_id);
	const char *child = sub_key(b_key, MANAGER, &child_id);
	const char *grandchild = sub_key(child, MANAGER, &grandchild_id);
	const char *foreign[] = { b_id, child_id, grandchild_id };
	struct answer *a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		const char *path = path_of("/v1/keys/%s", foreign[i]);

		expect_status(call_as(a_key, "GET", path, NULL), 404);
		expect_status(call_as(a_key, "PATCH", path, "{\"name\":\"x\"}"), 404);
		expect_status(call_as(a_key, "DELETE", path, NULL), 404);
	}
	a = call_as(a_key, "GET", "/v1/keys", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1); /* itself */
	a = call_as(b_key, "GET", "/v1/keys", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 3);
	a = call_as(b_key, "GET", "/v1/keys?limit=2", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 2);
	/* Not those above. */
	expect_status(call_as(child, "GET", path_of("/v1/keys/%s", b_id), NULL), 404);
	expect_status(call_as(child, "DELETE", path_of("/v1/keys/%s", b_id), NULL), 404);
	a = call_as(b_key, "PATCH", path_of("/v1/keys/%s", grandchild_id), "{\"name\":\"x\"}");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "created_by"), child_id);
	world_restart(); /* the database has it, too */
	expect_status(call_as(a_key, "DELETE", path_of("/v1/keys/%s", child_id), NULL), 404);
	/* Deleting a key deletes those below it. */
	expect_status(call_as(b_key, "DELETE", path_of("/v1/keys/%s", child_id), NULL), 204);
	expect_status(call_as(grandchild, "GET", "/v1/keys/self", NULL), 401);
	expect_status(call_as(b_key, "GET", "/v1/keys/self", NULL), 200);
}

static int64_t held(const char *key)
{
	return int_of(call_as(key, "GET", "/v1/keys/self", NULL), "sandboxes");
}

/* max_sandboxes_per_key is 2: together with all keys below, and also after those are deleted. */
static void test_keys_below_count(void **state)
{
	const char *id, *other, *sandbox, *top = sub_key(world.admin, MANAGER, &id);
	const char *child = sub_key(top, MANAGER, &id);
	const char *grandchild = sub_key(child, MANAGER, &other);
	struct answer *a;

	(void)state;
	a = call_as(grandchild, "POST", "/v1/sandboxes", "{}");
	expect_status(a, 201);
	sandbox = path_of("/v1/sandboxes/%s", text_of(a, "id"));
	expect_status(call_as(child, "POST", "/v1/sandboxes", "{}"), 201);
	for (int i = 0; i < 3; i++)
		assert_string_equal(error_code(call_as(i == 0	? grandchild
						       : i == 1 ? child
								: top,
						       "POST", "/v1/sandboxes", "{}")),
				    "quota_exceeded");
	assert_int_equal(held(top), 2);
	assert_int_equal(held(grandchild), 1);
	expect_status(call_as(top, "DELETE", path_of("/v1/keys/%s", id), NULL), 204);
	assert_int_equal(held(top), 2);
	world_restart();
	assert_int_equal(held(top), 2);
	expect_status(call_as(sub_key(top, MANAGER, &id), "POST", "/v1/sandboxes", "{}"), 429);
	expect_status(call("DELETE", sandbox, NULL), 204);
	assert_int_equal(held(top), 1);
	expect_status(call_as(top, "POST", "/v1/sandboxes", "{}"), 201);
}

/* At, and just above, what one tenant may create. */
static void test_keys_are_bounded(void **state)
{
	const char *id, *first;
	char top[64], child[64];

	(void)state;
	(void)snprintf(top, sizeof(top), "%s", sub_key(world.admin, MANAGER, &id));
	(void)snprintf(child, sizeof(child), "%s", sub_key(top, MANAGER, &first));
	for (int i = 2; i <= AUTH_KEYS_PER_KEY; i++)
		(void)sub_key(i % 2 ? child : top, MANAGER, &id);
	expect_status(call_as(child, "POST", "/v1/keys", "{\"name\":\"n\",\"scopes\":[\"keys\"]}"),
		      429);
	expect_status(call_as(top, "DELETE", path_of("/v1/keys/%s", id), NULL), 204);
	(void)sub_key(top, MANAGER, &id);
	(void)sub_key(world.admin, MANAGER, &id); /* others are not affected */
}

static int setup_quota(void **state)
{
	(void)state;
	world_prepare();
	world.config.max_sandboxes = 4;
	world.config.max_sandboxes_per_key = 2;
	world_start();
	return 0;
}

static void test_quota(void **state)
{
	const char *key = make_key("[\"sandboxes:write\"]"), *own;
	struct answer *a;

	(void)state;
	expect_status(call_as(key, "POST", "/v1/sandboxes", "{\"name\":\"a\"}"), 201);
	expect_status(call_as(key, "POST", "/v1/sandboxes", "{}"), 201);
	a = call_as(key, "POST", "/v1/sandboxes", "{}");
	expect_status(a, 429);
	assert_string_equal(error_code(a), "quota_exceeded");
	assert_non_null(strstr(a->head, "Retry-After"));
	/* A failure frees its quota. */
	expect_status(call_as(key, "DELETE", "/v1/sandboxes/a", NULL), 204);
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(call_as(key, "POST", "/v1/sandboxes", "{}"), 500);
	expect_status(call_as(key, "POST", "/v1/sandboxes", "{}"), 201);
	a = call("POST", "/v1/keys",
		 "{\"name\":\"big\",\"scopes\":[\"sandboxes:write\"],\"max_sandboxes\":3}");
	own = path_of("%s", text_of(a, "key"));
	expect_status(call_as(own, "POST", "/v1/sandboxes", "{}"), 201);
	expect_status(call("POST", "/v1/sandboxes", "{}"), 201);
	a = call("POST", "/v1/sandboxes", "{}");
	expect_status(a, 503);
	assert_string_equal(error_code(a), "capacity_exceeded");
	world_restart(); /* counted again from the rows */
	expect_status(call_as(key, "POST", "/v1/sandboxes", "{}"), 503);
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_matrix, world_setup),
		TEST(test_key_life, world_setup),
		TEST(test_last_admin_stays, world_setup),
		TEST(test_no_token_without_exec, world_setup),
		TEST(test_initializers_need_exec, world_setup),
		TEST(test_tenants, world_setup),
		TEST(test_keys_of_others, world_setup),
		TEST(test_keys_below_count, setup_quota),
		TEST(test_keys_are_bounded, world_setup),
		TEST(test_quota, setup_quota),
	};

	return cmocka_run_group_tests_name("auth", tests, NULL, NULL);
}
