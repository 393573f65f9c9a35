/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's connection: accepting it, reading requests, sending output. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/output/follow.h"
#include "sys/rights.h"

#define RECV_BYTES 16384
#define ACCEPTS_PER_EVENT 16
/*
 * Output of this size is sent without a copy; less is cheaper to copy and send with other frames.
 */
#define DIRECT_MIN_BYTES 16384
/*
 * Space for a frame of output while the previous one is being read. The kernel doubles the value
 * for its own bookkeeping, and reduces it to the host's limit.
 */
#define SEND_BUFFER_BYTES (384 << 10)
/*
 * Small replies (REFUSED, STARTED, HELLO) ignore the pump's mark. A daemon that sends requests and
 * never reads is disconnected at this limit.
 */
#define OUT_LIMIT_BYTES (4U << 20)

void conn_drop_given(struct agent *agent)
{
	for (size_t i = 0; i < ARRAY_LEN(agent->given_fds); i++) {
		if (agent->given_fds[i] >= 0)
			(void)close(agent->given_fds[i]);
		agent->given_fds[i] = -1;
	}
}

static void conn_close(struct agent *agent)
{
	conn_drop_given(agent);
	if (agent->conn_fd >= 0)
		(void)close(agent->conn_fd);
	agent->conn_fd = -1;
	agent->conn_broken = false;
	agent->out_waits = agent->out_armed = false;
	agent->connection++; /* invalidates events of the old connection */
	buf_done(&agent->in);
	buf_done(&agent->out);
	follow_lose_all(agent);
	dial_drop_all(agent);
	relay_drop_all(agent);
	process_on_conn_lost(agent);
	/* They were for the old connection. */
	buf_done(&agent->out);
	agent->conn_broken = false;
}

void conn_done(struct agent *agent, uint32_t tag, enum agent_refusal refusal, int error)
{
	struct agent_done done = {
		.tag = tag,
		.refusal = refusal,
		.errno_value = refusal ? (uint32_t)error : 0,
	};

	if (tag && agent_put_done(&agent->out, &done) < 0)
		agent->conn_broken = true;
}

/*
 * A process of the sandbox can connect to the listening socket, too. The kernel reports its pid.
 * The daemon is outside our pid namespace and is reported as 0.
 */
static bool is_daemon(const struct agent *agent, int fd)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (agent->trust_any_peer)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return false;
	return cred.pid == 0 || (agent->trust_own_user && cred.uid == geteuid());
}

static void adopt_connection(struct agent *agent, int fd)
{
	struct agent_hello hello = {
		.version = AGENT_PROTOCOL_VERSION,
		.features = (groups_on(&agent->groups) ? AGENT_HAS_CGROUPS : 0) |
			    (agent->tools_fd >= 0 ? AGENT_HAS_TOOLS : 0) | AGENT_HAS_PORTS |
			    AGENT_HAS_HOLD | AGENT_HAS_STREAMS | AGENT_HAS_ORPHANS |
			    (agent->relays.egress_fd >= 0 ? AGENT_HAS_EGRESS : 0),
		.next_process_id = agent->next_process_id,
		.process_count = agent->process_count,
	};

	int send_bytes = SEND_BUFFER_BYTES;

	conn_close(agent);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
	buf_init(&agent->in, FRAME_HEADER_SIZE + AGENT_TO_MAX_BYTES + RECV_BYTES);
	buf_init(&agent->out, OUT_LIMIT_BYTES);
	agent->conn_fd = fd;
	if (agent_watch(agent, EPOLL_CTL_ADD, fd, EPOLLIN, EVENT_CONN, agent->connection) < 0 ||
	    agent_put_hello(&agent->out, &hello) < 0)
		agent->conn_broken = true;
	egress_arm(agent);
}

void conn_on_listen(struct agent *agent)
{
	for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
		int fd = accept4(agent->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (is_daemon(agent, fd))
			adopt_connection(agent, fd);
		else
			(void)close(fd);
	}
}

/*
 * Memory that a stream of input needed is kept while it flows: freeing it after every frame would
 * cost more than copying the bytes.
 */
static void tidy(struct agent *agent, bool flows)
{
	if (buf_len(&agent->in))
		return;
	if (flows)
		agent->in.head = agent->in.tail = 0;
	else
		buf_clear(&agent->in);
}

static int on_bytes(struct agent *agent, bool flows)
{
	struct frame frame;
	int r;

	while ((r = frame_next(buf_str(&agent->in), AGENT_TO_MAX_BYTES, &frame)) > 0) {
		size_t size = frame_size(&frame);

		r = request_on_frame(agent, &frame);
		if (r < 0)
			return r;
		agent->in.head += size;
	}
	tidy(agent, flows);
	return r;
}

/* Only an agent that has let go accepts descriptors; otherwise the kernel closes them. */
static ssize_t receive(struct agent *agent, char *at, size_t want)
{
	struct rights got;
	ssize_t n;

	if (!agent->groups.away && !agent->memory.away) {
		n = recv(agent->conn_fd, at, want, MSG_DONTWAIT);
		return n < 0 ? -errno : n;
	}
	n = rights_receive(agent->conn_fd, at, want, ARRAY_LEN(agent->given_fds), MSG_DONTWAIT,
			   &got);
	if (n > 0 && got.count) {
		conn_drop_given(agent);
		memcpy(agent->given_fds, got.fds, sizeof(agent->given_fds));
	}
	return n;
}

void conn_on_event(struct agent *agent, uint32_t events)
{
	size_t want = MAX(frame_missing(buf_str(&agent->in)), (size_t)RECV_BYTES);
	ssize_t n;
	char *at;

	if (buf_len(&agent->in) == 0)
		want = MIN(MAX(want, agent->in.capacity), agent->in.limit_bytes);
	if (events & EPOLLOUT)
		agent->out_waits = false;
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	if (buf_reserve(&agent->in, want, &at) < 0) {
		agent->conn_broken = true;
		return;
	}
	n = receive(agent, at, want);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n <= 0) {
		agent->conn_broken = true;
		return;
	}
	buf_commit(&agent->in, (size_t)n);
	if (on_bytes(agent, n >= RECV_BYTES) < 0)
		agent->conn_broken = true;
}

/* Sends the queue. false: the socket is full, or closed. */
static bool send_queue(struct agent *agent)
{
	while (buf_len(&agent->out)) {
		ssize_t n = send(agent->conn_fd, buf_data(&agent->out), buf_len(&agent->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			buf_consume(&agent->out, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			agent->out_waits = true;
		else if (n < 0 && errno != EINTR)
			agent->conn_broken = true;
		if (agent->out_waits || agent->conn_broken)
			return false;
	}
	return true;
}

static void append(struct agent *agent, const void *p, size_t n)
{
	if (buf_append(&agent->out, p, n) < 0)
		agent->conn_broken = true;
}

void conn_send(struct agent *agent, const void *p, size_t n)
{
	ssize_t sent = 0;

	if (send_queue(agent)) {
		do
			sent = send(agent->conn_fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != EAGAIN)
			agent->conn_broken = true;
		sent = MAX(sent, 0);
		if ((size_t)sent == n)
			return;
		agent->out_waits = true;
	}
	append(agent, (const char *)p + sent, n - (size_t)sent);
}

void conn_queue_output(struct agent *agent, const struct agent_output *head,
		       const struct iovec *pieces, int count)
{
	char packed[FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE];

	agent_pack_output(packed, head);
	append(agent, packed, sizeof(packed));
	for (int i = 0; i < count; i++)
		append(agent, pieces[i].iov_base, pieces[i].iov_len);
}

/* The socket took only sent bytes of a frame: the rest must follow directly. */
static void queue_rest(struct agent *agent, const struct iovec *parts, int count, size_t sent)
{
	for (int i = 0; i < count; i++) {
		size_t skip = MIN(sent, parts[i].iov_len);

		sent -= skip;
		if (skip < parts[i].iov_len)
			append(agent, (const char *)parts[i].iov_base + skip,
			       parts[i].iov_len - skip);
	}
}

bool conn_output(struct agent *agent, const struct agent_output *head, const struct iovec *pieces,
		 int count)
{
	char packed[FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE];
	struct iovec parts[3] = { { packed, sizeof(packed) } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 1 };
	ssize_t n;

	if (head->bytes.n < DIRECT_MIN_BYTES) {
		conn_queue_output(agent, head, pieces, count);
		return true;
	}
	if (!send_queue(agent))
		return false;
	agent_pack_output(packed, head);
	for (int i = 0; i < count; i++)
		parts[message.msg_iovlen++] = pieces[i];
	do
		n = sendmsg(agent->conn_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		if (errno == EAGAIN)
			agent->out_waits = true;
		else
			agent->conn_broken = true;
		return false;
	}
	if ((size_t)n < sizeof(packed) + head->bytes.n) {
		queue_rest(agent, parts, 1 + count, (size_t)n);
		agent->out_waits = true;
	}
	return true;
}

/* Sends frames of collected replies, follows and relays in turn, one each. */
static void pump(struct agent *agent)
{
	bool more = true;

	while (more && !agent->out_waits && !agent->conn_broken &&
	       buf_len(&agent->out) < AGENT_OUT_HIGH_BYTES) {
		more = process_tell(agent);
		more |= follow_pump(agent);
		more |= relay_pump(agent);
	}
}

void conn_flush(struct agent *agent)
{
	if (agent->conn_broken)
		conn_close(agent);
	if (agent->conn_fd < 0)
		return;
	while (!agent->out_waits && !agent->conn_broken) {
		pump(agent);
		if (agent->out_waits || agent->conn_broken)
			break;
		if (buf_len(&agent->out) == 0 && !agent->dials_connected)
			break;
		if (send_queue(agent))
			(void)dial_pump(agent);
	}
	if (agent->conn_broken) {
		conn_close(agent);
		return;
	}
	if (agent->out_armed != agent->out_waits) { /* EPOLLOUT is on only while it is needed */
		agent->out_armed = agent->out_waits;
		(void)agent_watch(agent, EPOLL_CTL_MOD, agent->conn_fd,
				  EPOLLIN | (agent->out_armed ? EPOLLOUT : 0), EVENT_CONN,
				  agent->connection);
	}
}
