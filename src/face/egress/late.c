/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that let the server speak first. The connection stands, and the server's bytes pass, but
 * what the client says is held until it can be judged as if it had come at once. The same happens
 * again where TLS begins behind an answer (STARTTLS): its ClientHello may name another host.
 */
#include <errno.h>
#include <sys/socket.h>

#include "face/egress/relay.h"

#define RECORD_HANDSHAKE 22

/* The client has received bytes of the server, and would take a reply of ours for more of them. */
static int refuse(struct relay *relay, struct sandbox *sandbox,
		  const struct egress_verdict *verdict)
{
	if (relay->spoke) {
		egress_note(sandbox, &relay->ask, verdict);
		relay_reset(relay);
	} else {
		relay_refuse(relay, sandbox, verdict);
	}
	return -2;
}

/* Held bytes are relayed, request by request if each is judged. */
static int release(struct relay *relay, bool ended)
{
	struct buf held = relay->held;

	if (!relay->checked) {
		relay->held = relay->in.ahead; /* empty: it was flushed before the read */
		relay->in.ahead = held;
	} else if (relay_check(relay) < 0) {
		return -2;
	}
	relay->in.ended = relay->in.ended || ended;
	return 0;
}

/* Inside a connection that was allowed without a name, TLS without one changes nothing. */
static bool says_nothing_new(const struct relay *relay)
{
	const struct sniff *said = &relay->hearing.said;

	return relay->turns &&
	       (said->protocol != EGRESS_TLS || said->broken || (!said->odd && !said->name[0]));
}

static int judge(struct relay *relay, bool ended)
{
	struct sandbox *sandbox = relay_sandbox(relay);
	struct egress_verdict verdict;

	if (!sandbox) {
		relay_reset(relay);
		return -2;
	}
	if (says_nothing_new(relay))
		return release(relay, ended);
	relay_judge(relay, sandbox, &verdict);
	if (!relay->spoke && relay_intercepted(relay, sandbox, &verdict, buf_str(&relay->held)))
		return -2;
	if (!egress_passes(&verdict))
		return refuse(relay, sandbox, &verdict);
	relay_settle(relay, sandbox, &verdict);
	return release(relay, ended);
}

static int hear(struct relay *relay, bool ended)
{
	hearing_bytes(&relay->hearing, buf_data(&relay->held), buf_len(&relay->held), ended,
		      loop_now_ms(relay->face->config.loop));
	return relay->hearing.state == HEARING_SAID ? judge(relay, ended) : 0;
}

int relay_read_late(struct relay *relay)
{
	size_t space = SNIFF_MAX - buf_len(&relay->held);
	ssize_t n;
	char *at;

	if (buf_reserve(&relay->held, space, &at) < 0)
		return -1;
	n = recv(relay->in.fd, at, space, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n < 0)
		return -1;
	if (n == 0 && !buf_len(&relay->held)) {
		relay->in.ended = true; /* the client sent nothing */
		return 1;
	}
	buf_commit(&relay->held, (size_t)n);
	return hear(relay, n == 0);
}

int relay_read_turn(struct relay *relay, const char *bytes, size_t n)
{
	struct sniff said;

	if (bytes[0] != RECORD_HANDSHAKE || (sniff(bytes, n, false, &said) && said.broken))
		return 1;
	if (buf_append(&relay->held, bytes, n) < 0)
		return -1;
	hearing_again(&relay->hearing);
	return hear(relay, false);
}
