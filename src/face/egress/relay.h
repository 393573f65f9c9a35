/* SPDX-License-Identifier: Apache-2.0 */
/* One connection through the proxy. */
#ifndef CAY_FACE_EGRESS_RELAY_H
#define CAY_FACE_EGRESS_RELAY_H

#include "base/buf.h"
#include "face/egress/hearing.h"
#include "face/egress/private.h"
#include "face/egress/requests.h"

#define RELAY_AHEAD_MAX                                                                         \
	65536 /* bytes read from one side and not yet taken by the other; at the limit, reading \
		 stops */

enum relay_state { RELAY_LISTEN, RELAY_CONNECT, RELAY_PASS, RELAY_REFUSE };

struct relay_side {
	int fd;
	struct loop_watch *watch;
	struct buf ahead; /* bytes that it sent and the other side has not taken */
	bool ended;	  /* end of its stream */
	bool told;	  /* which was passed on */
};

/* Owner: the face's table. */
struct relay {
	struct egress_face *face;
	slot_handle handle;
	slot_handle sandbox;
	uint32_t from;	  /* address of its link */
	uint32_t version; /* of the policy it was judged by */
	enum relay_state state;
	struct relay_side in, out; /* the sandbox, the world */
	struct turn turn;	   /* queued: events are left until it comes */
	struct loop_timer *timer;
	int64_t due_ms;
	struct hearing hearing; /* SILENT: connected, and the client's bytes are held */
	struct sniff said;	/* the bytes that were judged */
	struct egress_ask ask;	/* name points into said */
	bool checked;		/* every request is judged, not only the first */
	bool blind;		/* it was allowed without reading its first bytes */
	bool turns;    /* nameless, where names count: TLS that begins behind an answer is judged */
	bool spoke;    /* bytes of the world have passed */
	bool answered; /* the last bytes that passed were the world's */
	bool cut;      /* nothing more of the sandbox passes */
	struct requests requests;
	struct buf held; /* bytes of the sandbox that are not judged yet; reading stops meanwhile */
};

/* A connection whose target is known, with the bytes after it. */
struct relay_start {
	uint32_t from;
	int fd;		  /* taken over */
	uint32_t address; /* its destination */
	uint16_t port;
	struct buf ahead; /* taken over; limit: RELAY_AHEAD_MAX, at most SNIFF_MAX in it */
};
/* accept.c */
void relay_begin(struct egress_face *face, struct sandbox *sandbox, struct relay_start *start);

void relay_free(struct relay *relay);
void relay_reset(struct relay *relay);
/* proxy.c */
void relay_on_in(void *arg, int events, int error);
void relay_on_timer(void *arg);
void relay_listen(struct relay *relay); /* decides, or waits for the bytes that `hearing` needs */
/* Judges the first bytes of the connection; if it is allowed, sets its watches. */
void relay_judge(struct relay *relay, struct sandbox *sandbox, struct egress_verdict *ret);
void relay_settle(struct relay *relay, struct sandbox *sandbox,
		  const struct egress_verdict *verdict);
/* true: another module owns the connection, or it was freed. read: the bytes of the client. */
bool relay_intercepted(struct relay *relay, struct sandbox *sandbox,
		       const struct egress_verdict *verdict, struct str read);
bool relay_is_local(uint32_t address);			  /* one of this host's */
struct sandbox *relay_sandbox(const struct relay *relay); /* NULL: it has ended */
/* Sends the reason and ends it. */
void relay_refuse(struct relay *relay, struct sandbox *sandbox,
		  const struct egress_verdict *verdict);
/* Relays nothing more of the sandbox. The server's bytes still pass for a short time. */
void relay_cut(struct relay *relay);
/* check.c. -1: the relay was freed. */
int relay_check(struct relay *relay) _must_check_;
int relay_read_checked(struct relay *relay) _must_check_;
/* late.c: as relay_read_checked(). */
int relay_read_late(struct relay *relay) _must_check_;
/* The client's first bytes behind an answer. 1: no TLS, to be passed on; 0: held or in `ahead`;
 * -1: broken; -2: the relay is gone. */
int relay_read_turn(struct relay *relay, const char *bytes, size_t n) _must_check_;
void relay_pass(struct relay *relay);	 /* moves some of what can be moved; may free it */
void relay_ready(struct relay *relay);	 /* the same, if it is its turn; else later */
void relay_unqueue(struct relay *relay); /* before it is freed */

#endif
