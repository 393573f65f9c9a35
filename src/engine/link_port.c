/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports inside: dialling, lists, and notices when they open. The socket of a dial arrives with its
 * answer, and is the only descriptor that an agent may pass; any other ends the link.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "engine/link_state.h"
#include "net/foreign.h"
#include "sys/rights.h"

/* Takes what arrived. false: more than one, or something else. */
static bool take_passed(struct link *link, const struct rights *got)
{
	bool ok = !got->cut;

	for (size_t i = 0; i < got->count; i++) {
		if (link->passed_fd < 0) {
			link->passed_fd = got->fds[i];
		} else {
			foreign_close(got->fds[i]);
			ok = false;
		}
	}
	return ok;
}

ssize_t link_receive(struct link *link, char *at, size_t want)
{
	/* with space for more than is allowed, so that it can be closed as a foreign one */
	struct rights got;
	ssize_t n = rights_receive(link->fd, at, want, RIGHTS_MAX, MSG_DONTWAIT, &got);

	if (n < 0)
		return n;
	return take_passed(link, &got) ? n : -EPROTO;
}

static int check_ports(const struct link *link, struct err *err)
{
	if (link_check_ready(link, err) < 0)
		return -1;
	if (!(link->features & AGENT_HAS_PORTS))
		return err_set(err, ERR_UNSUPPORTED,
			       "this sandbox was started by a version without previews");
	return 0;
}

/* ---- dial ---- */

int link_dial(struct link *link, uint16_t port, link_dial_fn done, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (check_ports(link, err) < 0)
		return -1;
	if (!link->passes_descriptors)
		return link_stream_dial(link, port, done, arg, err);
	request = link_request_new(link, arg, err);
	if (!request)
		return -1;
	request->dialed = done;
	if (link_commit(link, before, agent_put_dial(&link->out, request->node.id, port), err) == 0)
		return 0;
	link_request_free(link, request);
	return -1;
}

void link_dial_error(struct err *err, int error)
{
	(void)err_set_errno(err, error == EAGAIN ? ERR_UNAVAILABLE : ERR_PORT_CLOSED, error,
			    "nothing answers on this port");
}

int link_on_dialed(struct link *link, const struct frame *frame)
{
	struct link_request *request;
	struct agent_dialed dialed;
	link_dial_fn done;
	struct err err;
	void *arg;
	int r;

	if (agent_get_dialed(frame, &dialed) < 0)
		return link_protocol_error(link, "bad dial frame");
	request = link_request_find(link, dialed.tag);
	if (!request || !request->dialed)
		return link_protocol_error(link, "an unexpected connection");
	if (dialed.errno_value) {
		link_dial_error(&err, (int)dialed.errno_value);
		link_request_fail(link, request, &err);
		return 0;
	}
	r = link->passed_fd < 0 ? -EPROTO : foreign_check(link->passed_fd);
	if (r == -ENOTCONN) {
		foreign_close(TAKE_FD(link->passed_fd));
		(void)err_set_errno(&err, ERR_PORT_CLOSED, ECONNRESET,
				    "the server closed the connection at once");
		link_request_fail(link, request, &err);
		return 0;
	}
	if (r < 0)
		return link_protocol_error(link, "a dial without its connection");
	done = request->dialed;
	arg = request->arg;
	link_request_free(link, request);
	done(arg, TAKE_FD(link->passed_fd), NULL);
	return 0;
}

/* ---- lists and notices ---- */

struct port_text {
	char address[INET6_ADDRSTRLEN];
	char process[AGENT_PORT_NAME_MAX + 1];
};

static struct link_port port_of(const struct agent_port *from, struct port_text *text)
{
	struct link_port port = { .port = from->port,
				  .address = text->address,
				  .uid = from->uid,
				  .pid = from->pid,
				  .process = text->process };

	if (!inet_ntop(from->family == 6 ? AF_INET6 : AF_INET, from->address, text->address,
		       sizeof(text->address)))
		text->address[0] = '\0';
	(void)link_clean(text->process, from->name);
	return port;
}

int link_ports(struct link *link, link_ports_fn each, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (check_ports(link, err) < 0)
		return -1;
	request = link_request_new(link, arg, err);
	if (!request)
		return -1;
	request->ports = each;
	if (link_commit(link, before, agent_put_ports(&link->out, request->node.id), err) == 0)
		return 0;
	link_request_free(link, request);
	return -1;
}

int link_on_ports(struct link *link, const struct frame *frame)
{
	struct link_request *request;
	struct frame_reader reader;
	struct agent_port found;
	struct port_text text;
	uint32_t tag;
	int r;

	if (agent_get_ports_listed(frame, &tag, &reader) < 0)
		return link_protocol_error(link, "bad list of ports");
	request = link_request_find(link, tag);
	if (!request || !request->ports)
		return link_protocol_error(link, "an unexpected list of ports");
	while ((r = agent_next_port(&reader, &found)) > 0) {
		struct link_port port = port_of(&found, &text);

		if (++request->listed > AGENT_PORTS_MAX)
			return link_protocol_error(link, "too many ports");
		request->ports(request->arg, &port, NULL);
		if (link->state == LINK_GONE) /* freed in the callback; it completes the rest */
			return 0;
	}
	if (r < 0)
		return link_protocol_error(link, "bad list of ports");
	link_request_fail(link, request, NULL);
	return 0;
}

int link_on_port_notice(struct link *link, const struct frame *frame)
{
	struct agent_port found;
	struct port_text text;
	struct link_port port;
	bool opened;

	if (agent_get_port_notice(frame, &found, &opened) < 0)
		return link_protocol_error(link, "bad port notice");
	port = port_of(&found, &text);
	if (link->hooks.on_port)
		link->hooks.on_port(link->arg, &port, opened);
	return 0;
}
