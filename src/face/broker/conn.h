/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/broker. */
#ifndef CAY_FACE_BROKER_CONN_H
#define CAY_FACE_BROKER_CONN_H

#include "base/buf.h"
#include "face/broker/broker.h"
#include "face/broker/request.h"
#include "net/tls.h"
#include "service/secret/secret.h"

#define CONNS_MAX 1024
#define CONN_BYTES 65536 /* in each direction; at the limit reading stops */
#define HEAD_MS 30000
#define CONNECT_MS 15000
/* kept in memory; beyond it the oldest is dropped and loaded again when needed */
#define AUTHORITIES_MAX 64

/*
 * States: SECURE_IN -> HEAD -> CONNECT -> SECURE_OUT -> PASS -> freed. A connection has one
 * request: after its body nothing more of the client is read. Every state -> freed on failure.
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
	int in_fd, out_fd; /* plain bytes: the sandbox's end, the host's; -1: passed to TLS */
	struct loop_watch *in_watch, *out_watch;
	struct loop_timer *timer;
	struct request request;
	struct buf in;	 /* from the client, not parsed yet */
	struct buf up;	 /* to the host; starts with the new head, so it is wiped */
	struct buf down; /* to the sandbox */
	struct scrub_stream scrub;
	struct request_body body;
	bool host_done;
	struct buf refusal; /* not empty: the reply to every request on it */
};

/* A token bucket: so many per second, and so many at once. */
struct pace {
	int64_t since_ms;
	uint32_t used;
};

struct authority {
	char id[64];
	struct tls_ca *ca;
	uint64_t used;
	struct pace pace; /* of refusals */
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
	struct pace pace; /* of all refusals */
	struct http_header headers[REQUEST_HEADERS_MAX];
};

/* The authority of a sandbox; another sandbox's may be dropped for it. NULL: it has none. */
struct authority *authority_find(struct broker *broker, struct sandbox *sandbox);
/* fd and the bytes read from it are taken in every case. */
struct broker_conn *conn_new(struct broker *broker, struct sandbox *sandbox,
			     const struct egress_ask *ask, const char *name);
int conn_secure(struct broker_conn *conn, struct tls_ca *ca, int fd, struct str read) _must_check_;
/* deny.c: 1: the connection was taken, and its requests are answered with the reason. */
int deny_intercept(struct broker *broker, struct sandbox *sandbox, const struct egress_ask *ask,
		   const struct egress_verdict *verdict, int fd, struct str read) _must_check_;
void deny_read(struct broker_conn *conn);
void conn_free(struct broker_conn *conn);

#endif
