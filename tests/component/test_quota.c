/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a key: at, below and above each, for every way of creating a sandbox. */
#include <string.h>

#include "world.h"

static char key[64], key_id[64];

static void new_key(const char *limits)
{
	const struct answer *a = call(
		"POST", "/v1/keys",
		path_of("{\"name\":\"k\",\"scopes\":[\"sandboxes:read\",\"sandboxes:write\"]%s%s}",
			*limits ? "," : "", limits));

	expect_status(a, 201);
	(void)snprintf(key, sizeof(key), "%s", text_of(a, "key"));
	(void)snprintf(key_id, sizeof(key_id), "%s", text_of(a, "id"));
}

static struct answer *create(const char *body)
{
	return call_as(key, "POST", "/v1/sandboxes", body);
}

static int64_t used(const char *what)
{
	const struct answer *a = call("GET", path_of("/v1/keys/%s", key_id), NULL);

	expect_status(a, 200);
	return json_int(member(member(member(a->doc, "quota"), what), "used"));
}

/* field NULL: it is created. */
static void expect_refused(const struct answer *a, const char *field, int64_t limit, int64_t held)
{
	const struct json *error = member(a->doc, "error");

	expect_status(a, 429);
	assert_string_equal(error_code(a), "quota_exceeded");
	assert_string_equal(json_str(member(error, "field")).p, field);
	assert_int_equal(json_int(member(error, "limit")), limit);
	assert_int_equal(json_int(member(error, "used")), held);
	assert_non_null(strstr(a->head, "Retry-After"));
}

/*
 * The first leaves exactly enough for the second; a third, or a second that is larger by one, is
 * refused.
 */
static const struct {
	const char *limit, *held, *field;
	int64_t most, first;
} sizes[] = {
	{ "max_sandboxes", "sandboxes", NULL, 2, 1 },
	{ "max_vcpus", "vcpus", "cpu_count", 3, 1 },
	{ "max_memory_mb", "memory_mb", "memory_mb", 700, 300 },
	{ "max_disk_mb", "disk_mb", "disk_size_mb", 900, 400 },
};

static const char *body_of(const char *field, int64_t value)
{
	return field ? path_of("{\"%s\":%lld}", field, (long long)value) : "{}";
}

static void test_each(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int64_t most = sizes[i].most, first = sizes[i].first;
		char id[64];

		new_key(path_of("\"%s\":%lld", sizes[i].limit, (long long)most));
		expect_status(create(body_of(sizes[i].field, first)), 201);
		assert_int_equal(used(sizes[i].held), first);
		if (sizes[i].field)
			expect_refused(create(body_of(sizes[i].field, most - first + 1)),
				       sizes[i].limit, most, first);
		const struct answer *a = create(body_of(sizes[i].field, most - first));

		expect_status(a, 201);
		(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
		assert_int_equal(used(sizes[i].held), most);
		expect_refused(create(body_of(sizes[i].field, 1)), sizes[i].limit, most, most);
		/* The same after a restart; then one goes and another comes. */
		world_restart();
		assert_int_equal(used(sizes[i].held), most);
		expect_refused(create(body_of(sizes[i].field, 1)), sizes[i].limit, most, most);
		expect_status(call_as(key, "DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
		assert_int_equal(used(sizes[i].held), first);
		expect_status(create(body_of(sizes[i].field, most - first)), 201);
	}
}

static void test_failures_release_quota(void **state)
{
	(void)state;
	new_key("\"max_memory_mb\":1000");
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(create("{\"memory_mb\":1000}"), 500);
	assert_int_equal(used("memory_mb"), 0);
	expect_status(create("{\"memory_mb\":500,\"name\":\"n\"}"), 201);
	expect_status(create("{\"memory_mb\":500,\"name\":\"n\"}"), 409);
	expect_status(create("{\"memory_mb\":500,\"template\":\"none\"}"), 404);
	assert_int_equal(used("memory_mb"), 500);
	/* The refused one does not keep its name either. */
	expect_refused(create("{\"memory_mb\":501,\"name\":\"m\"}"), "max_memory_mb", 1000, 500);
	expect_status(create("{\"memory_mb\":500,\"name\":\"m\"}"), 201);
}

/*
 * Creations in progress count: however many are requested at once, no more than the limit are
 * created.
 */
static void test_many_at_once(void **state)
{
	struct request reqs[12];
	struct answer answers[12];
	int made = 0;

	(void)state;
	new_key("\"max_vcpus\":10");
	fake_hold(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		request_send(&reqs[i], key, "POST", "/v1/sandboxes", NULL, "{\"cpu_count\":2}");
	world_turns(20);
	fake_release(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++) {
		request_wait(&reqs[i], &answers[i]);
		made += answers[i].status == 201;
		assert_true(answers[i].status == 201 || answers[i].status == 429);
		answer_free(&answers[i]);
	}
	assert_int_equal(made, 5);
	assert_int_equal(used("vcpus"), 10);
}

static size_t made_of(const struct answer *a)
{
	const struct json *data = member(a->doc, "data");
	size_t made = 0;

	for (size_t i = 0; i < json_size(data); i++) {
		const struct json *error = member(json_at(data, i), "error");

		made += error == NULL;
		if (error)
			assert_string_equal(json_str(member(error, "field")).p, "max_memory_mb");
	}
	return made;
}

static void test_other_ways(void **state)
{
	char source[64], snapshot[64];
	struct answer *a;

	(void)state;
	new_key("\"max_memory_mb\":1000");
	a = create("{\"memory_mb\":200}");
	expect_status(a, 201);
	(void)snprintf(source, sizeof(source), "%s", text_of(a, "id"));
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/fork", source), "{\"count\":3}");
	expect_status(a, 201);
	assert_int_equal(made_of(a), 3);
	/* One more fits, by any way. */
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/fork", source), "{\"count\":2}");
	expect_status(a, 201);
	assert_int_equal(made_of(a), 1);
	assert_int_equal(used("memory_mb"), 1000);
	expect_refused(call_as(key, "POST", path_of("/v1/sandboxes/%s/fork", source), "{}"),
		       "max_memory_mb", 1000, 1000);
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/snapshots", source), "{}");
	expect_status(a, 201);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	expect_refused(create(path_of("{\"snapshot_id\":\"%s\"}", snapshot)), "max_memory_mb", 1000,
		       1000);
	/* Restoring in place and pausing change nothing. */
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/restore", source),
		    path_of("{\"snapshot_id\":\"%s\"}", snapshot));
	expect_status(a, 200);
	expect_status(call_as(key, "POST", path_of("/v1/sandboxes/%s/pause", source),
			      "{\"kind\":\"hibernate\"}"),
		      200);
	assert_int_equal(used("memory_mb"), 1000);
	expect_status(call_as(key, "DELETE", path_of("/v1/sandboxes/%s", source), NULL), 204);
	assert_int_equal(used("memory_mb"), 800);
	a = create("{\"memory_mb\":100,\"count\":5}");
	expect_status(a, 201);
	assert_int_equal(made_of(a), 2);
	assert_int_equal(used("memory_mb"), 1000);
	assert_int_equal(used("snapshots"), 1);
}

static void test_rate(void **state)
{
	const struct json *data;
	struct answer *a;

	(void)state;
	new_key("\"max_creates_per_sec\":3");
	/* Requested together, so no clock can come between them. */
	a = create("{\"count\":5}");
	expect_status(a, 201);
	data = member(a->doc, "data");
	for (size_t i = 0; i < 5; i++) {
		const struct json *error = member(json_at(data, i), "error");

		assert_int_equal(error == NULL, i < 3);
		if (!error)
			continue;
		assert_string_equal(json_str(member(error, "code")).p, "rate_limited");
		assert_string_equal(json_str(member(error, "field")).p, "max_creates_per_sec");
		assert_int_equal(json_int(member(error, "limit")), 3);
	}
	world_turns(1100);
	expect_status(create("{}"), 201);
}

static void test_settings_and_admin(void **state)
{
	(void)state;
	world_stop();
	world.config.max_vcpus_per_key = 2;
	world_start();
	new_key("");
	expect_status(create("{\"cpu_count\":2}"), 201);
	expect_refused(create("{}"), "max_vcpus", 2, 2);
	/* Its own limit has precedence, and can be none; an admin key is bound only by its own. */
	expect_status(call("PATCH", path_of("/v1/keys/%s", key_id), "{\"max_vcpus\":3}"), 200);
	expect_status(create("{}"), 201);
	expect_refused(create("{}"), "max_vcpus", 3, 3);
	expect_status(call("PATCH", path_of("/v1/keys/%s", key_id), "{\"max_vcpus\":-1}"), 200);
	expect_status(create("{}"), 201);
	expect_status(call("PATCH", path_of("/v1/keys/%s", key_id), "{\"max_vcpus\":0}"), 200);
	expect_refused(create("{}"), "max_vcpus", 2, 4);
	expect_status(call("POST", "/v1/sandboxes", "{\"cpu_count\":3}"), 201);
	world_restart();
	expect_refused(create("{}"), "max_vcpus", 2, 4);
}

static void test_changes(void **state)
{
	const char *maker = make_key("[\"keys\",\"sandboxes:write\",\"sandboxes:read\"]");
	struct answer *a = call_as(maker, "GET", "/v1/keys/self", NULL);
	char self[64];

	(void)state;
	expect_status(a, 200);
	(void)snprintf(self, sizeof(self), "/v1/keys/%s", text_of(a, "id"));
	expect_status(call_as(maker, "PATCH", self, "{\"name\":\"new\"}"), 200);
	a = call_as(maker, "GET", self, NULL);
	assert_string_equal(text_of(a, "name"), "new");
	/* A key cannot raise its own limits, nor pass on more than it has. */
	expect_status(call_as(maker, "PATCH", self, "{\"max_sandboxes\":5}"), 403);
	expect_status(call("PATCH", self, "{\"max_sandboxes\":5,\"max_disk_mb\":100}"), 200);
	expect_status(
		call_as(maker, "POST", "/v1/keys",
			"{\"name\":\"c\",\"scopes\":[\"sandboxes:read\"],\"max_sandboxes\":6}"),
		403);
	expect_status(
		call_as(maker, "POST", "/v1/keys",
			"{\"name\":\"c\",\"scopes\":[\"sandboxes:read\"],\"max_disk_mb\":-1}"),
		403);
	a = call_as(maker, "POST", "/v1/keys",
		    "{\"name\":\"c\",\"scopes\":[\"sandboxes:read\"],\"max_sandboxes\":4}");
	expect_status(a, 201);
	assert_int_equal(int_of(a, "max_sandboxes"), 4);
	assert_int_equal(int_of(a, "max_disk_mb"), 100);
	expect_status(call("PATCH", self, "{\"max_sandboxes\":-2}"), 400);
	expect_status(call("PATCH", self, "{\"scopes\":[]}"), 400);
	expect_status(call("PATCH", "/v1/keys/none", "{\"name\":\"x\"}"), 404);
	expect_status(call("GET", "/v1/keys/none", NULL), 404);
	world_restart();
	a = call("GET", self, NULL);
	assert_string_equal(text_of(a, "name"), "new");
	assert_int_equal(int_of(a, "max_sandboxes"), 5);
	/* A key without the scope for keys can still read itself. */
	new_key("");
	expect_status(call_as(key, "GET", "/v1/keys/self", NULL), 200);
	expect_status(call_as(key, "GET", path_of("/v1/keys/%s", key_id), NULL), 403);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_each),	 TEST(test_failures_release_quota),
		TEST(test_many_at_once), TEST(test_other_ways),
		TEST(test_rate),	 TEST(test_settings_and_admin),
		TEST(test_changes),
	};

	return cmocka_run_group_tests_name("quota", tests, NULL, NULL);
}
