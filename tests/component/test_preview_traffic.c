/* SPDX-License-Identifier: Apache-2.0 */
/* Previews through the whole daemon: traffic in both directions, and how it ends. */
#include <string.h>
#include <sys/socket.h>

#include "face/preview/visit.h"
#include "visitor.h"

/* A raw request, with our Host after its first line, and its connection. */
static void visit_raw(struct request *req, struct peer *peer, const char *line, const char *rest)
{
	request_open(req);
	request_write(req, str_of(path_of("%s%s%s", line, host_of(PORT), rest)));
	peer_take(peer);
}

/* A visit whose head the server has received. */
static void visit_begin(struct request *req, struct peer *peer)
{
	visit_send(req, "GET", "/", "", NULL);
	peer_take(peer);
	(void)peer_until(peer, "\r\n\r\n");
}

static int setup_world(void **state)
{
	int r = preview_setup(state);

	new_world("{}");
	return r;
}

/* The linker sends every call of address_find() here. */
enum address_kind __real_address_find(const char *domain, const struct http_req *req,
				      struct address *ret);
enum address_kind __wrap_address_find(const char *domain, const struct http_req *req,
				      struct address *ret);
static unsigned lookups;

enum address_kind __wrap_address_find(const char *domain, const struct http_req *req,
				      struct address *ret)
{
	lookups++;
	return __real_address_find(domain, req, ret);
}

static void test_address_is_looked_up_once(void **state)
{
	(void)state;
	lookups = 0;
	(void)served("/", "");
	assert_int_equal(lookups, 1);
	(void)served("/", "");
	assert_int_equal(lookups, 2);
	/* Also of a request that is refused. */
	expect_refused(host_of(PORT + 1), "", 404, "preview_not_found");
	assert_int_equal(lookups, 3);
}

static void test_counters_and_kept_connections(void **state)
{
	struct request req;
	struct answer a;
	struct peer peer;

	(void)state;
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
	/*
	 * A kept connection that the server closed meanwhile: the request is repeated on a new one.
	 */
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
	visit_raw(&req, &peer, "POST / HTTP/1.1\r\n",
		  "TE: trailers\r\n"
		  "Connection: close, TE\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "3\r\nabc\r\n0\r\nX-One: 1\r\nX-Forwarded-For: 6.6.6.6\r\n"
		  "X-Two: 2\r\n\r\n");
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
	visit_raw(&req, &peer, "GET / HTTP/1.1\r\n",
		  "TE: trailers\r\n"
		  "Connection: close, TE\r\n\r\n");
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
	visit_raw(&req, &peer, "POST / HTTP/1.1\r\n",
		  "Expect: 100-continue\r\n"
		  "Connection: close\r\nContent-Length: 4\r\n\r\n");
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
	/* A refusal of the server is received before a byte of the body is sent. */
	visit_raw(&req, &peer, "POST / HTTP/1.1\r\n",
		  "Expect: 100-continue\r\n"
		  "Connection: close\r\nContent-Length: 4\r\n\r\n");
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	request_wait(&req, &a);
	expect_status(&a, 413);
	answer_free(&a);
	peer_close(&peer);
}

static void upgrade_send(struct request *req, struct peer *peer)
{
	visit_raw(req, peer, "GET /ws HTTP/1.1\r\n",
		  "Connection: Upgrade\r\nUpgrade: custom/1\r\n\r\n");
}

static void test_upgrade(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	upgrade_send(&req, &peer);
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
	upgrade_send(&req, &peer);
	(void)peer_until(&peer, "\r\n\r\n");
	peer_say(&peer, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
	(void)request_until(&req, "HTTP/1.1 403 ");
	(void)request_until(&req, "\r\n\r\nno");
	request_drop(&req);
	peer_close(&peer);
	world_turns(20);
	/* No other protocol was requested: a server that switches is not trusted. */
	visit_begin(&req, &peer);
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
	visit_begin(&req, &peer);
	peer_say(&peer, path_of("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", all));
	/* Until there is no more progress. */
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

/*
 * A client that disconnects, a sandbox that ends, a daemon that stops: in the middle of a transfer.
 */
static void test_ends_during_a_visit(void **state)
{
	struct request req;
	struct peer peer;

	(void)state;
	visit_begin(&req, &peer);
	request_drop(&req);
	turn_until(peer_ended, &peer, "the client has gone");
	peer_close(&peer);
	visit_begin(&req, &peer);
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
	visit_begin(&req, &peer);
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
#define T(name) cmocka_unit_test_setup_teardown(name, setup_world, preview_teardown)
	const struct CMUnitTest tests[] = {
		T(test_address_is_looked_up_once),
		T(test_counters_and_kept_connections),
		T(test_trailers),
		T(test_answer_trailers),
		T(test_expect_continue),
		T(test_upgrade),
		T(test_upgrade_refused),
		T(test_stalled_client),
		T(test_ends_during_a_visit),
		cmocka_unit_test_setup_teardown(test_ports, preview_setup, preview_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
