/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which TCP ports listen inside. Asked for by PORTS; and looked at by ourselves while processes
 * live, so that a port that opens is told without being asked for. The kernel tells nobody when
 * that happens: the look is a poll, frequent after a start and then ever rarer.
 */
#ifndef CAY_AGENT_PORT_PORTS_H
#define CAY_AGENT_PORT_PORTS_H

#include "wire/agent.h"

#define PORTS_KNOWN_MAX 64 /* told when they open and close; further ones only when asked */

struct agent;

/* Owner: struct agent. */
struct ports {
	struct agent_port known[PORTS_KNOWN_MAX]; /* without pid and name */
	uint32_t known_count;
	int64_t due_us; /* the next look; 0: none */
	int64_t wait_us;
	int64_t looked_us;   /* when the tables were read last */
	uint64_t sockets[2]; /* how many there were then, by family */
};

int ports_on_request(struct agent *agent, const struct frame *frame) _must_check_;
/* A process started: what it opens is looked for soon. */
void ports_expect(struct agent *agent);
void ports_run(struct agent *agent);
int ports_sleep_ms(const struct agent *agent); /* -1: no look is due */

/* One line of /proc/net/tcp or tcp6. 1: a listening socket; 0: another; -EINVAL: no such line. */
int ports_parse_line(struct str line, bool v6, struct agent_port *ret,
		     uint64_t *ret_inode) _must_check_;

#endif
