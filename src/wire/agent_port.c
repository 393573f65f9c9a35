/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: DIAL, PORTS and their answers. */
#include "wire/agent_codec.h"

#define PORT_FIXED_SIZE 28
#define PORTS_HEADER_SIZE 4

enum { PORT_OPENED = 1 }; /* flag of PORT_NOTICE; without it the port closed */

int agent_put_dial(struct buf *out, uint32_t tag, uint16_t port)
{
	char *p;
	int r;

	if (tag == 0 || port == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_DIAL, 0, 0, 8, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	frame_store16(p + 4, port);
	frame_store16(p + 6, 0);
	return 0;
}

int agent_get_dial(const struct frame *frame, uint32_t *ret_tag, uint16_t *ret_port)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	uint16_t port = frame_u16(&r), zero = frame_u16(&r);

	if (agent_check(frame, AGENT_DIAL, 0, false) < 0 || frame_reader_end(&r) < 0 || tag == 0 ||
	    port == 0 || zero)
		return -EPROTO;
	*ret_tag = tag;
	*ret_port = port;
	return 0;
}

int agent_put_ports(struct buf *out, uint32_t tag)
{
	char *p;
	int r;

	if (tag == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_PORTS, 0, 0, 4, &p);
	if (r == 0)
		frame_store32(p, tag);
	return r;
}

int agent_get_ports(const struct frame *frame, uint32_t *ret_tag)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);

	if (agent_check(frame, AGENT_PORTS, 0, false) < 0 || frame_reader_end(&r) < 0 || tag == 0)
		return -EPROTO;
	*ret_tag = tag;
	return 0;
}

/* ---- agent to daemon ---- */

void agent_pack_dialed(char dst[AGENT_DIALED_SIZE], uint32_t tag, uint32_t errno_value)
{
	frame_store_header(dst, 8, AGENT_DIALED, 0, 0);
	frame_store32(dst + FRAME_HEADER_SIZE, tag);
	frame_store32(dst + FRAME_HEADER_SIZE + 4, errno_value);
}

int agent_put_dialed(struct buf *out, const struct agent_dialed *dialed)
{
	char packed[AGENT_DIALED_SIZE];

	/* A success carries a descriptor, which cannot be queued. */
	if (dialed->tag == 0 || dialed->errno_value == 0 || dialed->errno_value > AGENT_ERRNO_MAX)
		return -EINVAL;
	agent_pack_dialed(packed, dialed->tag, dialed->errno_value);
	return buf_append(out, packed, sizeof(packed));
}

int agent_get_dialed(const struct frame *frame, struct agent_dialed *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_dialed dialed = { .tag = frame_u32(&r) };

	dialed.errno_value = frame_u32(&r);
	if (agent_check(frame, AGENT_DIALED, 0, false) < 0 || frame_reader_end(&r) < 0 ||
	    dialed.tag == 0 || dialed.errno_value > AGENT_ERRNO_MAX)
		return -EPROTO;
	*ret = dialed;
	return 0;
}

static bool port_ok(const struct agent_port *port)
{
	static const uint8_t none[12];

	return port->port && (port->family == 4 || port->family == 6) &&
	       (port->family == 6 || memcmp(port->address + 4, none, sizeof(none)) == 0) &&
	       port->pid <= INT32_MAX && port->name.n <= AGENT_PORT_NAME_MAX &&
	       (port->pid || port->name.n == 0) && agent_no_nul(port->name);
}

static void store_port(char *p, const struct agent_port *port)
{
	frame_store16(p, port->port);
	p[2] = (char)port->family;
	p[3] = (char)port->name.n;
	memcpy(p + 4, port->address, sizeof(port->address));
	frame_store32(p + 20, port->uid);
	frame_store32(p + 24, port->pid);
	if (port->name.n)
		memcpy(p + PORT_FIXED_SIZE, port->name.p, port->name.n);
}

static bool load_port(struct frame_reader *r, struct agent_port *ret)
{
	struct agent_port port = { .port = frame_u16(r) };
	struct str address;
	uint8_t name_n;

	port.family = frame_u8(r);
	name_n = frame_u8(r);
	address = frame_bytes(r, sizeof(port.address));
	port.uid = frame_u32(r);
	port.pid = frame_u32(r);
	port.name = frame_bytes(r, name_n);
	if (r->failed)
		return false;
	memcpy(port.address, address.p, sizeof(port.address));
	if (!port_ok(&port))
		return false;
	*ret = port;
	return true;
}

int agent_put_port_notice(struct buf *out, const struct agent_port *port, bool opened)
{
	char *p;
	int r;

	if (!port_ok(port))
		return -EINVAL;
	r = frame_put(out, AGENT_PORT_NOTICE, opened ? PORT_OPENED : 0, 0,
		      PORT_FIXED_SIZE + port->name.n, &p);
	if (r == 0)
		store_port(p, port);
	return r;
}

int agent_get_port_notice(const struct frame *frame, struct agent_port *ret, bool *ret_opened)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_port port;

	if (agent_check(frame, AGENT_PORT_NOTICE, PORT_OPENED, false) < 0 ||
	    !load_port(&r, &port) || frame_reader_end(&r) < 0)
		return -EPROTO;
	*ret = port;
	*ret_opened = frame->flags & PORT_OPENED;
	return 0;
}

int agent_ports_begin(struct agent_port_listing *l, struct buf *out, uint32_t tag)
{
	size_t start = buf_len(out);
	char *p;
	int r;

	if (tag == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_PORTS_LISTED, 0, 0, PORTS_HEADER_SIZE, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	*l = (struct agent_port_listing){ .out = out, .start = start };
	return 0;
}

int agent_ports_add(struct agent_port_listing *l, const struct agent_port *port)
{
	char *p;
	int r;

	if (!port_ok(port))
		return -EINVAL;
	if (l->count == AGENT_PORTS_MAX)
		return -ENOBUFS;
	r = buf_reserve(l->out, PORT_FIXED_SIZE + port->name.n, &p);
	if (r < 0)
		return r;
	store_port(p, port);
	buf_commit(l->out, PORT_FIXED_SIZE + port->name.n);
	l->count++;
	return 0;
}

void agent_ports_end(struct agent_port_listing *l)
{
	frame_store_header(buf_data(l->out) + l->start,
			   buf_len(l->out) - l->start - FRAME_HEADER_SIZE, AGENT_PORTS_LISTED, 0,
			   0);
}

int agent_get_ports_listed(const struct frame *frame, uint32_t *ret_tag, struct frame_reader *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);

	if (agent_check(frame, AGENT_PORTS_LISTED, 0, false) < 0 || r.failed || tag == 0)
		return -EPROTO;
	*ret_tag = tag;
	*ret = r;
	return 0;
}

int agent_next_port(struct frame_reader *r, struct agent_port *ret)
{
	if (r->failed)
		return -EPROTO;
	if (r->n == 0)
		return 0;
	return load_port(r, ret) ? 1 : -EPROTO;
}
