/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A refused TLS connection is terminated with the sandbox's own authority, so that its request can
 * be answered with the reason. That costs a signature for each name and a handshake for each
 * connection. Beyond a rate the rest get only a TLS alert, which costs nothing.
 */
#include <sys/socket.h>

#include "face/broker/conn.h"
#include "face/kit/refusal.h"

#define PACE_MS 1000
#define PACE_SANDBOX 20 /* per PACE_MS, of one sandbox */
#define PACE_ALL 100	/* likewise, of all: about a tenth of a processor */
#define DENYING_MAX 16	/* connections of one sandbox at once */

static bool in_pace(struct pace *pace, int64_t now_ms, uint32_t most)
{
	if (now_ms - pace->since_ms >= PACE_MS)
		*pace = (struct pace){ .since_ms = now_ms };
	return pace->used < most && ++pace->used;
}

static unsigned denying(const struct broker *broker, slot_handle sandbox)
{
	const struct broker_conn *conn;
	uint32_t cursor = 0;
	unsigned n = 0;

	while ((conn = slot_next(&broker->conns, &cursor)))
		n += conn->sandbox == sandbox && buf_len(&conn->refusal);
	return n;
}

/* Only if the client can trust us: the name that it asked for, or the address. */
static bool is_tellable(const struct egress_verdict *verdict)
{
	return verdict->why != EGRESS_NO_NETWORK && verdict->why != EGRESS_BAD_NAME;
}

int deny_intercept(struct broker *broker, struct sandbox *sandbox, const struct egress_ask *ask,
		   const struct egress_verdict *verdict, int fd, struct str read)
{
	int64_t now_ms = loop_now_ms(broker->loop);
	struct authority *authority;
	struct broker_conn *conn;
	char name[EGRESS_NAME_MAX + 1];

	if (!is_tellable(verdict) || denying(broker, egress_handle(sandbox)) >= DENYING_MAX ||
	    !in_pace(&broker->pace, now_ms, PACE_ALL))
		return 0;
	authority = authority_find(broker, sandbox);
	if (!authority || !in_pace(&authority->pace, now_ms, PACE_SANDBOX))
		return 0;
	egress_host_text(ask, name);
	conn = conn_new(broker, sandbox, ask, name);
	if (!conn)
		return 0;
	if (refusal_denied(sandbox, ask, verdict, &conn->refusal) < 0) {
		conn_free(conn);
		return 0;
	}
	egress_note(sandbox, ask, verdict);
	(void)!conn_secure(conn, authority->ca, fd, read); /* it has ended then */
	return 1;
}

void deny_read(struct broker_conn *conn)
{
	size_t n;

	if (http_head_scan(&conn->request.scan, true, buf_data(&conn->in), buf_len(&conn->in),
			   REQUEST_HEAD_MAX, &n) == HTTP_MORE)
		return;
	(void)!send(conn->in_fd, buf_data(&conn->refusal), buf_len(&conn->refusal), MSG_NOSIGNAL);
	conn_free(conn); /* the TLS pipe sends the rest and close_notify */
}
