/* SPDX-License-Identifier: Apache-2.0 */
/* Previews through the whole daemon: access, and the errors without it. */
#include <string.h>

#include "visitor.h"

/* ---- missing targets ---- */

static void test_missing_targets(void **state)
{
	const struct answer *a;

	(void)state;
	new_world("{}");
	expect_refused("Host: 80-nosuchsandbox.cay.localhost\r\n", "", 404, "sandbox_not_found");
	expect_refused("Host: nonsense.cay.localhost\r\n", "", 404, "preview_not_found");
	expect_refused("Host: 0-x.cay.localhost\r\n", "", 404, "preview_not_found");
	expect_refused("Host: 65536-x.cay.localhost\r\n", "", 404, "preview_not_found");
	expect_refused(host_of(81), "", 404, "preview_not_found");
	expect_refused(host_of(22), "", 403, "port_refused");
	a = refused("Host: 80-nosuchsandbox.cay.localhost\r\n", "Accept: text/html,*/*\r\n");
	expect_status(a, 404);
	assert_non_null(strstr(a->head, "text/html"));
	assert_non_null(strstr(a->body, "No such sandbox"));
	assert_int_equal(dialled, 0);
}

static void test_dead(void **state)
{
	(void)state;
	new_world("{}");
	(void)served("/", "");
	fake_die(world.engine, sandbox, true);
	world_turns(20);
	expect_refused(host_of(PORT), "", 410, "sandbox_gone");
	expect_status(del(""), 204);
	expect_refused(host_of(PORT), "", 404, "sandbox_not_found");
}

static void test_closed_port(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;

	(void)state;
	new_world("{}");
	fake_unlisten(world.engine, sandbox, PORT);
	expect_refused(host_of(PORT), "", 502, "port_closed"); /* after all its tries */
	visit_send(&req, "GET", "/", "", NULL);
	world_turns(20);
	assert_false(request_ended(&req));
	listen_on(PORT); /* a server that was just starting */
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 204 No Content\r\n\r\n");
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
	peer_close(&peer);
}

static void test_paused(void **state)
{
	const struct answer *a;

	(void)state;
	new_world("{\"auto_resume\":true}");
	expect_status(post("/pause", "{\"kind\":\"freeze\"}"), 200);
	(void)served("/", "");
	assert_string_equal(text_of(get(""), "state"), "running");
	expect_status(post("/pause", "{\"kind\":\"freeze\"}"), 200);
	fake_fail_next(world.engine, FAKE_PAUSE, ERR_UNAVAILABLE);
	a = refused(host_of(PORT), "");
	expect_status(a, 503);
	assert_non_null(strstr(a->head, "Retry-After: 5"));
	(void)served("/", ""); /* the next one wakes it */
	expect_status(
		call("PATCH", path_of("/v1/sandboxes/%s", sandbox), "{\"auto_resume\":false}"),
		200);
	expect_status(post("/pause", "{\"kind\":\"freeze\"}"), 200);
	expect_refused(host_of(PORT), "", 409, "wrong_state");
	assert_true(fake_paused(world.engine, sandbox));
}

/* ---- access ---- */

static void share(int ttl_sec, char token[64])
{
	struct answer *a =
		post(path_of("/previews/%s/share", preview), path_of("{\"ttl_sec\":%d}", ttl_sec));

	expect_status(a, 201);
	(void)snprintf(token, 64, "%s", text_of(a, "token"));
}

static void test_share_tokens(void **state)
{
	char token[64], brief[64];
	const struct answer *a;
	struct request req;
	struct answer own;

	(void)state;
	new_sandbox("{}");
	listen_on(PORT);
	new_preview("{\"port\":8080,\"visibility\":\"private\"}");
	share(1, brief);
	share(3600, token);
	expect_refused(host_of(PORT), "", 401, "preview_private");
	expect_refused(host_of(PORT), "Cay-Preview-Token: cay_pv_00\r\n", 401, "preview_private");
	(void)served("/", path_of("Cay-Preview-Token: %s\r\n", token));
	(void)served("/", path_of("Cookie: a=1; cay_preview=%s; b=2\r\n", token));
	(void)served(path_of("/x?a=1&cay_token=%s&b=2", token), "");
	(void)served("/", path_of("Authorization: Bearer %s\r\n", world.admin));
	/* A browser is redirected without it. */
	visit_send(&req, "GET", path_of("/x?a=1&cay_token=%s", token), "Accept: text/html\r\n",
		   NULL);
	request_wait(&req, &own);
	expect_status(&own, 302);
	assert_non_null(strstr(own.head, "Location: /x?a=1\r\n"));
	assert_non_null(strstr(own.head, path_of("Set-Cookie: cay_preview=%s; Path=/;", token)));
	answer_free(&own);
	/* It expires one second later, and not before the other. */
	world_turns(1100);
	a = refused(host_of(PORT), path_of("Cay-Preview-Token: %s\r\n", brief));
	expect_status(a, 410);
	world_restart();
	listen_on(PORT);
	(void)served("/", path_of("Cay-Preview-Token: %s\r\n", token));
	expect_status(del(path_of("/previews/%s/share", preview)), 204);
	expect_refused(host_of(PORT), path_of("Cay-Preview-Token: %s\r\n", token), 401,
		       "preview_private");
}

static void test_guessing_is_slowed_down(void **state)
{
	int tries = 0;

	(void)state;
	new_sandbox("{}");
	listen_on(PORT);
	new_preview("{\"port\":8080,\"visibility\":\"private\"}");
	/* Thirty per minute; one that ends meanwhile starts the count again. */
	while (tries++ < 100 &&
	       refused(host_of(PORT), path_of("Cay-Preview-Token: cay_pv_%040d\r\n", tries))
			       ->status == 401)
		;
	assert_in_range(tries, 31, 61);
	expect_refused(host_of(PORT), "Cay-Preview-Token: cay_pv_x\r\n", 429, "rate_limited");
	/* Keys still count. */
	(void)served("/", path_of("Authorization: Bearer %s\r\n", world.admin));
}

static void test_keys(void **state)
{
	const char *other, *weak;

	(void)state;
	new_sandbox("{}");
	listen_on(PORT);
	other = make_key("[\"exec\"]");
	weak = make_key("[\"sandboxes:read\"]");
	/* A port without a preview is accessible only to its owner. */
	(void)served("/", path_of("X-API-Key: %s\r\n", world.admin));
	expect_refused(host_of(PORT), path_of("X-API-Key: %s\r\n", other), 404,
		       "preview_not_found");
	expect_refused(host_of(PORT), path_of("X-API-Key: %s\r\n", weak), 404, "preview_not_found");
	expect_refused(host_of(5900), path_of("X-API-Key: %s\r\n", world.admin), 403,
		       "port_refused");
}

static void test_header_routing(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;
	const char *heard;

	(void)state;
	new_world("{\"name\":\"web\"}");
	request_send(&req, NULL, "GET", "/sandboxes",
		     path_of("Cay-Sandbox-Id: %s\r\nCay-Sandbox-Port: 8080\r\n", sandbox), NULL);
	peer_take(&peer);
	heard = peer_until(&peer, "\r\n\r\n");
	assert_non_null(strstr(heard, path_of("Host: 8080-%s.cay.localhost\r\n", sandbox)));
	assert_null(strstr(heard, "Cay-Sandbox"));
	peer_say(&peer, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
	peer_close(&peer);
	expect_refused("Host: localhost\r\n", path_of("Cay-Sandbox-Id: %s\r\n", sandbox), 404,
		       "preview_not_found");
	expect_refused("Host: localhost\r\n",
		       path_of("Cay-Sandbox-Id: %s\r\nCay-Sandbox-Port: 0\r\n", sandbox), 404,
		       "preview_not_found");
	/* A name is only for requests with a key. */
	expect_refused("Host: localhost\r\n", "Cay-Sandbox-Id: web\r\nCay-Sandbox-Port: 8080\r\n",
		       404, "sandbox_not_found");
	/* A page whose name resolves to this host. */
	expect_status(refused("Host: evil.example\r\n",
			      path_of("Cay-Sandbox-Id: %s\r\nCay-Sandbox-Port: 8080\r\n", sandbox)),
		      421);
	assert_int_equal(dialled, 1);
}

static void test_credentials_stay_outside(void **state)
{
	char token[64];
	const char *heard;

	(void)state;
	new_sandbox("{}");
	listen_on(PORT);
	new_preview("{\"port\":8080,\"visibility\":\"private\"}");
	share(60, token);
	heard = served(
		path_of("/a?x=1&cay_token=%s&y=2", token),
		path_of("Authorization: Bearer %s\r\nX-API-Key: %s\r\nCay-Preview-Token: %s\r\n"
			"Cookie: cay_preview=%s; own=1\r\nE2b-Traffic-Access-Token: abc\r\n"
			"Referer: http://x/?cay_token=%s\r\nX-Forwarded-For: 6.6.6.6\r\n"
			"Forwarded: for=6.6.6.6\r\nX-Mine: stays\r\n",
			world.admin, world.admin, token, token, token));
	assert_non_null(strstr(heard, "GET /a?x=1&y=2 HTTP/1.1\r\n"));
	assert_non_null(strstr(heard, "Cookie: own=1\r\n"));
	assert_non_null(strstr(heard, "X-Mine: stays\r\n"));
	assert_null(strstr(heard, token));
	assert_null(strstr(heard, world.admin));
	assert_null(strstr(heard, "raffic"));
	assert_null(strstr(heard, "6.6.6.6"));
	/* Headers that are not ours are forwarded. */
	heard = served("/", path_of("Cay-Preview-Token: %s\r\nAuthorization: Basic eDp5\r\n"
				    "X-API-Key: theirs\r\nX-Access-Token: 0123\r\n",
				    token));
	assert_null(strstr(heard, "ccess-"));
	assert_non_null(strstr(heard, "Authorization: Basic eDp5\r\n"));
	assert_non_null(strstr(heard, "X-API-Key: theirs\r\n"));
}

static void test_every_port_of_e2b(void **state)
{
	struct request req;
	struct answer a;
	char token[80];

	(void)state;
	request_send(&req, NULL, "POST", "/v2/sandboxes",
		     path_of("X-API-KEY: e2b_%s\r\n", world.admin + 4),
		     "{\"templateID\":\"base\",\"network\":{\"allowPublicTraffic\":false}}");
	request_wait(&req, &a);
	expect_status(&a, 201);
	(void)snprintf(sandbox, sizeof(sandbox), "%s", text_of(&a, "sandboxID"));
	(void)snprintf(token, sizeof(token), "%s", text_of(&a, "trafficAccessToken"));
	answer_free(&a);
	listen_on(PORT);
	expect_status(refused(host_of(PORT), ""), 403);
	assert_int_equal(int_of(refused(host_of(PORT), ""), "code"), 403);
	expect_status(
		refused(host_of(PORT), path_of("e2b-traffic-access-token: x%s\r\n", token + 1)),
		403);
	(void)served("/", path_of("E2b-Traffic-Access-Token: %s\r\n", token));
	expect_status(refused(host_of(22), path_of("E2b-Traffic-Access-Token: %s\r\n", token)),
		      403);
	/* Its own ports are not previews, whatever the host. */
	expect_status(refused(host_of(49983), path_of("E2b-Traffic-Access-Token: %s\r\n", token)),
		      401);
	/* And a preview's host gives no access to them. */
	expect_status(
		refused(host_of(PORT),
			path_of("E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n", sandbox)),
		403);
	expect_status(del(""), 204);
	expect_status(refused(host_of(PORT), ""), 502);
	assert_string_equal(text_of(refused(host_of(PORT), ""), "message"),
			    "The sandbox was not found");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, preview_setup, preview_teardown)
	const struct CMUnitTest tests[] = {
		T(test_missing_targets),
		T(test_dead),
		T(test_closed_port),
		T(test_paused),
		T(test_share_tokens),
		T(test_guessing_is_slowed_down),
		T(test_keys),
		T(test_header_routing),
		T(test_credentials_stay_outside),
		T(test_every_port_of_e2b),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
