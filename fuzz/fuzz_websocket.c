/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a hostile client against the whole server side over a socket pair. The first byte
 * selects the server's behaviour. Whatever arrives: on_close is called once, nothing leaks, every
 * text message is UTF-8, and none exceeds the limit.
 */
#include <assert.h>
#include <sys/socket.h>

#include "http/websocket/websocket.h"

#define LIMIT 4096
#define INPUT_MAX 60000 /* fits into a socket's buffer */
#define QUIET_TURNS 2	/* of the loop, after which nothing more happens */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct websocket *ws;
	uint8_t mode;
	int closes;
	int messages;
};

static void on_message(void *arg, bool is_text, struct str bytes)
{
	struct run *run = arg;

	run->messages++;
	assert(run->closes == 0 && bytes.n <= LIMIT);
	assert(!is_text || str_is_utf8(bytes.p, bytes.n));
	if (run->mode & 1)
		(void)!websocket_send(run->ws, is_text, STR_LIT("re:"), bytes);
	if (run->mode & 2)
		websocket_pause(run->ws, true);
	if (run->mode & 4)
		websocket_close(run->ws, 1000, "enough");
}

static void on_close(void *arg, int code)
{
	struct run *run = arg;

	assert(code >= 1000 && code < 5000);
	run->closes++;
	run->ws = NULL;
}

static void handler(void *ctx, struct http_req *req)
{
	static const struct websocket_hooks hooks = { .on_message = on_message,
						      .on_close = on_close };
	struct websocket_limits limits = websocket_limits_default;
	struct run *run = ctx;

	limits.message_bytes = LIMIT;
	if (websocket_accept(req, &limits, &hooks, run, &run->ws) < 0)
		abort();
}

static void drive(struct loop *loop, struct run *run, int peer)
{
	char drop[65536];

	for (int quiet = 0; quiet < QUIET_TURNS && run->closes == 0; quiet++) {
		int before = run->messages;

		loop_turn(loop, 0);
		while (recv(peer, drop, sizeof(drop), MSG_DONTWAIT) > 0)
			quiet = 0;
		if (run->messages != before)
			quiet = 0;
		if (run->ws && run->mode & 2)
			websocket_pause(run->ws, false);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char opening[] =
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
	struct run run = { 0 };
	static struct loop *loop;
	struct http_server *server;
	int pair[2], turns = 2;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	run.mode = data[0];
	if ((!loop && loop_new(&loop) < 0) ||
	    http_server_new(loop, NULL, handler, &run, &server) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
	    http_server_adopt(server, pair[1]) < 0)
		abort();
	(void)!send(pair[0], opening, sizeof(opening) - 1, MSG_NOSIGNAL);
	while (run.mode & 8 && turns--) /* otherwise frames follow the head at once */
		loop_turn(loop, 0);
	(void)!send(pair[0], data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	drive(loop, &run, pair[0]);
	(void)shutdown(pair[0], SHUT_WR);
	drive(loop, &run, pair[0]);
	(void)close(pair[0]);
	http_server_free(server);
	assert(run.closes == 1);
	loop_turn(loop, 0);
	return 0;
}
