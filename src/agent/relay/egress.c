/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress over the link, for sandboxes without a network of ours. Programs find a proxy on loopback
 * through their environment, and every connection to it is offered to the daemon as a stream. The
 * daemon reads the proxy protocol, decides and replies; the agent does not inspect the bytes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/agent.h"

#define BACKLOG 128
#define ACCEPTS_PER_EVENT 32

int egress_open(struct agent *agent)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(EGRESS_PORT),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, r;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	agent->relays.egress_fd = fd;
	return 0;
}

/*
 * Pairs: a program may use either spelling, and a variable that is already set counts for both.
 * all_proxy names HTTP as well: libraries without SOCKS support fail if they see another scheme.
 */
void egress_add_env(const char **env, size_t count)
{
	static const char *const variables[EGRESS_VARIABLES] = {
		"http_proxy=http://127.0.0.1:3128",  "HTTP_PROXY=http://127.0.0.1:3128",
		"https_proxy=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128",
		"all_proxy=http://127.0.0.1:3128",   "ALL_PROXY=http://127.0.0.1:3128",
		"no_proxy=localhost,127.0.0.1,::1",  "NO_PROXY=localhost,127.0.0.1,::1",
	};
	size_t own = count;

	for (size_t i = 0; i < EGRESS_VARIABLES; i += 2) {
		size_t key = (size_t)(strchr(variables[i], '=') - variables[i]) + 1;
		bool has = false;

		for (size_t k = 0; k < count && !has; k++)
			has = strncmp(env[k], variables[i], key) == 0 ||
			      strncmp(env[k], variables[i + 1], key) == 0;
		if (has)
			continue;
		env[own++] = variables[i];
		env[own++] = variables[i + 1];
	}
	env[own] = NULL;
}

static void disarm(struct agent *agent)
{
	agent->relays.egress_armed = false;
	(void)agent_watch(agent, EPOLL_CTL_DEL, agent->relays.egress_fd, 0, EVENT_EGRESS, 0);
}

/* While no daemon is connected, or no relay is free, programs wait in the backlog. */
void egress_arm(struct agent *agent)
{
	struct relays *relays = &agent->relays;

	if (relays->egress_fd < 0 || relays->egress_armed || agent->conn_fd < 0 ||
	    relays->count >= RELAYS_MAX)
		return;
	relays->egress_armed =
		agent_watch(agent, EPOLL_CTL_ADD, relays->egress_fd, EPOLLIN, EVENT_EGRESS, 0) == 0;
}

static void offer(struct agent *agent, int fd)
{
	struct stream_frame frame = { .type = STREAM_OFFER,
				      .stream = agent->relays.last_offer + 2,
				      .credit = RELAY_WINDOW_BYTES };
	int one = 1;

	if (!relay_new(agent, frame.stream, fd, RELAY_OFFERED)) {
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	agent->relays.last_offer = frame.stream;
	if (stream_put(&agent->out, &frame) < 0)
		agent->conn_broken = true;
}

void egress_on_event(struct agent *agent)
{
	for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
		int fd;

		if (agent->conn_fd < 0 || agent->conn_broken || agent->relays.count >= RELAYS_MAX) {
			disarm(agent);
			return;
		}
		fd = accept4(agent->relays.egress_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		offer(agent, fd);
	}
}
