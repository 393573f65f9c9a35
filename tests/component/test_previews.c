/* SPDX-License-Identifier: Apache-2.0 */
/* Previews through the whole daemon: who gets through, what goes on, and what is told instead. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "inside.h"

#define PORT 8080

/* ---- a server inside, played by the test ---- */

static int waiting[64]; /* connections that were dialled and not taken yet */
static size_t waiting_count, dialled;

static void on_dialled(void *arg, int fd)
{
	(void)arg;
	assert_true(waiting_count < ARRAY_LEN(waiting));
	waiting[waiting_count++] = fd;
	dialled++;
}

static int setup(void **state)
{
	waiting_count = dialled = 0;
	return world_setup(state);
}

static int teardown(void **state)
{
	while (waiting_count)
		(void)close(waiting[--waiting_count]);
	return world_teardown(state);
}

static void listen_on(uint16_t port)
{
	fake_listen(world.engine, sandbox, port, on_dialled, NULL);
}

/* One connection as the server has it. */
struct peer {
	int fd;
	char text[65536];
	size_t n;
	bool ended;
};

static void turn_until(bool (*look)(void *arg), void *arg, const char *what)
{
	int64_t end_us = time_mono_us() + 5000000;

	while (!look(arg)) {
		if (time_mono_us() > end_us)
			fail_msg("not within 5 s: %s", what);
		loop_turn(world.loop, 5);
	}
}

static bool is_dialled(void *arg)
{
	(void)arg;
	return waiting_count > 0;
}

static void peer_take(struct peer *peer)
{
	turn_until(is_dialled, NULL, "a connection");
	*peer = (struct peer){ .fd = waiting[0] };
	memmove(waiting, waiting + 1, --waiting_count * sizeof(waiting[0]));
}

static bool peer_read(struct peer *peer)
{
	ssize_t n = recv(peer->fd, peer->text + peer->n, sizeof(peer->text) - 1 - peer->n,
			 MSG_DONTWAIT);

	if (n > 0)
		peer->n += (size_t)n;
	else if (n == 0 || errno != EAGAIN)
		peer->ended = true;
	peer->text[peer->n] = '\0';
	return n > 0;
}

/* Until the text has come; then everything up to its end is forgotten by the next call. */
static const char *peer_until(struct peer *peer, const char *text)
{
	static char before[65536];
	int64_t end_us = time_mono_us() + 5000000;
	char *at;

	while (!(at = strstr(peer->text, text))) {
		if (peer->ended || time_mono_us() > end_us)
			fail_msg("no '%s' in: %s", text, peer->text);
		if (!peer_read(peer))
			loop_turn(world.loop, 5);
	}
	at += strlen(text);
	(void)snprintf(before, sizeof(before), "%.*s", (int)(at - peer->text), peer->text);
	peer->n -= (size_t)(at - peer->text);
	memmove(peer->text, at, peer->n + 1);
	return before;
}

static bool peer_ended(void *arg)
{
	struct peer *peer = arg;

	while (peer_read(peer))
		;
	return peer->ended;
}

static void peer_say(struct peer *peer, const char *text)
{
	assert_int_equal(send(peer->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void peer_close(struct peer *peer)
{
	(void)close(peer->fd);
}

/* ---- visitors ---- */

static char preview[32]; /* its id */

static void new_preview(const char *body)
{
	struct answer *a = post("/previews", body);

	expect_status(a, 201);
	(void)snprintf(preview, sizeof(preview), "%s", text_of(a, "id"));
}

static const char *host_of(uint16_t port)
{
	return path_of("Host: %u-%s.cay.localhost\r\n", port, sandbox);
}

static void visit_send(struct request *req, const char *method, const char *path, const char *more,
		       const char *body)
{
	request_send(req, NULL, method, path, path_of("%s%s", host_of(PORT), more), body);
}

/* A visit that ends without a server. */
static struct answer *refused(const char *host, const char *more)
{
	static struct answer last;
	struct request req;

	answer_free(&last);
	request_send(&req, NULL, "GET", "/", path_of("%s%s", host, more), NULL);
	request_wait(&req, &last);
	return &last;
}

#define expect_refused(host, more, wanted, code)                 \
	do {                                                     \
		const struct answer *got_ = refused(host, more); \
		expect_status(got_, wanted);                     \
		assert_string_equal(error_code(got_), code);     \
	} while (0)

/* A visit that a new connection of the server answers with 200; what the server heard. */
static const char *served(const char *path, const char *more)
{
	static char heard[65536];
	struct request req;
	struct answer a;
	struct peer peer;

	visit_send(&req, "GET", path, more, NULL);
	peer_take(&peer);
	(void)snprintf(heard, sizeof(heard), "%s", peer_until(&peer, "\r\n\r\n"));
	peer_say(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
	request_wait(&req, &a);
	peer_close(&peer);
	expect_status(&a, 200);
	assert_string_equal(a.body, "ok");
	answer_free(&a);
	return heard;
}

static int64_t figure(const char *name)
{
	return int_of(get(path_of("/previews/%s", preview)), name);
}

static void new_world(const char *body)
{
	new_sandbox(body);
	listen_on(PORT);
	new_preview("{\"port\":8080}");
}

/* ---- what is not there ---- */

static void test_not_there(void **state)
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

/* ---- who gets through ---- */

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
	/* A browser is sent on without it. */
	visit_send(&req, "GET", path_of("/x?a=1&cay_token=%s", token), "Accept: text/html\r\n",
		   NULL);
	request_wait(&req, &own);
	expect_status(&own, 302);
	assert_non_null(strstr(own.head, "Location: /x?a=1\r\n"));
	assert_non_null(strstr(own.head, path_of("Set-Cookie: cay_preview=%s; Path=/;", token)));
	answer_free(&own);
	/* At its end one second later, and not before the other's. */
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
	/* Thirty in a minute; one that ends meanwhile begins the count again. */
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
	/* A port without a preview is its owner's. */
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
	/* A name is for who has a key. */
	expect_refused("Host: localhost\r\n", "Cay-Sandbox-Id: web\r\nCay-Sandbox-Port: 8080\r\n",
		       404, "sandbox_not_found");
	/* A page whose name leads here. */
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
	/* What is not ours goes on. */
	heard = served("/", path_of("Cay-Preview-Token: %s\r\nAuthorization: Basic eDp5\r\n"
				    "X-API-Key: theirs\r\n",
				    token));
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
	/* Its own ports are no previews, whatever the host. */
	expect_status(refused(host_of(49983), path_of("E2b-Traffic-Access-Token: %s\r\n", token)),
		      401);
	/* And a preview's host is no door to them. */
	expect_status(
		refused(host_of(PORT),
			path_of("E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n", sandbox)),
		403);
	expect_status(del(""), 204);
	expect_status(refused(host_of(PORT), ""), 502);
	assert_string_equal(text_of(refused(host_of(PORT), ""), "message"),
			    "The sandbox was not found");
}

/* ---- what goes on ---- */

static void test_counters_and_kept_connections(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;

	(void)state;
	new_world("{}");
	visit_send(&req, "POST", "/up", "", "0123456789");
	peer_take(&peer);
	assert_non_null(strstr(peer_until(&peer, "\r\n\r\n"), "Content-Length: 10\r\n"));
	(void)peer_until(&peer, "0123456789");
	assert_int_equal(figure("open"), 1);
	peer_say(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
	request_wait(&req, &a);
	assert_string_equal(a.body, "hello");
	answer_free(&a);
	visit_send(&req, "GET", "/again", "", NULL); /* on the same connection */
	(void)peer_until(&peer, "GET /again HTTP/1.1\r\n");
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
	request_wait(&req, &a);
	answer_free(&a);
	assert_int_equal(dialled, 1);
	assert_int_equal(figure("requests"), 2);
	assert_int_equal(figure("connections"), 1);
	assert_int_equal(figure("bytes_in"), 10);
	assert_int_equal(figure("bytes_out"), 8);
	assert_int_equal(figure("open"), 0);
	/* A kept one that the server closed meanwhile: asked once more, on a new one. */
	peer_close(&peer);
	visit_send(&req, "GET", "/third", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "GET /third");
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
	peer_close(&peer);
}

static void test_trailers(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;

	(void)state;
	new_world("{}");
	request_open(&req);
	request_write(&req,
		      str_of(path_of("POST / HTTP/1.1\r\n%sTE: trailers\r\n"
				     "Connection: close, TE\r\nTransfer-Encoding: chunked\r\n\r\n"
				     "3\r\nabc\r\n0\r\nX-One: 1\r\nX-Forwarded-For: 6.6.6.6\r\n"
				     "X-Two: 2\r\n\r\n",
				     host_of(PORT))));
	peer_take(&peer);
	assert_non_null(strstr(peer_until(&peer, "\r\n\r\n"), "TE: trailers\r\n"));
	assert_string_equal(peer_until(&peer, "X-Two: 2\r\n\r\n"),
			    "3\r\nabc\r\n0\r\nX-One: 1\r\nX-Two: 2\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
			"2\r\nok\r\n0\r\nX-Sum: 42\r\nSet-Cookie: a=1\r\nX-More: 43\r\n\r\n");
	request_wait(&req, &a);
	assert_non_null(strstr(a.body, "ok"));
	answer_free(&a);
	peer_close(&peer);
}

static void test_answer_trailers(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	new_world("{}");
	request_open(&req);
	request_write(&req, str_of(path_of("GET / HTTP/1.1\r\n%sTE: trailers\r\n"
					   "Connection: close, TE\r\n\r\n",
					   host_of(PORT))));
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
			"X-Sum: 42\r\nSet-Cookie: a=1\r\nX-More: 43\r\n\r\n");
	(void)request_until(&req, "2\r\nok\r\n0\r\nX-Sum: 42\r\nX-More: 43\r\n\r\n");
	request_drop(&req);
	peer_close(&peer);
}

static void test_expect_continue(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;

	(void)state;
	new_world("{}");
	request_open(&req);
	request_write(&req, str_of(path_of("POST / HTTP/1.1\r\n%sExpect: 100-continue\r\n"
					   "Connection: close\r\nContent-Length: 4\r\n\r\n",
					   host_of(PORT))));
	peer_take(&peer);
	assert_non_null(strstr(peer_until(&peer, "\r\n\r\n"), "Expect: 100-continue\r\n"));
	world_turns(20);
	assert_false(request_ended(&req));
	assert_int_equal(req.n, 0); /* the server's word, not ours */
	peer_say(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
	(void)request_until(&req, "HTTP/1.1 100 Continue\r\n\r\n");
	request_write(&req, STR_LIT("body"));
	(void)peer_until(&peer, "body");
	peer_say(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	(void)request_until(&req, "HTTP/1.1 200 OK");
	request_drop(&req);
	peer_close(&peer);
	/* A server that says no is heard before a byte of the body is sent. */
	request_open(&req);
	request_write(&req, str_of(path_of("POST / HTTP/1.1\r\n%sExpect: 100-continue\r\n"
					   "Connection: close\r\nContent-Length: 4\r\n\r\n",
					   host_of(PORT))));
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	request_wait(&req, &a);
	expect_status(&a, 413);
	answer_free(&a);
	peer_close(&peer);
}

static void upgrade_send(struct request *req)
{
	request_open(req);
	request_write(req, str_of(path_of("GET /ws HTTP/1.1\r\n%sConnection: Upgrade\r\n"
					  "Upgrade: custom/1\r\n\r\n",
					  host_of(PORT))));
}

static void test_upgrade(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	new_world("{}");
	upgrade_send(&req);
	peer_take(&peer);
	assert_non_null(strstr(peer_until(&peer, "\r\n\r\n"), "Upgrade: custom/1\r\n"));
	peer_say(&peer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: custom/1\r\n"
			"Connection: upgrade\r\n\r\nfirst");
	(void)request_until(&req, "HTTP/1.1 101 ");
	(void)request_until(&req, "first");
	request_write(&req, STR_LIT("ping"));
	(void)peer_until(&peer, "ping");
	peer_say(&peer, "pong");
	(void)request_until(&req, "pong");
	assert_int_equal(figure("open"), 1);
	(void)close(req.fd);
	turn_until(peer_ended, &peer, "the end is passed on");
	free(req.bytes);
	peer_close(&peer);
	world_turns(20);
	assert_int_equal(figure("open"), 0);
	assert_int_equal(figure("bytes_in"), 4);
	assert_int_equal(figure("bytes_out"), 9);
}

static void test_upgrade_refused(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	new_world("{}");
	upgrade_send(&req);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
	(void)request_until(&req, "HTTP/1.1 403 ");
	(void)request_until(&req, "\r\n\r\nno");
	request_drop(&req);
	peer_close(&peer);
	world_turns(20);
	/* Nobody asked for another protocol: whoever speaks one is not believed. */
	visit_send(&req, "GET", "/", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"
			"Connection: upgrade\r\n\r\nraw");
	(void)request_until(&req, "HTTP/1.1 502 ");
	(void)request_until(&req, "upstream_failed");
	request_drop(&req);
	peer_close(&peer);
}

static void test_stalled_client(void **state)
{
	static char block[65536];
	size_t taken = 0, all = 64U << 20;
	struct request req;
	struct peer peer;

	(void)state;
	new_world("{}");
	visit_send(&req, "GET", "/", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, path_of("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", all));
	/* Until nothing moves any more. */
	for (int quiet = 0; quiet < 100 && taken < all; quiet++) {
		ssize_t n = send(peer.fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			taken += (size_t)n;
			quiet = 0;
		}
		loop_turn(world.loop, 1);
	}
	/* Its own watermark, and what the kernel holds of two connections. */
	assert_true(taken < 2U << 20);
	assert_true(taken > 256U << 10);
	request_drop(&req);
	turn_until(peer_ended, &peer, "the server learns that its client has gone");
	peer_close(&peer);
}

/* A client that goes, a sandbox that ends, a daemon that stops: in the middle of it. */
static void test_ends_under_way(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	new_world("{}");
	visit_send(&req, "GET", "/", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	request_drop(&req);
	turn_until(peer_ended, &peer, "the client has gone");
	peer_close(&peer);
	visit_send(&req, "GET", "/", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_close(&peer);
	(void)request_until(&req, "upstream_failed");
	request_drop(&req);
	fake_unlisten(world.engine, sandbox, PORT);
	visit_send(&req, "GET", "/", "", NULL); /* waits for the port */
	world_turns(10);
	expect_status(del(""), 204);
	(void)request_until(&req, "HTTP/1.1 ");
	request_drop(&req);
	new_world("{}");
	visit_send(&req, "GET", "/", "", NULL);
	peer_take(&peer);
	(void)peer_until(&peer, "\r\n\r\n");
	world_stop();
	request_drop(&req);
	peer_close(&peer);
}

static void test_ports(void **state)
{
	const struct answer *a;
	const struct json *row;

	(void)state;
	new_sandbox("{}");
	listen_on(3000);
	world_turns(20);
	a = get("/ports");
	expect_status(a, 200);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	row = json_at(member(a->doc, "data"), 0);
	assert_int_equal(json_int(member(row, "port")), 3000);
	assert_true(str_is(json_str(member(row, "address")), "127.0.0.1"));
	fake_unlisten(world.engine, sandbox, 3000);
	world_turns(50);
	a = get("/events?format=json&type=port");
	expect_status(a, 200);
	assert_non_null(strstr(a->body, "port.opened"));
	assert_non_null(strstr(a->body, "port.closed"));
	assert_int_equal(json_size(member(get("/ports")->doc, "data")), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_not_there),
		T(test_dead),
		T(test_closed_port),
		T(test_paused),
		T(test_share_tokens),
		T(test_guessing_is_slowed_down),
		T(test_keys),
		T(test_header_routing),
		T(test_credentials_stay_outside),
		T(test_every_port_of_e2b),
		T(test_counters_and_kept_connections),
		T(test_trailers),
		T(test_answer_trailers),
		T(test_expect_continue),
		T(test_upgrade),
		T(test_upgrade_refused),
		T(test_stalled_client),
		T(test_ends_under_way),
		T(test_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
