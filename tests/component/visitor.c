/* SPDX-License-Identifier: Apache-2.0 */
#include "visitor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"

/* ---- a scripted server inside ---- */

static int waiting[64]; /* connections that were dialled and not taken yet */
static size_t waiting_count;
size_t dialled;

static void on_dialled(void *arg, int fd)
{
	(void)arg;
	assert_true(waiting_count < ARRAY_LEN(waiting));
	waiting[waiting_count++] = fd;
	dialled++;
}

int preview_setup(void **state)
{
	waiting_count = dialled = 0;
	return world_setup(state);
}

int preview_teardown(void **state)
{
	while (waiting_count)
		(void)close(waiting[--waiting_count]);
	return world_teardown(state);
}

void listen_on(uint16_t port)
{
	fake_listen(world.engine, sandbox, port, on_dialled, NULL);
}

void turn_until(bool (*look)(void *arg), void *arg, const char *what)
{
	int64_t end_us = time_mono_us() + WORLD_WAIT_US;

	while (!look(arg)) {
		if (time_mono_us() > end_us)
			fail_msg("did not happen: %s", what);
		loop_turn(world.loop, 5);
	}
}

static bool is_dialled(void *arg)
{
	(void)arg;
	return waiting_count > 0;
}

void peer_take(struct peer *peer)
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

/* Waits for the text; the next call drops everything up to its end. */
const char *peer_until(struct peer *peer, const char *text)
{
	static char before[65536];
	int64_t end_us = time_mono_us() + WORLD_WAIT_US;
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

bool peer_ended(void *arg)
{
	struct peer *peer = arg;

	while (peer_read(peer))
		;
	return peer->ended;
}

void peer_say(struct peer *peer, const char *text)
{
	assert_int_equal(send(peer->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

void peer_close(struct peer *peer)
{
	(void)close(peer->fd);
}

/* ---- visitors ---- */

char preview[32]; /* its id */

void new_preview(const char *body)
{
	struct answer *a = post("/previews", body);

	expect_status(a, 201);
	(void)snprintf(preview, sizeof(preview), "%s", text_of(a, "id"));
}

const char *host_of(uint16_t port)
{
	return path_of("Host: %u-%s.cay.localhost\r\n", port, sandbox);
}

void visit_send(struct request *req, const char *method, const char *path, const char *more,
		const char *body)
{
	request_send(req, NULL, method, path, path_of("%s%s", host_of(PORT), more), body);
}

/* A visit that ends without a server. */
struct answer *refused(const char *host, const char *more)
{
	static struct answer last;
	struct request req;

	answer_free(&last);
	request_send(&req, NULL, "GET", "/", path_of("%s%s", host, more), NULL);
	request_wait(&req, &last);
	return &last;
}

/*
 * A visit that a new connection of the server answers with 200; returns the request that the server
 * received.
 */
const char *served(const char *path, const char *more)
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

int64_t figure(const char *name)
{
	return int_of(get(path_of("/previews/%s", preview)), name);
}

void new_world(const char *body)
{
	new_sandbox(body);
	listen_on(PORT);
	new_preview("{\"port\":8080}");
}
