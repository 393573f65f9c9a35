/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of a scripted sandbox. A test listens on one and gets the server's end of every dialled
 * connection; the daemon gets the other end, a real TCP socket with a real answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "engine/fake/process.h"
#include "sys/rights.h"

/* Owner: agent->ports. */
struct fake_port {
	struct fake_port *next;
	uint16_t number;
	fake_dialed_fn fn;
	void *arg;
};

static struct fake_port *find(const struct fake_agent *agent, uint16_t number)
{
	struct fake_port *port = agent->ports;

	while (port && port->number != number)
		port = port->next;
	return port;
}

static struct agent_port describe(const struct fake_port *port)
{
	return (struct agent_port){ .port = port->number,
				    .family = 4,
				    .address = { 127, 0, 0, 1 },
				    .uid = 1000,
				    .pid = 7,
				    .name = STR_LIT("server") };
}

static void tell(struct fake_agent *agent, const struct fake_port *port, bool opened)
{
	struct agent_port described = describe(port);

	if (agent->fd < 0)
		return;
	must(agent_put_port_notice(&agent->out, &described, opened));
	fake_flush(agent);
}

void fake_port_open(struct fake_agent *agent, uint16_t number, fake_dialed_fn fn, void *arg)
{
	struct fake_port *port = calloc(1, sizeof(*port));

	must(port ? 0 : -ENOMEM);
	*port = (struct fake_port){ .next = agent->ports, .number = number, .fn = fn, .arg = arg };
	agent->ports = port;
	tell(agent, port, true);
}

void fake_port_close(struct fake_agent *agent, uint16_t number)
{
	struct fake_port **at = &agent->ports, *port;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	port = *at;
	if (!port)
		return;
	*at = port->next;
	tell(agent, port, false);
	free(port);
}

void fake_ports_free(struct fake_agent *agent)
{
	while (agent->ports) {
		struct fake_port *port = agent->ports;

		agent->ports = port->next;
		free(port);
	}
}

/* ends[0] is the client's. */
static void tcp_pair(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 65536;

	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(listener < 0 || ends[0] < 0 ? -errno : 0);
	/* Kernel buffers must not hide what the daemon does. */
	(void)setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	(void)setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	must(bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
			     getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
			     connect(ends[0], (struct sockaddr *)&address, size) < 0
		     ? -errno
		     : 0);
	ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	must(ends[1] < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0);
	(void)close(listener);
}

bool fake_port_accept(const struct fake_agent *agent, uint16_t number, int ends[2])
{
	if (!find(agent, number))
		return false;
	tcp_pair(ends);
	return true;
}

void fake_port_connected(const struct fake_agent *agent, uint16_t number, int server_fd)
{
	const struct fake_port *port = find(agent, number);

	port->fn(port->arg, server_fd);
}

static bool pass(const struct fake_agent *agent, uint32_t tag, int fd)
{
	char packed[AGENT_DIALED_SIZE];

	agent_pack_dialed(packed, tag, 0);
	return rights_send(agent->fd, packed, sizeof(packed), &fd, 1, MSG_DONTWAIT) ==
	       sizeof(packed);
}

void fake_dial(struct fake_agent *agent, uint32_t tag, uint16_t number)
{
	struct agent_dialed dialed = { .tag = tag, .errno_value = ECONNREFUSED };
	const struct fake_port *port = find(agent, number);
	int ends[2];

	if (!port) {
		must(agent_put_dialed(&agent->out, &dialed));
		return;
	}
	fake_flush(agent); /* the descriptor is sent with a separate message */
	tcp_pair(ends);
	if (buf_len(&agent->out) == 0 && pass(agent, tag, ends[0])) {
		port->fn(port->arg, ends[1]);
	} else {
		dialed.errno_value = EAGAIN;
		must(agent_put_dialed(&agent->out, &dialed));
		(void)close(ends[1]);
	}
	(void)close(ends[0]);
}

void fake_ports_list(struct fake_agent *agent, uint32_t tag)
{
	struct agent_port_listing listing;

	must(agent_ports_begin(&listing, &agent->out, tag));
	for (const struct fake_port *port = agent->ports; port; port = port->next) {
		struct agent_port described = describe(port);

		must(agent_ports_add(&listing, &described));
	}
	agent_ports_end(&listing);
}
