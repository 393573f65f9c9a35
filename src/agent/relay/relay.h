/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay is the agent's end of a stream (wire/stream.h): a TCP connection inside the sandbox whose
 * bytes travel to the daemon in frames. The daemon opens one to reach a port (STREAM_DIAL). The
 * agent opens one for every connection that a program makes to its egress proxy (STREAM_OFFER).
 *
 * Bytes that the connection does not take are kept, at most RELAY_WINDOW_BYTES. The connection is
 * read only as far as the daemon gave credit and the link's socket takes the bytes, one frame of
 * each relay in turn. Relays belong to the daemon's connection and are reset when that ends.
 */
#ifndef CAY_AGENT_RELAY_RELAY_H
#define CAY_AGENT_RELAY_RELAY_H

#include "base/buf.h"
#include "wire/stream.h"

#define RELAYS_MAX 1280	  /* one more is refused with EAGAIN */
#define RELAY_BUCKETS 256 /* of the table; a power of two */
#define EGRESS_PORT 3128  /* on 127.0.0.1; the usual port of HTTP proxies */
#define RELAY_WINDOW_BYTES (128U << 10)

struct agent;

/* RELAY_CONNECTING -> RELAY_OPEN (dialled); RELAY_OFFERED -> RELAY_OPEN (offered). */
enum relay_state { RELAY_CONNECTING, RELAY_OFFERED, RELAY_OPEN };

/* Owner: agent->relays.by_id. */
struct relay {
	uint32_t id;
	enum relay_state state;
	int fd;
	bool v6;
	uint16_t port;
	int64_t until_us; /* deadline of RELAY_CONNECTING */
	struct stream_flow flow;
	struct buf out;	    /* for the connection; limit: RELAY_WINDOW_BYTES */
	bool readable;	    /* edge-triggered: set by an event, cleared by EAGAIN */
	bool closing;	    /* the daemon stopped reading: closed when out is empty */
	bool ready;	    /* in the list of relays with bytes to send */
	struct relay *next; /* of its bucket */
	struct relay *next_ready, **pprev_ready;
};

struct relays {
	struct relay *by_id[RELAY_BUCKETS];
	uint32_t count, connecting;
	uint32_t last_dial; /* highest numbers opened on this connection */
	uint32_t last_offer;
	struct relay *ready, **ready_end;
	int egress_fd; /* listens for programs inside; -1: off */
	bool egress_armed;
};

void relay_init(struct agent *agent);
int relay_on_frame(struct agent *agent, const struct frame *frame) _must_check_;
void relay_on_event(struct agent *agent, uint32_t id, uint32_t events);
/* Sends one frame of one relay. false: none has bytes to send. */
bool relay_pump(struct agent *agent);
void relay_run(struct agent *agent);	       /* abandons connections that took too long */
int relay_sleep_ms(const struct agent *agent); /* until then; -1: none is in progress */
void relay_drop_all(struct agent *agent);      /* the daemon's connection has ended */

struct relay *relay_new(struct agent *agent, uint32_t id, int fd, enum relay_state state);

/* egress.c */
int egress_open(struct agent *agent) _must_check_; /* listens on 127.0.0.1:EGRESS_PORT */
void egress_arm(struct agent *agent); /* the daemon is connected, or a relay ended: accept again */
void egress_on_event(struct agent *agent);
#define EGRESS_VARIABLES 8
/*
 * Adds the usual proxy variables that env does not have in either case. env has count entries, and
 * space for EGRESS_VARIABLES more and the terminating NULL.
 */
void egress_add_env(const char **env, size_t count);

/*
 * bridge.c: connects standard input and output to the agent that listens at path, until both have
 * ended. Returns an exit status.
 */
int bridge_run(const char *path);

#endif
