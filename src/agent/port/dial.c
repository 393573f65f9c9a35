/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/port/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "base/time.h"
#include "sys/rights.h"

#define CONNECT_US 5000000LL

static void free_dial(struct agent *agent, struct dial *dial)
{
	if (dial->fd >= 0)
		(void)close(dial->fd);
	if (dial->connected)
		agent->dials_connected--;
	agent->dial_count--;
	*dial = (struct dial){ .fd = -1 };
}

static void refuse(struct agent *agent, uint32_t tag, int error)
{
	struct agent_dialed dialed = { .tag = tag, .errno_value = (uint32_t)error };

	if (agent_put_dialed(&agent->out, &dialed) < 0)
		agent->conn_broken = true;
}

static int connect_to(int fd, bool v6, uint16_t port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int r = v6 ? connect(fd, (const struct sockaddr *)&six, sizeof(six))
		   : connect(fd, (const struct sockaddr *)&four, sizeof(four));

	return r < 0 ? -errno : 0;
}

int dial_connect(uint16_t port, bool v6, int *ret_fd)
{
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = connect_to(fd, v6, port);
	if (r < 0 && r != -EINPROGRESS) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return r;
}

static void mark_connected(struct agent *agent, struct dial *dial)
{
	dial->connected = true;
	agent->dials_connected++;
}

/* One attempt. 0: connected, or in progress; otherwise -errno and no socket is left. */
static int try_one(struct agent *agent, struct dial *dial, bool v6)
{
	int fd = -1, r = dial_connect(dial->port, v6, &fd);

	if (fd < 0)
		return r;
	if (r == -EINPROGRESS)
		r = agent_watch(agent, EPOLL_CTL_ADD, fd, EPOLLOUT, EVENT_DIAL,
				(uint32_t)(dial - agent->dials));
	else if (r == 0)
		mark_connected(agent, dial);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	dial->fd = fd;
	dial->v6 = v6;
	return 0;
}

/* 127.0.0.1 first, then ::1; the first refusal is reported. */
static void begin(struct agent *agent, struct dial *dial)
{
	int first = try_one(agent, dial, false);

	if (first == 0 || try_one(agent, dial, true) == 0)
		return;
	refuse(agent, dial->tag, -first);
	free_dial(agent, dial);
}

int dial_on_request(struct agent *agent, const struct frame *frame)
{
	struct dial *dial = NULL;
	uint16_t port;
	uint32_t tag;

	if (agent_get_dial(frame, &tag, &port) < 0)
		return -EPROTO;
	for (int i = 0; i < DIALS_MAX && !dial; i++)
		if (agent->dials[i].tag == 0)
			dial = &agent->dials[i];
	if (!dial) {
		refuse(agent, tag, EAGAIN);
		return 0;
	}
	*dial = (struct dial){
		.tag = tag, .fd = -1, .port = port, .until_us = time_mono_us() + CONNECT_US
	};
	agent->dial_count++;
	begin(agent, dial);
	return 0;
}

void dial_on_event(struct agent *agent, uint32_t id)
{
	struct dial *dial = id < DIALS_MAX ? &agent->dials[id] : NULL;
	int error = 0;
	socklen_t size = sizeof(error);

	if (!dial || dial->fd < 0 || dial->connected)
		return;
	if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	(void)agent_watch(agent, EPOLL_CTL_DEL, dial->fd, 0, EVENT_DIAL, id);
	if (error == 0) {
		mark_connected(agent, dial);
		return;
	}
	(void)close(dial->fd);
	dial->fd = -1;
	if (!dial->v6 && try_one(agent, dial, true) == 0)
		return;
	refuse(agent, dial->tag, error);
	free_dial(agent, dial);
}

/*
 * Sends the frame and the descriptor as one message; no frame of the queue may be half-sent before
 * it.
 */
static bool pass(struct agent *agent, struct dial *dial)
{
	char packed[AGENT_DIALED_SIZE];
	ssize_t n;

	agent_pack_dialed(packed, dial->tag, 0);
	n = rights_send(agent->conn_fd, packed, sizeof(packed), &dial->fd, 1, MSG_DONTWAIT);
	if (n == -EAGAIN) {
		agent->out_waits = true;
		return false;
	}
	if (n == -ETOOMANYREFS) /* the daemon has not received the previous ones */
		refuse(agent, dial->tag, EAGAIN);
	else if (n < 0)
		agent->conn_broken = true;
	else if ((size_t)n < sizeof(packed) &&
		 buf_append(&agent->out, packed + n, sizeof(packed) - (size_t)n) < 0)
		agent->conn_broken = true;
	free_dial(agent, dial);
	return true;
}

bool dial_pump(struct agent *agent)
{
	for (int i = 0; agent->dials_connected && i < DIALS_MAX; i++) {
		if (!agent->dials[i].connected)
			continue;
		/* The rest of a half-sent frame in the queue precedes the next. */
		if (buf_len(&agent->out) || agent->conn_broken)
			return true;
		if (!pass(agent, &agent->dials[i]))
			return false;
	}
	return true;
}

void dial_run(struct agent *agent)
{
	int64_t now_us;

	if (!agent->dial_count)
		return;
	now_us = time_mono_us();
	for (uint32_t i = 0; i < DIALS_MAX; i++) {
		struct dial *dial = &agent->dials[i];

		if (!dial->tag || dial->connected || dial->until_us > now_us)
			continue;
		refuse(agent, dial->tag, ETIMEDOUT);
		free_dial(agent, dial);
	}
}

int dial_sleep_ms(const struct agent *agent)
{
	int64_t until_us = 0;

	for (int i = 0; agent->dial_count && i < DIALS_MAX; i++) {
		const struct dial *dial = &agent->dials[i];

		if (dial->tag && !dial->connected && (!until_us || dial->until_us < until_us))
			until_us = dial->until_us;
	}
	return until_us ? (int)(MAX(until_us - time_mono_us(), 0) / 1000 + 1) : -1;
}

void dial_drop_all(struct agent *agent)
{
	for (int i = 0; agent->dial_count && i < DIALS_MAX; i++)
		if (agent->dials[i].tag)
			free_dial(agent, &agent->dials[i]);
}
