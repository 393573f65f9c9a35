/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests after the first one of a connection. The client's bytes stay in `held` until they are
 * known to belong to an allowed request. The first one that is not allowed ends the connection,
 * with a reply if no other request is active.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "face/egress/relay.h"

#define READ_BYTES 32768

/* Another name on the same connection is judged like the first one. */
static bool may_pass(struct relay *relay, struct sandbox *sandbox, const struct sniff *said,
		     struct egress_verdict *verdict)
{
	struct egress_ask ask = relay->ask;

	if (!said->odd && strcmp(said->name, relay->said.name) == 0)
		return true;
	ask.name = str_of(said->name);
	egress_judge(sandbox, &ask, verdict);
	if (said->odd && verdict->why != EGRESS_DENIED)
		verdict->why = EGRESS_BAD_NAME;
	if (verdict->why == EGRESS_LEARNED)
		egress_note(sandbox, &ask, verdict);
	relay->said = *said;
	relay->ask.name = str_of(relay->said.name);
	return egress_passes(verdict);
}

static int end(struct relay *relay, struct sandbox *sandbox, const struct egress_verdict *verdict)
{
	buf_clear(&relay->held);
	if (relay->answered && !buf_len(&relay->in.ahead) && !buf_len(&relay->out.ahead)) {
		relay_refuse(relay, sandbox, verdict);
		return -1;
	}
	egress_note(sandbox, &relay->ask, verdict);
	relay_cut(relay);
	return 0;
}

int relay_check(struct relay *relay)
{
	struct sandbox *sandbox = relay_sandbox(relay);
	struct egress_verdict verdict = { .why = EGRESS_BAD_NAME };

	while (sandbox && buf_len(&relay->held) && !relay->in.ended) {
		struct sniff said;
		size_t n = 0;

		switch (requests_next(&relay->requests, buf_data(&relay->held),
				      buf_len(&relay->held), &n, &said)) {
		case REQUESTS_NEW:
			if (!may_pass(relay, sandbox, &said, &verdict))
				return end(relay, sandbox, &verdict);
			break;
		case REQUESTS_PASS:
			break;
		case REQUESTS_MORE:
		case REQUESTS_WAIT:
			return 0;
		case REQUESTS_BAD:
			return end(relay, sandbox, &verdict);
		}
		if (buf_append(&relay->in.ahead, buf_data(&relay->held), n) < 0) {
			relay_reset(relay);
			return -1;
		}
		buf_consume(&relay->held, n);
	}
	if (sandbox)
		return 0;
	relay_reset(relay);
	return -1;
}

/* Checked first, so not relayed directly. 0: read; 1: nothing there now; -1: broken; -2: freed. */
int relay_read_checked(struct relay *relay)
{
	size_t room = MIN(READ_BYTES, RELAY_AHEAD_MAX - buf_len(&relay->held));
	ssize_t n;
	char *at;

	if (relay->requests.state == REQUESTS_ASKED)
		return 1;
	if (buf_reserve(&relay->held, room, &at) < 0)
		return -1;
	n = recv(relay->in.fd, at, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n < 0)
		return -1;
	if (n == 0) {
		relay->in.ended = true;
		return 1;
	}
	buf_commit(&relay->held, (size_t)n);
	return relay_check(relay) < 0 ? -2 : 0;
}
