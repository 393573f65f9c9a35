/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIAL: connects to a port on the sandbox's loopback and passes the connected socket to the daemon.
 * A listening server accepts the connection at once; if its backlog is full, the agent waits.
 */
#ifndef CAY_AGENT_PORT_DIAL_H
#define CAY_AGENT_PORT_DIAL_H

#include "base/macro.h"

#define DIALS_MAX 128 /* in progress or waiting to be passed; one more is refused with EAGAIN */

struct agent;
struct frame;

/* Owner: agent->dials. tag 0: free. */
struct dial {
	uint32_t tag;
	int fd;
	uint16_t port;
	bool v6;
	bool connected;
	int64_t until_us;
};

/*
 * A socket to the port on loopback: 0 if connected or -EINPROGRESS, with *ret_fd. Otherwise -errno,
 * and *ret_fd is unchanged.
 */
int dial_connect(uint16_t port, bool v6, int *ret_fd) _must_check_;
int dial_on_request(struct agent *agent, const struct frame *frame) _must_check_;
void dial_on_event(struct agent *agent, uint32_t id);
/* Passes connected sockets. false: the connection is full. */
bool dial_pump(struct agent *agent);
void dial_run(struct agent *agent);	      /* abandons dials that took too long */
int dial_sleep_ms(const struct agent *agent); /* until then; -1: none is in progress */
void dial_drop_all(struct agent *agent);      /* the daemon that requested them has gone */

#endif
