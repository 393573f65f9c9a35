/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP ports that listen inside. The daemon can request the list (PORTS). While processes run,
 * the agent also polls, to report ports that open and close. The kernel has no event for that. The
 * poll is frequent after a start and then becomes less frequent.
 */
#ifndef CAY_AGENT_PORT_PORTS_H
#define CAY_AGENT_PORT_PORTS_H

#include "wire/agent.h"

#define PORTS_KNOWN_MAX 64 /* reported when they open and close; further ones only on request */

struct agent;

/* Owner: struct agent. */
struct ports {
	struct agent_port known[PORTS_KNOWN_MAX]; /* without pid and name */
	uint32_t known_count;
	int64_t due_us; /* the next poll; 0: none */
	int64_t wait_us;
	int64_t looked_us;   /* when the tables were last read */
	uint64_t sockets[2]; /* number of sockets then, by family */
};

int ports_on_request(struct agent *agent, const struct frame *frame) _must_check_;
/* A process started: poll soon. */
void ports_expect(struct agent *agent);
void ports_run(struct agent *agent);
int ports_sleep_ms(const struct agent *agent); /* -1: no poll is due */

/* Parses a line of /proc/net/tcp or tcp6. 1: a listening socket; 0: another; -EINVAL: malformed. */
int ports_parse_line(struct str line, bool v6, struct agent_port *ret,
		     uint64_t *ret_inode) _must_check_;

#endif
