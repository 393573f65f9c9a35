/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/egress. */
#ifndef CAY_FACE_EGRESS_PRIVATE_H
#define CAY_FACE_EGRESS_PRIVATE_H

#include <netinet/in.h>

#include "base/slot.h"
#include "face/egress/egress.h"
#include "net/loop.h"
#include "face/egress/turns.h"

#define SERVERS_MAX 3
#define RELAYS_MAX 8192	       /* connections at once; more are reset */
#define RELAYS_PER_SANDBOX 512 /* likewise, of one sandbox */
#define GREETINGS_MAX 4096 /* connections to explicit proxies without a target; more are closed */
#define LOOKUPS_MAX 2048   /* questions in progress; more are answered SERVFAIL */
#define LOOKUPS_PER_SANDBOX 128 /* likewise */

/*
 * Relays share the loop with the API. All of them together move TURN_BYTES in one turn of the loop;
 * those that would move more wait here for the next one, first come, first served.
 */
struct relay_queue {
	struct turns turns;
	struct loop_timer *timer; /* set while one waits */
	uint64_t turn;		  /* of the loop, in which `moved` was counted */
	size_t moved;		  /* bytes */
};

/* Owner: the daemon's wiring. */
struct egress_face {
	struct egress_config config;
	uint32_t gateway; /* 0: nothing is served yet */
	int proxy_fd, dns_fd, dns_tcp_fd;
	struct loop_watch *proxy_watch, *dns_watch, *dns_tcp_watch;
	struct loop_timer *tick;
	bool ticking;
	struct slot_table relays;    /* struct relay, proxy.c */
	struct relay_queue turns;    /* relay.c */
	struct slot_table lookups;   /* struct lookup, resolver.c */
	struct slot_table askers;    /* struct asker, dns_tcp.c */
	struct slot_table greetings; /* struct greeting, proxied.c */
	struct sockaddr_in servers[SERVERS_MAX];
	unsigned server_count;
	char scratch[65536]; /* bytes being relayed; nothing stays in it */
};

struct sockaddr_in egress_sockaddr(uint32_t address, uint16_t port);

/* accept.c, proxy.c */
void proxy_on_connection(void *arg, int events, int error);
void proxy_tick(struct egress_face *face); /* once a second */
void proxy_stop(struct egress_face *face);
/* relay.c */
int relay_queue_init(struct egress_face *face) _must_check_;
void relay_queue_done(struct egress_face *face);

/* proxied.c */
void proxied_tick(struct egress_face *face);
void proxied_stop(struct egress_face *face);
/* egress.c: once a second from now on. */
void egress_start_tick(struct egress_face *face);

/* resolver.c. The answer's bytes live during the call. */
typedef void (*resolver_answer_fn)(void *arg, const void *bytes, size_t size);
/* A DNS question of a sandbox, as received. */
struct resolver_query {
	uint32_t from; /* the address of the sandbox */
	const void *bytes;
	size_t size;
	size_t answer_max; /* bytes; 0: the question's limit for UDP */
};
/* answer is called once, now or later, with a copy of arg, unless the face ends before. */
void resolver_ask(struct egress_face *face, const struct resolver_query *query,
		  resolver_answer_fn answer, void *arg, size_t arg_size);
void resolver_on_question(void *arg, int events, int error);
void resolver_stop(struct egress_face *face);
int resolver_servers(struct egress_face *face, struct err *err) _must_check_;

/* dns_tcp.c */
void dns_tcp_on_connection(void *arg, int events, int error);
void dns_tcp_tick(struct egress_face *face);
void dns_tcp_stop(struct egress_face *face);

#endif
