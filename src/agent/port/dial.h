/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIAL: connects to a port on the sandbox's loopback and passes the connected socket to the daemon.
 * A server that listens takes the connection at once; one whose backlog is full is waited for.
 */
#ifndef CAY_AGENT_PORT_DIAL_H
#define CAY_AGENT_PORT_DIAL_H

#include "base/macro.h"

#define DIALS_MAX 128 /* under way or waiting to be passed; one more is refused with EAGAIN */

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

/* A socket to the port on loopback, connected or being connected: 0 or -EINPROGRESS and *ret_fd.
 * Else -errno, and *ret_fd stays. */
int dial_connect(uint16_t port, bool v6, int *ret_fd) _must_check_;
int dial_on_request(struct agent *agent, const struct frame *frame) _must_check_;
void dial_on_event(struct agent *agent, uint32_t id);
/* Passes what is connected. false: the socket is full. */
bool dial_pump(struct agent *agent);
void dial_run(struct agent *agent);	      /* gives up what took too long */
int dial_sleep_ms(const struct agent *agent); /* until then; -1: nothing is under way */
void dial_drop_all(struct agent *agent);      /* whoever asked has gone */

#endif
