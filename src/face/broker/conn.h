/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/face/broker only. */
#ifndef CAY_FACE_BROKER_CONN_H
#define CAY_FACE_BROKER_CONN_H

#include "base/buf.h"
#include "face/broker/broker.h"
#include "http/chunked.h"
#include "http/head.h"
#include "net/tls.h"
#include "service/secret.h"

#define CONNS_MAX 1024
#define CONN_BYTES 65536 /* each way; at the limit reading stops */
#define HEAD_MAX 65536	 /* of a request, before and after */
#define HEADERS_MAX 200
#define HEAD_MS 30000
#define CONNECT_MS 15000
#define AUTHORITIES_MAX 64 /* kept open; beyond it the oldest is loaded again when needed */

/*
 * SECURE_IN -> HEAD -> CONNECT -> SECURE_OUT -> PASS -> gone. One request a connection: where its
 * body ends nothing more of the client is read. From everywhere -> gone.
 */
enum conn_state { CONN_SECURE_IN, CONN_HEAD, CONN_CONNECT, CONN_SECURE_OUT, CONN_PASS };

/* Owner: the broker's table. */
struct broker_conn {
	struct broker *broker;
	slot_handle handle, sandbox, tls;
	enum conn_state state;
	char name[EGRESS_NAME_MAX + 1];
	uint32_t address;
	uint16_t port;
	int in_fd, out_fd; /* plain bytes: the sandbox's end, the host's; -1: TLS has it */
	struct loop_watch *in_watch, *out_watch;
	struct loop_timer *timer;
	struct http_scan scan;
	struct buf in;	 /* of the client, not yet looked at */
	struct buf up;	 /* to the host; begins with the new head: wiped */
	struct buf down; /* to the sandbox */
	struct scrub_stream scrub;
	bool chunked, endless; /* the body's framing; endless: another protocol follows */
	uint64_t left;
	struct http_chunked chunks;
	bool body_done, host_done;
};

struct authority {
	char id[64];
	struct tls_ca *ca;
	uint64_t used;
};

/* Owner: the daemon's wiring. */
struct broker {
	struct loop *loop;
	struct service *service;
	struct tls *tls;
	struct tls_ctx *outside;
	struct slot_table conns;
	struct authority authorities[AUTHORITIES_MAX];
	uint64_t uses;
	struct http_header headers[HEADERS_MAX];
};

void conn_free(struct broker_conn *conn);
/* Says why to the client and ends the connection. */
void conn_refuse(struct broker_conn *conn, const char *status, const char *code,
		 const char *message);
/* request.c: the head in conn->in becomes the new one in conn->up. 1: done; 0: more is needed; -1:
 * refused, conn is gone. */
int request_rewrite(struct broker_conn *conn);
/* Takes what belongs to the body of p; how many bytes. -1: malformed. */
ssize_t request_body(struct broker_conn *conn, const char *p, size_t n);

#endif
