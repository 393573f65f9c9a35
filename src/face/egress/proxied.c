/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to a sandbox's agent as a proxy, passed to us as streams. Such a sandbox has no
 * network: the client names its target instead of connecting to it. The name is judged, resolved
 * and pinned as if the sandbox had asked our resolver, the client is answered, and from then on the
 * connection is a relay like any other. States:
 * - reading: the client's request is incomplete (target.c)
 * - resolving: its name is being looked up
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "face/kit/refusal.h"
#include "face/egress/relay.h"
#include "face/egress/target.h"
#include "net/dns.h"

#define GREET_MS 10000
#define DNS_ID 1 /* of a question through the resolver, which has its own ids */

/* Owner: the face's table. */
struct greeting {
	struct egress_face *face;
	slot_handle handle, sandbox;
	uint32_t from;
	int fd;
	struct loop_watch *watch;
	int64_t due_ms;
	bool greeted; /* by SOCKS5 */
	struct target target;
	struct buf in; /* limit: TARGET_HEAD_MAX */
};

static void greeting_free(struct greeting *g)
{
	(void)slot_take(&g->face->greetings, g->handle);
	loop_watch_free(g->watch);
	if (g->fd >= 0)
		(void)close(g->fd);
	buf_done(&g->in);
	free(g);
}

static struct sandbox *sandbox_of(const struct greeting *g)
{
	struct sandbox *sandbox = egress_find(g->face->config.service, g->from);

	return sandbox && egress_handle(sandbox) == g->sandbox ? sandbox : NULL;
}

/* Replies are short and the first bytes in this direction: the socket has space for them. */
static void answer(struct greeting *g, const void *p, size_t n)
{
	(void)!send(g->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_socks(struct greeting *g, uint8_t code)
{
	const uint8_t reply[10] = { 5, code, 0, 1 };

	answer(g, reply, sizeof(reply));
}

static bool is_socks(const struct greeting *g)
{
	return g->greeted;
}

/* A CONNECT is probably followed by TLS; if the policy needs the name, it is known. */
static struct egress_ask ask_of(const struct greeting *g)
{
	return (struct egress_ask){
		.protocol = g->target.kind == TARGET_FORWARD ? EGRESS_HTTP
			    : g->target.name[0]		     ? EGRESS_TLS
							     : EGRESS_TCP,
		.address = g->target.address,
		.port = g->target.port,
		.name = str_of(g->target.name),
	};
}

/* The reply was written; closing an end of a pair does not discard it. */
static void refuse(struct greeting *g, struct sandbox *sandbox, struct egress_ask *ask,
		   const struct egress_verdict *verdict)
{
	struct buf out;

	egress_note(sandbox, ask, verdict);
	if (is_socks(g)) {
		answer_socks(g, 2); /* not allowed by ruleset */
	} else {
		buf_init(&out, REFUSAL_MAX);
		if (refusal_denied(sandbox, ask, verdict, &out) == 0)
			answer(g, buf_data(&out), buf_len(&out));
		buf_done(&out);
	}
	greeting_free(g);
}

static void unreachable(struct greeting *g, const struct sandbox *sandbox, int error)
{
	struct egress_ask ask = ask_of(g);
	struct buf out;

	if (is_socks(g)) {
		answer_socks(g, 4); /* host unreachable */
	} else {
		buf_init(&out, REFUSAL_MAX);
		if (refusal_unreachable(sandbox, &ask, error, &out) == 0)
			answer(g, buf_data(&out), buf_len(&out));
		buf_done(&out);
	}
	greeting_free(g);
}

static void bad_request(struct greeting *g)
{
	struct buf out;

	if (is_socks(g)) {
		answer_socks(g, g->target.socks_code);
	} else if (g->target.socks_code) { /* no method of the greeting is supported */
		const uint8_t reply[2] = { 5, g->target.socks_code };

		answer(g, reply, sizeof(reply));
	} else {
		buf_init(&out, REFUSAL_MAX);
		if (buf_printf(&out,
			       "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
			       "Content-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
			       strlen(g->target.why) + 1, g->target.why) == 0)
			answer(g, buf_data(&out), buf_len(&out));
		buf_done(&out);
	}
	greeting_free(g);
}

/* Allowed, as far as is known now: the connection becomes a relay with its first bytes. */
static void hand_over(struct greeting *g, struct sandbox *sandbox)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	struct relay_start start = { .from = g->from,
				     .address = g->target.address,
				     .port = g->target.port };
	struct buf ahead;
	int r = 0;

	buf_init(&ahead, RELAY_AHEAD_MAX);
	if (g->target.kind == TARGET_FORWARD)
		r = target_rewrite((struct str){ buf_data(&g->in), g->target.used }, &g->target,
				   &ahead);
	if (r == 0)
		r = buf_append(&ahead, buf_data(&g->in) + g->target.used,
			       buf_len(&g->in) - g->target.used);
	if (r < 0) {
		buf_done(&ahead);
		g->target.why = "the request is malformed";
		bad_request(g);
		return;
	}
	if (g->target.kind == TARGET_CONNECT)
		answer(g, established, sizeof(established) - 1);
	else if (g->target.kind == TARGET_SOCKS)
		answer_socks(g, 0);
	loop_watch_free(TAKE_PTR(g->watch));
	start.fd = TAKE_FD(g->fd);
	start.ahead = ahead;
	relay_begin(g->face, sandbox, &start);
	greeting_free(g);
}

/* The address is known. */
static void decide(struct greeting *g, struct sandbox *sandbox)
{
	struct egress_ask ask = ask_of(g);
	struct egress_verdict verdict;

	ask.is_local = relay_is_local(ask.address);
	egress_judge(sandbox, &ask, &verdict);
	if (egress_passes(&verdict))
		hand_over(g, sandbox);
	else
		refuse(g, sandbox, &ask, &verdict);
}

struct resolving {
	struct egress_face *face;
	slot_handle greeting;
};

static void on_resolved(void *arg, const void *bytes, size_t size)
{
	const struct resolving *resolving = arg;
	struct greeting *g = slot_get(&resolving->face->greetings, resolving->greeting);
	struct sandbox *sandbox = g ? sandbox_of(g) : NULL;
	struct dns_reply reply;

	if (!g)
		return;
	if (!sandbox) {
		greeting_free(g);
		return;
	}
	/* The resolver leaves out addresses that may not be reached, and records that. */
	if (dns_answer_read(bytes, size, DNS_ID, g->target.name, &reply) < 0 || !reply.count) {
		unreachable(g, sandbox, EHOSTUNREACH);
		return;
	}
	g->target.address = reply.addresses[0];
	decide(g, sandbox);
}

static void start_resolving(struct greeting *g, struct sandbox *sandbox)
{
	struct resolving resolving = { g->face, g->handle };
	struct egress_ask ask = ask_of(g), dns = { .protocol = EGRESS_DNS, .name = ask.name };
	struct egress_verdict verdict;
	uint8_t question[DNS_NAME_MAX + 64];
	size_t n = dns_ask_write(DNS_ID, g->target.name, question, sizeof(question));

	egress_judge(sandbox, &dns, &verdict);
	if (!n || !egress_passes(&verdict)) {
		if (!n)
			verdict.why = EGRESS_BAD_NAME;
		refuse(g, sandbox, &ask, &verdict);
		return;
	}
	if (loop_watch_set(g->watch, 0) < 0) {
		greeting_free(g);
		return;
	}
	resolver_ask(g->face, &(struct resolver_query){ g->from, question, n, DNS_MESSAGE_MAX },
		     on_resolved, &resolving, sizeof(resolving));
}

static void on_target(struct greeting *g)
{
	static const uint8_t no_password[] = { 5, 0 };
	struct sandbox *sandbox = sandbox_of(g);

	if (!sandbox) {
		greeting_free(g);
		return;
	}
	switch (g->target.kind) {
	case TARGET_MORE:
		if (buf_len(&g->in) >= TARGET_HEAD_MAX)
			greeting_free(g);
		break;
	case TARGET_BAD:
		bad_request(g);
		break;
	case TARGET_SOCKS_HELLO:
		g->greeted = true;
		buf_consume(&g->in, g->target.used);
		answer(g, no_password, sizeof(no_password));
		target_read(buf_str(&g->in), true, &g->target);
		if (g->target.kind != TARGET_MORE)
			on_target(g);
		break;
	case TARGET_SOCKS:
	case TARGET_CONNECT:
	case TARGET_FORWARD:
		if (g->target.name[0])
			start_resolving(g, sandbox);
		else
			decide(g, sandbox);
		break;
	}
}

static void on_readable(void *arg, int events, int error)
{
	struct greeting *g = arg;
	char *at;
	ssize_t n;

	(void)events;
	if (error < 0 || buf_reserve(&g->in, TARGET_HEAD_MAX - buf_len(&g->in), &at) < 0) {
		greeting_free(g);
		return;
	}
	n = recv(g->fd, at, TARGET_HEAD_MAX - buf_len(&g->in), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		greeting_free(g);
		return;
	}
	buf_commit(&g->in, (size_t)n);
	target_read(buf_str(&g->in), g->greeted, &g->target);
	on_target(g);
}

void egress_adopt(struct egress_face *face, uint32_t from, int fd)
{
	struct sandbox *sandbox = egress_find(face->config.service, from);
	struct greeting *g = sandbox ? calloc(1, sizeof(*g)) : NULL;

	if (!g || slot_put(&face->greetings, g, &g->handle) < 0) {
		free(g);
		(void)close(fd);
		return;
	}
	g->face = face;
	g->fd = fd;
	g->from = from;
	g->sandbox = egress_handle(sandbox);
	g->due_ms = loop_now_ms(face->config.loop) + GREET_MS;
	buf_init(&g->in, TARGET_HEAD_MAX);
	egress_start_tick(face);
	if (loop_watch_new(face->config.loop, fd, on_readable, g, &g->watch) < 0 ||
	    loop_watch_set(g->watch, LOOP_READ) < 0)
		greeting_free(g);
}

void proxied_tick(struct egress_face *face)
{
	int64_t now_ms = loop_now_ms(face->config.loop);
	struct greeting *g;
	uint32_t cursor = 0;

	while ((g = slot_next(&face->greetings, &cursor)))
		if (g->due_ms <= now_ms)
			greeting_free(g);
}

void proxied_stop(struct egress_face *face)
{
	struct greeting *g;
	uint32_t cursor = 0;

	while ((g = slot_next(&face->greetings, &cursor)))
		greeting_free(g);
}
