/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency-Key for calls that create at once: one object and one reply, and no secret on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/value/poster.h"
#include "inside.h"

static int check_url(struct poster *poster, struct str url)
{
	(void)poster;
	return str_starts(url, "http") ? 0 : -EINVAL;
}

static int never(struct poster *poster, const struct poster_request *r, poster_fn done, void *arg,
		 uint64_t *ret)
{
	(void)poster;
	(void)r;
	(void)done;
	(void)arg;
	(void)ret;
	return -EIO;
}

static void nothing(struct poster *poster, uint64_t handle)
{
	(void)poster;
	(void)handle;
}

static int setup(void **state)
{
	static struct poster poster = { .check = check_url, .post = never, .cancel = nothing };

	(void)state;
	world_prepare();
	world.config.poster = &poster;
	world_start();
	return 0;
}

/* The file and the WAL. */
static bool on_disk(const char *text)
{
	static const char *const files[] = { "cay.db", "cay.db-wal" };
	size_t n = strlen(text);
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(files) && !found; i++) {
		char path[128], *bytes = malloc(32 << 20);
		int fd;
		ssize_t got;

		(void)snprintf(path, sizeof(path), "%s/%s", world.dir, files[i]);
		fd = open(path, O_RDONLY);
		got = fd < 0 ? 0 : read(fd, bytes, 32 << 20);
		found = got > 0 && memmem(bytes, (size_t)got, text, n) != NULL;
		if (fd >= 0)
			(void)close(fd);
		free(bytes);
	}
	return found;
}

static struct answer once(const char *path, const char *key, const char *body)
{
	struct request req;
	struct answer a;

	request_send(&req, world.admin, "POST", path, path_of("Idempotency-Key: %s\r\n", key),
		     body);
	request_wait(&req, &a);
	return a;
}

static size_t count_of(const char *path)
{
	return json_size(member(call("GET", path, NULL)->doc, "data"));
}

static const struct made {
	const char *path, *list, *body, *other, *secret; /* the member that holds it */
	bool keeps;					 /* a webhook's secret signs: it is kept */
} things[] = {
	{ "/v1/keys", "/v1/keys", "{\"name\":\"a\",\"scopes\":[\"exec\"]}",
	  "{\"name\":\"b\",\"scopes\":[\"exec\"]}", "key", false },
	{ "/v1/webhooks", "/v1/webhooks", "{\"url\":\"http://one/\"}", "{\"url\":\"http://two/\"}",
	  "secret", true },
	{ "/v1/secrets", "/v1/secrets", "{\"name\":\"S\",\"value\":\"0123456789-told-once\"}",
	  "{\"name\":\"S\",\"value\":\"0123456789-told-other\"}", NULL, false },
};

static void test_repeated_creations_get_one_reply(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(things); i++) {
		const struct made *t = &things[i];
		size_t before = count_of(t->list);
		struct answer first = once(t->path, "same", t->body), again;
		char key[16];

		if (i) /* a key is for one call: another path is another body */
			expect_status(&first, 409);
		else
			expect_status(&first, 201);
		answer_free(&first);
		(void)snprintf(key, sizeof(key), "k%zu", i);
		first = once(t->path, key, i ? t->body : t->other);
		expect_status(&first, 201);
		again = once(t->path, key, i ? t->body : t->other);
		expect_status(&again, 201);
		assert_string_equal(first.body, again.body);
		answer_free(&again);
		if (t->secret && !t->keeps)
			assert_false(on_disk(text_of(&first, t->secret)));
		assert_false(on_disk("told-once"));
		world_restart();
		again = once(t->path, key, i ? t->body : t->other);
		expect_status(&again, 201);
		assert_string_equal(first.body, again.body);
		answer_free(&again);
		again = once(t->path, key, "{\"name\":\"x\"}");
		expect_status(&again, 409);
		assert_string_equal(error_code(&again), "idempotency_mismatch");
		answer_free(&again);
		assert_int_equal(count_of(t->list), before + (i ? 1 : 2));
		answer_free(&first);
	}
}

/* A refused call is not recorded, and nothing of it is left. */
static void test_refused(void **state)
{
	struct answer a = once("/v1/keys", "k", "{\"name\":\"a\",\"scopes\":[\"nope\"]}");

	(void)state;
	expect_status(&a, 400);
	answer_free(&a);
	a = once("/v1/keys", "k", "{\"name\":\"a\",\"scopes\":[\"exec\"]}");
	expect_status(&a, 201);
	answer_free(&a);
	a = once("/v1/webhooks", "w", "{\"url\":\"nowhere://\"}");
	expect_status(&a, 400);
	answer_free(&a);
	assert_int_equal(count_of("/v1/webhooks"), 0);
	assert_int_equal(count_of("/v1/keys"), 2);
	/* The key that was made works, now and after a restart. */
	new_sandbox("{}");
	a = once("/v1/keys", "k", "{\"name\":\"a\",\"scopes\":[\"exec\"]}");
	expect_status(call_as(text_of(&a, "key"), "GET", "/v1/keys/self", NULL), 200);
	world_restart();
	expect_status(call_as(text_of(&a, "key"), "GET", "/v1/keys/self", NULL), 200);
	answer_free(&a);
}

static void test_of_a_sandbox(void **state)
{
	struct answer first, again;
	char path[160];

	(void)state;
	new_sandbox("{}");
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/previews", sandbox);
	first = once(path, "p", "{\"port\":8080,\"visibility\":\"private\"}");
	expect_status(&first, 201);
	again = once(path, "p", "{\"port\":8080,\"visibility\":\"private\"}");
	assert_string_equal(first.body, again.body);
	answer_free(&again);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/previews/%s/share", sandbox,
		       text_of(&first, "id"));
	answer_free(&first);
	first = once(path, "s", "{\"ttl_sec\":60}");
	expect_status(&first, 201);
	assert_false(on_disk(text_of(&first, "token")));
	world_restart();
	again = once(path, "s", "{\"ttl_sec\":60}");
	assert_string_equal(first.body, again.body);
	answer_free(&first);
	answer_free(&again);
}

/* The daemon ends a number of loop iterations after a keyed call arrived; the client, which got no
 * reply, repeats the call. One object exists in the end, and the reply describes it. */
static void ended_after(int turns, const char *tail, const char *body)
{
	char path[96], key[48];
	struct request req;
	struct answer a;

	new_sandbox("{}");
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/%s", sandbox, tail);
	(void)snprintf(key, sizeof(key), "%s-%d", tail, turns);
	request_send(&req, world.admin, "POST", path, path_of("Idempotency-Key: %s\r\n", key),
		     body);
	for (int i = 0; i < turns; i++)
		loop_turn(world.loop, 0);
	world_stop();
	request_drop(&req);
	world_start();
	for (int i = 0;; i++) {
		a = once(path, key, body);
		if (a.status != 503 || i == 100)
			break;
		answer_free(&a); /* the result is not known yet */
		world_turns(10);
	}
	expect_status(&a, 201);
	if (count_of(path) != 1)
		fail_msg("%s: %zu after %d turns", tail, count_of(path), turns);
	answer_free(&a);
	a = once(path, key, body);
	expect_status(&a, 201);
	assert_int_equal(count_of(path), 1);
	answer_free(&a);
}

static void test_processes_across_deaths(void **state)
{
	(void)state;
	for (int turns = 0; turns < 16; turns++)
		ended_after(turns, "processes", "{\"command\":\"sleep 400\"}");
}

static void test_snapshots_across_deaths(void **state)
{
	(void)state;
	for (int turns = 0; turns < 16; turns++)
		ended_after(turns, "snapshots", "{}");
}

/* An id that was noted but not used is not given to another process. */
static void test_noted_numbers_are_not_reused(void **state)
{
	struct request req;
	struct answer a;
	char path[96];

	(void)state;
	for (int turns = 0; turns < 6; turns++) {
		new_sandbox("{}");
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/processes", sandbox);
		request_send(&req, world.admin, "POST", path,
			     path_of("Idempotency-Key: n-%d\r\n", turns),
			     "{\"command\":\"sleep 400\"}");
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 0);
		world_stop();
		request_drop(&req);
		world_start();
		expect_status(call("POST", path, "{\"command\":\"sleep 500\"}"), 201);
		a = once(path, path_of("n-%d", turns), "{\"command\":\"sleep 400\"}");
		expect_status(&a, 201);
		assert_non_null(strstr(text_of(&a, "command"), "400"));
		assert_int_equal(count_of(path), 2);
		answer_free(&a);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_repeated_creations_get_one_reply),
		TEST(test_refused),
		TEST(test_of_a_sandbox),
		TEST(test_processes_across_deaths),
		TEST(test_snapshots_across_deaths),
		TEST(test_noted_numbers_are_not_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
