/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: framing, keep-alive, pipelining, streams, upgrade. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "server_fixture.h"

static void a_request_is_answered_and_the_connection_kept(void **state)
{
	(void)state;
	start();
	for (int i = 1; i <= 3; i++) {
		got_len = 0;
		put(GET("/"));
		assert_false(pump(3));
		assert_int_equal(handled, i);
		assert_non_null(strstr(got, "HTTP/1.1 200 OK\r\n"));
		assert_non_null(strstr(got, "Content-Length: 5\r\n"));
		assert_non_null(strstr(got, "X-Request-Id: "));
		assert_non_null(strstr(got, "\r\n\r\nhello"));
		assert_null(strstr(got, "Set-Cookie"));
		assert_null(strstr(got, "gzip"));
		assert_null(strstr(got, "Connection:"));
		assert_null(http_req_get(server, last));
	}
	assert_int_equal(http_server_connections(server), 1);
}

static void every_split_of_a_request_works(void **state)
{
	const char *text = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
			   "3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: u\r\n\r\n";
	size_t n = strlen(text);

	(void)state;
	start();
	for (size_t cut = 1; cut < n; cut++) {
		got_len = 0;
		assert_int_equal(send(peer, text, cut, 0), cut);
		loop_turn(loop, 0);
		assert_int_equal(send(peer, text + cut, n - cut, 0), n - cut);
		assert_false(pump(2));
		assert_int_equal(handled, cut);
		assert_int_equal(body_status, 0);
		assert_int_equal(seen_len, 5);
		assert_memory_equal(seen_body, "abcde", 5);
		assert_int_equal(count_of("HTTP/1.1 200"), 1);
	}
}

static void pipelined_requests_are_answered_in_order(void **state)
{
	(void)state;
	start();
	put(GET("/later") GET("/sized") "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: "
					"2\r\n\r\nhi" GET("/stream"));
	pump(3);
	assert_int_equal(handled, 1); /* the second one does not overtake the first */
	http_reply(http_req_get(server, last), 201, NULL, 0, STR_LIT("late"));
	assert_int_equal(handled, 1); /* and the next is not started inside a reply */
	assert_false(pump(4));
	assert_int_equal(handled, 4);
	assert_int_equal(count_of("HTTP/1.1 "), 4);
	assert_true(strstr(got, "late") < strstr(got, "sized!"));
	assert_true(strstr(got, "sized!") <
		    strstr(got, "\r\n\r\nhi")); /* "hi" may be in a request id */
	assert_non_null(strstr(got, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
}

static void a_flood_of_pipelined_requests_is_served(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 500; i++) {
		put(GET("/"));
		if (i % 50 == 0)
			(void)pump(1);
	}
	for (int i = 0; i < 100 && handled < 500; i++)
		pump(1);
	assert_int_equal(handled, 500);
	pump(2);
	assert_int_equal(count_of("hello"), 500);
}

static void an_expected_100_is_sent_only_when_the_body_is_wanted(void **state)
{
	(void)state;
	start();
	put("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_false(pump(3));
	assert_string_equal(got, "HTTP/1.1 100 Continue\r\n\r\n");
	put("hi");
	assert_false(pump(3));
	assert_int_equal(count_of("HTTP/1.1 200 OK"), 1);
	got_len = 0;
	/* too large: rejected without 100, and the connection cannot be reused */
	put("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\nExpect: "
	    "100-continue\r\n\r\n");
	assert_true(pump(3));
	assert_int_equal(count_of("100 Continue"), 0);
	assert_int_equal(count_of("HTTP/1.1 413"), 1);
	(void)close(peer);
	dial();
	got_len = 0;
	put("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_true(pump(3));
	assert_int_equal(count_of("100 Continue"), 0);
	assert_int_equal(count_of("Connection: close"), 1);
}

static void an_unread_body_is_skipped_or_ends_the_connection(void **state)
{
	(void)state;
	start();
	put("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /" GET("/"));
	assert_false(pump(3));
	assert_int_equal(handled, 2);
	got_len = 0;
	put("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nGET /" GET("/sized"));
	(void)pump(3);
	assert_int_equal(count_of("HTTP/1.1 "), 1);
	put(GET("/sized"));
	assert_true(pump(3));
	assert_int_equal(handled, 3); /* the rest is not parsed as a request */
	assert_int_equal(count_of("Connection: close"), 1);
}

static void a_disconnected_client_is_reported(void **state)
{
	(void)state;
	start();
	put(GET("/later"));
	pump(2);
	assert_int_equal(gone, 0);
	(void)close(peer);
	peer = -1;
	loop_turn(loop, 5);
	assert_int_equal(gone, 1);
	assert_null(http_req_get(server, last));
	assert_int_equal(http_server_connections(server), 0);
}

static void freeing_the_server_tells_too(void **state)
{
	(void)state;
	start();
	put(GET("/later"));
	pump(2);
	http_server_free(server);
	server = NULL;
	assert_int_equal(gone, 1);
	assert_true(drain_peer());
}

static void an_aborted_answer_is_visibly_incomplete(void **state)
{
	struct http_req *req;

	(void)state;
	start();
	put(GET("/later"));
	pump(2);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, NULL, 0), 0);
	assert_int_equal(http_reply_write(req, "half", 4), 0);
	pump(2);
	http_reply_abort(http_req_get(server, last));
	assert_null(http_req_get(server, last));
	assert_true(pump(3));
	assert_int_equal(gone, 0);
	assert_non_null(strstr(got, "half"));
	assert_null(strstr(got, "0\r\n\r\n"));
}

static void head_and_204_have_no_body(void **state)
{
	(void)state;
	start();
	put("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_false(pump(3));
	assert_non_null(strstr(got, "Content-Length: 5\r\n"));
	assert_null(strstr(got, "hello"));
	got_len = 0;
	put("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_false(pump(3));
	assert_non_null(strstr(got, "Transfer-Encoding: chunked\r\n"));
	assert_null(strstr(got, "one"));
	got_len = 0;
	put(GET("/204"));
	assert_false(pump(3));
	assert_non_null(strstr(got, "HTTP/1.1 204 No Content\r\n"));
	assert_null(strstr(got, "Content-Length"));
	got_len = 0;
	put("HEAD /sized HTTP/1.1\r\nHost: a\r\n\r\n" GET("/"));
	assert_false(pump(3));
	assert_int_equal(count_of("Content-Length: 6"), 1);
	assert_int_equal(count_of("hello"), 1);
}

static void http_1_0_gets_what_it_can_read(void **state)
{
	(void)state;
	start();
	put("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_false(pump(3));
	assert_non_null(strstr(got, "Connection: keep-alive\r\n"));
	got_len = 0;
	put("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_true(pump(3));
	assert_null(strstr(got, "chunked"));
	assert_non_null(strstr(got, "Connection: close\r\n"));
	assert_non_null(strstr(got, "\r\n\r\nonetwo"));
	(void)close(peer);
	dial();
	put("GET / HTTP/1.0\r\n\r\n");
	assert_true(pump(3));
}

static void connection_close_is_kept(void **state)
{
	(void)state;
	start();
	put("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET("/"));
	assert_true(pump(3));
	assert_int_equal(handled, 1);
	assert_int_equal(count_of("Connection: close"), 1);
}

static void streamed_bodies_can_be_paused(void **state)
{
	(void)state;
	start();
	put("POST /pause HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
	pump(3);
	assert_int_equal(seen_len, 1);
	http_req_pause_body(http_req_get(server, last), false);
	assert_int_equal(seen_len, 1);
	pump(3);
	assert_int_equal(seen_len, 2);
	assert_int_equal(got_len, 0);
	http_req_pause_body(http_req_get(server, last), false);
	assert_false(pump(3));
	assert_non_null(strstr(got, "streamed"));
}

static void an_upgrade_hands_over_the_connection_and_its_bytes(void **state)
{
	char echo[3] = "";

	(void)state;
	start();
	put("GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
	    "echo\r\n\r\nearly");
	pump(3);
	assert_non_null(strstr(got, "HTTP/1.1 101 Switching Protocols\r\n"));
	assert_non_null(strstr(got, "Connection: Upgrade\r\n"));
	assert_null(strstr(got, "Content-Length"));
	assert_string_equal(unread, "early");
	assert_int_equal(http_server_connections(server), 0);
	assert_int_equal(write(upgraded_fd, "ok", 2), 2);
	assert_int_equal(recv(peer, echo, 2, 0), 2);
	assert_string_equal(echo, "ok");
	(void)close(upgraded_fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_request_is_answered_and_the_connection_kept),
		T(every_split_of_a_request_works),
		T(pipelined_requests_are_answered_in_order),
		T(a_flood_of_pipelined_requests_is_served),
		T(an_expected_100_is_sent_only_when_the_body_is_wanted),
		T(an_unread_body_is_skipped_or_ends_the_connection),
		T(a_disconnected_client_is_reported),
		T(freeing_the_server_tells_too),
		T(an_aborted_answer_is_visibly_incomplete),
		T(head_and_204_have_no_body),
		T(http_1_0_gets_what_it_can_read),
		T(connection_close_is_kept),
		T(streamed_bodies_can_be_paused),
		T(an_upgrade_hands_over_the_connection_and_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
