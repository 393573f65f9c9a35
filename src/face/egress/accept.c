/* SPDX-License-Identifier: Apache-2.0 */
/* New connections of sandboxes: finds the sandbox and the destination, and decides whether to
 * wait for the first bytes. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "face/egress/relay.h"

#define ACCEPTS_PER_TURN \
	8 /* each takes about 0.1 ms; the rest wait for the next turn of the loop */

/* Some clients pause between connecting and the first byte: git reads all certificates. */
static bool is_web(uint16_t port)
{
	return port == 443 || port == 80 || port == 8443 || port == 8080;
}

static unsigned relays_of(const struct egress_face *face, uint32_t from)
{
	const struct relay *relay;
	uint32_t cursor = 0;
	unsigned n = 0;

	while ((relay = slot_next(&face->relays, &cursor)))
		n += relay->from == from;
	return n;
}

static int relay_new(struct egress_face *face, const struct relay_start *start, struct relay **ret)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int one = 1;

	if (!relay)
		return -ENOMEM;
	(void)setsockopt(start->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*relay = (struct relay){
		.face = face, .from = start->from, .in.fd = start->fd, .out.fd = -1
	};
	relay->ask.address = start->address;
	relay->ask.port = start->port;
	relay->ask.is_local = relay_is_local(start->address);
	relay->in.ahead = start->ahead;
	buf_init(&relay->out.ahead, RELAY_AHEAD_MAX);
	buf_init(&relay->held, RELAY_AHEAD_MAX);
	if (slot_put(&face->relays, relay, &relay->handle) < 0) {
		free(relay);
		return -ENOBUFS;
	}
	*ret = relay;
	return 0;
}

static void too_many(struct egress_face *face, struct sandbox *sandbox)
{
	static const struct egress_verdict verdict = { .why = EGRESS_TOO_MANY };
	const struct egress_ask ask = { .protocol = EGRESS_TCP, .address = face->gateway };

	egress_note(sandbox, &ask, &verdict);
}

/* For such an address the proxy waits for the client's first bytes, because it may have to
 * insert a secret. */
static bool client_first(const struct relay *relay, const struct sandbox *sandbox)
{
	return is_web(relay->ask.port) ||
	       egress_is_brokered(sandbox, relay->ask.address, relay->ask.port);
}

/* The connection is allowed whatever the client sends, so a server that speaks first is
 * connected immediately. */
static bool needs_no_words(struct relay *relay, const struct sandbox *sandbox)
{
	struct egress_verdict verdict;

	relay->ask.protocol = EGRESS_TCP;
	if (client_first(relay, sandbox) || egress_needs_name(sandbox, &relay->ask))
		return false;
	egress_judge(sandbox, &relay->ask, &verdict);
	return verdict.why == EGRESS_ALLOWED;
}

static void drop(struct relay_start *start)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	(void)setsockopt(start->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)close(start->fd);
	buf_done(&start->ahead);
}

/* All bytes that are needed may have arrived already. */
static void begin_hearing(struct relay *relay, const struct sandbox *sandbox)
{
	int64_t now_ms = loop_now_ms(relay->face->config.loop);

	hearing_begin(&relay->hearing, client_first(relay, sandbox), now_ms);
	relay->blind = needs_no_words(relay, sandbox);
	if (relay->blind)
		relay->hearing.state = HEARING_SAID;
	else if (buf_len(&relay->in.ahead))
		hearing_bytes(&relay->hearing, buf_data(&relay->in.ahead),
			      buf_len(&relay->in.ahead), false, now_ms);
	relay_listen(relay);
}

void relay_begin(struct egress_face *face, struct sandbox *sandbox, struct relay_start *start)
{
	struct relay *relay = NULL;

	if (sandbox && relays_of(face, start->from) >= RELAYS_PER_SANDBOX) {
		too_many(face, sandbox);
		sandbox = NULL;
	}
	if (!sandbox || relay_new(face, start, &relay) < 0) {
		drop(start);
		return;
	}
	relay->sandbox = egress_handle(sandbox);
	relay->state = RELAY_LISTEN;
	if (loop_timer_new(face->config.loop, relay_on_timer, relay, &relay->timer) < 0 ||
	    loop_watch_new(face->config.loop, start->fd, relay_on_in, relay, &relay->in.watch) <
		    0 ||
	    loop_watch_set(relay->in.watch, LOOP_READ) < 0) {
		relay_reset(relay);
		return;
	}
	begin_hearing(relay, sandbox);
}

static void accept_one(struct egress_face *face, int fd, uint32_t from)
{
	struct sandbox *sandbox = egress_find(face->config.service, from);
	struct relay_start start = { .from = from, .fd = fd };
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t size = sizeof(to);

	buf_init(&start.ahead, RELAY_AHEAD_MAX);
	/* The original destination, before the host's rules redirected the connection. */
	if (!sandbox || getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &to, &size) < 0) {
		drop(&start);
		return;
	}
	start.address = ntohl(to.sin_addr.s_addr);
	start.port = ntohs(to.sin_port);
	relay_begin(face, sandbox, &start);
}

void proxy_on_connection(void *arg, int events, int error)
{
	struct egress_face *face = arg;

	(void)events;
	(void)error;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_in from = { .sin_family = AF_INET };
		socklen_t size = sizeof(from);
		int fd = accept4(face->proxy_fd, (struct sockaddr *)&from, &size,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		accept_one(face, fd, ntohl(from.sin_addr.s_addr));
	}
}
