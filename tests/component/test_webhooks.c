/* SPDX-License-Identifier: Apache-2.0 */
/* Webhooks: deliveries, their order and number, and failures of the receiver. */
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/value/poster.h"
#include "world.h"

/* ---- a scripted poster ---- */

struct sent {
	uint64_t handle;
	char url[256], id[32], event[32], type[64], attempt[16], timestamp[32], signature[80];
	char body[4096];
	poster_fn done;
	void *arg;
};
static struct sent sent[16]; /* in progress, oldest first */
static size_t sent_count;
static uint64_t handles;
static unsigned cancels;

static int check(struct poster *poster, struct str url)
{
	(void)poster;
	return str_starts(url, "http") ? 0 : -EINVAL;
}

static int post(struct poster *poster, const struct poster_request *r, poster_fn done, void *arg,
		uint64_t *ret)
{
	struct sent *s = &sent[sent_count];
	static const struct {
		const char *name;
		size_t offset;
	} kept[] = { { "Cay-Webhook-Id", offsetof(struct sent, id) },
		     { "Cay-Event-Id", offsetof(struct sent, event) },
		     { "Cay-Event-Type", offsetof(struct sent, type) },
		     { "Cay-Attempt", offsetof(struct sent, attempt) },
		     { "Cay-Timestamp", offsetof(struct sent, timestamp) },
		     { "Cay-Signature", offsetof(struct sent, signature) } };

	(void)poster;
	assert_true(sent_count < ARRAY_LEN(sent));
	*s = (struct sent){ .handle = ++handles, .done = done, .arg = arg };
	(void)snprintf(s->url, sizeof(s->url), "%s", r->url);
	assert_int_equal(r->header_count, ARRAY_LEN(kept));
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		assert_string_equal(r->headers[i].name, kept[i].name);
		(void)strcpy((char *)s + kept[i].offset, r->headers[i].value);
	}
	assert_true(r->body.n < sizeof(s->body));
	memcpy(s->body, r->body.p, r->body.n);
	*ret = s->handle;
	sent_count++;
	return 0;
}

static void take_sent(size_t index)
{
	memmove(&sent[index], &sent[index + 1], (sent_count - index - 1) * sizeof(sent[0]));
	sent_count--;
}

static void cancel(struct poster *poster, uint64_t handle)
{
	(void)poster;
	for (size_t i = 0; i < sent_count; i++)
		if (sent[i].handle == handle) {
			take_sent(i);
			cancels++;
			return;
		}
}
static struct poster poster = { check, post, cancel };

static void wait_sent(size_t count)
{
	for (int i = 0; i < 2500 && sent_count < count; i++)
		world_turns(2);
	assert_int_equal(sent_count, count);
}

static struct sent answer_with(int status)
{
	struct sent s;

	wait_sent(1);
	s = sent[0];
	take_sent(0);
	s.done(s.arg, status, status ? 0 : -ECONNREFUSED);
	return s;
}

/* ---- life ---- */

static int setup(void **state)
{
	(void)state;
	sent_count = 0;
	cancels = 0;
	world_prepare();
	world.config.poster = &poster;
	world.config.webhook_attempts = 3;
	world.config.webhook_retry_ms = 10;
	world.config.webhooks_per_key = 3;
	world_start();
	return 0;
}

static char hook[64], secret[160];

static void new_hook(const char *body)
{
	const struct answer *a = call("POST", "/v1/webhooks", body);

	expect_status(a, 201);
	(void)snprintf(hook, sizeof(hook), "/v1/webhooks/%s", text_of(a, "id"));
	(void)snprintf(secret, sizeof(secret), "%s", text_of(a, "secret"));
}

static struct answer *look(void)
{
	return call("GET", hook, NULL);
}

static size_t dead_count(void)
{
	const struct answer *a = call("GET", path_of("%s/deliveries?state=dead", hook), NULL);

	expect_status(a, 200);
	return json_size(member(a->doc, "data"));
}

static void test_signed(void **state)
{
	crypto_auth_hmacsha256_state hmac;
	uint8_t mac[32];
	char hex[65];
	struct sent s;

	(void)state;
	new_hook("{\"url\":\"http://here/x\",\"events\":[\"sandbox\"]}");
	assert_memory_equal(secret, "whsec_", 6);
	assert_null(strstr(look()->body, secret)); /* shown once */
	(void)make("{\"name\":\"n\"}");
	s = answer_with(200);
	assert_string_equal(s.url, "http://here/x");
	assert_string_equal(s.type, "sandbox.provisioning");
	assert_string_equal(s.attempt, "1");
	assert_non_null(strstr(s.body, path_of("\"id\":%s,", s.event)));
	crypto_auth_hmacsha256_init(&hmac, (const uint8_t *)secret, strlen(secret));
	crypto_auth_hmacsha256_update(&hmac, (const uint8_t *)s.timestamp, strlen(s.timestamp));
	crypto_auth_hmacsha256_update(&hmac, (const uint8_t *)".", 1);
	crypto_auth_hmacsha256_update(&hmac, (const uint8_t *)s.body, strlen(s.body));
	crypto_auth_hmacsha256_final(&hmac, mac);
	str_hex(hex, mac, sizeof(mac));
	assert_string_equal(s.signature, path_of("v1=%s", hex));
	s = answer_with(204);
	assert_string_equal(s.type, "sandbox.running");
	assert_non_null(strstr(s.body, "\"name\":\"n\""));
}

/* One at a time, and the order is kept whatever the results of the first attempts. */
static void test_order(void **state)
{
	int64_t last = 0;

	(void)state;
	new_hook("{\"url\":\"http://here/\",\"events\":[\"sandbox.running\"]}");
	for (int i = 0; i < 4; i++)
		(void)make("{}");
	for (int i = 0; i < 8; i++) {
		struct sent s;
		int64_t id;

		wait_sent(1);
		world_turns(5);
		assert_int_equal(sent_count, 1);
		s = answer_with(i % 2 ? 200 : 500);
		id = strtoll(s.event, NULL, 10);
		assert_int_equal(id == last, i % 2);
		assert_true(id >= last);
		assert_string_equal(s.attempt, i % 2 ? "2" : "1");
		last = id;
	}
	world_turns(20);
	assert_int_equal(sent_count, 0);
	assert_int_equal(int_of(look(), "cursor"), last);
}

static void test_dead_letters(void **state)
{
	struct answer *a;
	const struct json *row;
	char event[32];

	(void)state;
	new_hook("{\"url\":\"http://here/\",\"events\":[\"sandbox.running\"]}");
	(void)make("{}");
	(void)make("{}");
	(void)answer_with(500);
	a = call("GET", path_of("%s/deliveries?state=pending", hook), NULL);
	assert_int_equal(json_int(member(json_at(member(a->doc, "data"), 0), "attempts")), 1);
	(void)answer_with(0);
	(void)snprintf(event, sizeof(event), "%s", answer_with(404).event);
	/* Given up: the next one follows. */
	assert_string_not_equal(answer_with(200).event, event);
	a = call("GET", path_of("%s/deliveries?state=dead", hook), NULL);
	expect_status(a, 200);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	row = json_at(member(a->doc, "data"), 0);
	assert_int_equal(json_int(member(row, "event_id")), strtoll(event, NULL, 10));
	assert_int_equal(json_int(member(row, "attempts")), 3);
	assert_int_equal(json_int(member(row, "status")), 404);
	assert_string_equal(json_str(member(row, "type")).p, "sandbox.running");
	world_restart();
	assert_int_equal(int_of(look(), "dead"), 1);
	/* Manual redelivery: if it fails it stays, if it succeeds it is removed. */
	for (int i = 0; i < 2; i++) {
		struct request req;
		struct answer got;

		request_send(&req, world.admin, "POST",
			     path_of("%s/deliveries/%s/redeliver", hook, event), NULL, "{}");
		assert_string_equal(answer_with(i ? 200 : 503).event, event);
		request_wait(&req, &got);
		expect_status(&got, 200);
		assert_non_null(strstr(got.body, i ? "\"delivered\":true" : "\"delivered\":false"));
		answer_free(&got);
		assert_int_equal(dead_count(), 1 - (size_t)i);
	}
	expect_status(call("POST", path_of("%s/deliveries/%s/redeliver", hook, event), "{}"), 404);
	expect_status(call("POST", path_of("%s/deliveries/x/redeliver", hook), "{}"), 404);
}

/* Deliveries without a result when the daemon ended are repeated; none is skipped. */
static void test_restart(void **state)
{
	char first[32];

	(void)state;
	new_hook("{\"url\":\"http://here/\",\"events\":[\"sandbox.running\"]}");
	for (int i = 0; i < 3; i++)
		(void)make("{}");
	(void)answer_with(200);
	wait_sent(1);
	(void)snprintf(first, sizeof(first), "%s", sent[0].event);
	world_stop();
	assert_int_equal(sent_count, 0);
	assert_int_equal(cancels, 1);
	world_start();
	assert_string_equal(answer_with(200).event, first);
	assert_true(strtoll(answer_with(200).event, NULL, 10) > strtoll(first, NULL, 10));
	world_turns(20);
	assert_int_equal(sent_count, 0);
	world_restart();
	world_turns(30);
	assert_int_equal(sent_count, 0);
}

static void test_test_delivery(void **state)
{
	struct request req, more;
	struct answer got;
	struct sent s;

	(void)state;
	new_hook("{\"url\":\"http://here/\"}");
	request_send(&req, world.admin, "POST", path_of("%s/test", hook), NULL, "{}");
	wait_sent(1);
	request_send(&more, world.admin, "POST", path_of("%s/test", hook), NULL, "{}");
	request_wait(&more, &got);
	expect_status(&got, 429);
	answer_free(&got);
	s = answer_with(302);
	assert_string_equal(s.type, "webhook.test");
	assert_non_null(strstr(s.body, "\"sandbox_id\":null"));
	request_wait(&req, &got);
	expect_status(&got, 200);
	assert_non_null(strstr(got.body, "\"delivered\":false"));
	assert_non_null(strstr(got.body, "redirects are not followed"));
	answer_free(&got);
	/* A test whose webhook is removed is answered, too. */
	request_send(&req, world.admin, "POST", path_of("%s/test", hook), NULL, "{}");
	wait_sent(1);
	expect_status(call("DELETE", hook, NULL), 204);
	request_wait(&req, &got);
	expect_status(&got, 409);
	answer_free(&got);
	assert_int_equal(sent_count, 0);
	expect_status(look(), 404);
}

static void test_changes(void **state)
{
	struct answer *a;

	(void)state;
	new_hook("{\"url\":\"http://one/\",\"events\":[\"sandbox.running\"],"
		 "\"secret\":\"0123456789abcdef\"}");
	assert_string_equal(secret, "0123456789abcdef");
	expect_status(call("PATCH", hook, "{\"enabled\":false}"), 200);
	(void)make("{}");
	world_turns(50);
	assert_int_equal(sent_count, 0);
	/* When enabled again, it continues where it was. */
	a = call("PATCH", hook,
		 "{\"enabled\":true,\"url\":\"https://two/\",\"description\":\"d\"}");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "description"), "d");
	assert_string_equal(answer_with(200).url, "https://two/");
	expect_status(call("PATCH", hook, "{\"events\":[\"snapshot\"]}"), 200);
	(void)make("{}");
	world_turns(50);
	assert_int_equal(sent_count, 0);
	world_restart();
	a = look();
	assert_string_equal(text_of(a, "url"), "https://two/");
	assert_string_equal(text_of(a, "description"), "d");
	assert_non_null(strstr(a->body, "\"events\":[\"snapshot\"]"));
	/* An invalid change is rejected, and nothing of it is kept. */
	expect_status(call("PATCH", hook, "{\"url\":\"http://three/\",\"events\":[\"nothing\"]}"),
		      400);
	expect_status(call("PATCH", hook, "{\"url\":\"ftp://x/\"}"), 400);
	expect_status(call("PATCH", hook, "{\"secret\":\"short\"}"), 400);
	expect_status(call("PATCH", hook, "{\"colour\":1}"), 400);
	expect_status(call("POST", "/v1/webhooks", "{}"), 400);
	expect_status(call("POST", "/v1/webhooks", "{\"url\":\"gopher://x\"}"), 400);
	assert_string_equal(text_of(look(), "url"), "https://two/");
}

static void test_owners(void **state)
{
	char one[64], two[64], theirs[64];
	struct answer *a;

	(void)state;
	(void)snprintf(one, sizeof(one), "%s",
		       make_key("[\"webhooks\",\"sandboxes:write\",\"sandboxes:read\"]"));
	(void)snprintf(two, sizeof(two), "%s", make_key("[\"webhooks\",\"sandboxes:write\"]"));
	a = call_as(one, "POST", "/v1/webhooks",
		    "{\"url\":\"http://one/\",\"events\":[\"sandbox.running\"]}");
	expect_status(a, 201);
	(void)snprintf(theirs, sizeof(theirs), "/v1/webhooks/%s", text_of(a, "id"));
	expect_status(call_as(two, "GET", theirs, NULL), 404);
	expect_status(call_as(two, "DELETE", theirs, NULL), 404);
	expect_status(call_as(two, "POST", path_of("%s/test", theirs), "{}"), 404);
	expect_status(call("GET", theirs, NULL), 200);
	/* A webhook gets only events of its key's sandboxes, an admin's of all. */
	expect_status(call_as(two, "POST", "/v1/sandboxes", "{}"), 201);
	world_turns(50);
	assert_int_equal(sent_count, 0);
	expect_status(call_as(one, "POST", "/v1/sandboxes", "{}"), 201);
	assert_string_equal(answer_with(200).url, "http://one/");
	new_hook("{\"url\":\"http://all/\",\"events\":[\"sandbox.running\"],"
		 "\"external_workspace_id\":\"w\"}");
	expect_status(call_as(two, "POST", "/v1/sandboxes", "{}"), 201);
	expect_status(call_as(two, "POST", "/v1/sandboxes", "{\"external_workspace_id\":\"w\"}"),
		      201);
	assert_non_null(strstr(answer_with(200).body, "\"external_workspace_id\":\"w\""));
	/* The limit per key; they are removed with it. */
	for (int i = 1; i < 4; i++)
		expect_status(call_as(one, "POST", "/v1/webhooks", "{\"url\":\"http://x/\"}"),
			      i < 3 ? 201 : 429);
	a = call_as(one, "GET", "/v1/webhooks?limit=2", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 2);
	a = call_as(one, "GET",
		    path_of("/v1/webhooks?limit=2&cursor=%s", text_of(a, "next_cursor")), NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	a = call_as(one, "GET", "/v1/keys/self", NULL);
	expect_status(call("DELETE", path_of("/v1/keys/%s", text_of(a, "id")), NULL), 204);
	expect_status(call("GET", theirs, NULL), 404);
	a = call("GET", "/v1/webhooks", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
}

static void test_disabled(void **state)
{
	struct answer *a;

	(void)state;
	world_stop();
	world.config.webhook_disable_sec = 1;
	world.config.webhook_attempts = 50;
	world_start();
	new_hook("{\"url\":\"http://down/\",\"events\":[\"sandbox.running\"]}");
	(void)make("{}");
	for (int i = 0; i < 50 && strstr(look()->body, "\"enabled\":true"); i++) {
		(void)answer_with(0);
		for (int k = 0; k < 500 && !sent_count; k++) {
			world_turns(2);
			if (strstr(look()->body, "\"enabled\":false"))
				break;
		}
	}
	a = look();
	assert_non_null(strstr(a->body, "\"enabled\":false"));
	assert_non_null(strstr(text_of(a, "disabled_reason"), "refused"));
	a = call("GET", "/v1/events?format=json&type=webhook", NULL);
	assert_non_null(strstr(a->body, "webhook.disabled"));
	assert_non_null(strstr(a->body, "http://down/"));
	/* Undelivered events wait until it is enabled again. */
	expect_status(call("PATCH", hook, "{\"enabled\":true}"), 200);
	assert_string_equal(answer_with(200).type, "sandbox.running");
}

/* All share a few parallel deliveries, and each gets its turn. */
static void test_line(void **state)
{
	bool seen[3] = { false };

	(void)state;
	world_stop();
	world.config.webhooks_at_once = 1;
	world_start();
	for (int i = 0; i < 3; i++)
		new_hook(path_of("{\"url\":\"http://h%d/\",\"events\":[\"sandbox.running\"]}", i));
	(void)make("{}");
	for (int i = 0; i < 3; i++) {
		wait_sent(1);
		world_turns(5);
		assert_int_equal(sent_count, 1);
		seen[answer_with(200).url[8] - '0'] = true;
	}
	assert_true(seen[0] && seen[1] && seen[2]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_signed),  TEST(test_order),	      TEST(test_dead_letters),
		TEST(test_restart), TEST(test_test_delivery), TEST(test_changes),
		TEST(test_owners),  TEST(test_disabled),      TEST(test_line),
	};

	return cmocka_run_group_tests_name("webhooks", tests, NULL, NULL);
}
