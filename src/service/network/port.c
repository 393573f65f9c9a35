/* SPDX-License-Identifier: Apache-2.0 */
#include "service/network/port.h"

#include <errno.h>

#include "net/foreign.h"
#include "service/event/event_internal.h"
#include "service/network/preview_internal.h"
#include "service/network/network_private.h"

#define DIALS_MAX 16384		  /* of all sandboxes; further ones are refused */
#define PORT_EVENTS_PER_MINUTE 60 /* per sandbox; further ones are not published */

/* Delays between attempts to connect to a refused port, 1.5 s in total. */
static const int again_ms[] = { 30, 70, 150, 300, 450, 500 };

/* Owner: service->network->dials. If the service closes first, the link's completion frees it. */
struct port_dial {
	struct op op;
	struct loop_timer *timer; /* until the next try */
	port_dial_fn fn;	  /* NULL: cancelled */
	void *arg;
	uint16_t port;
	uint8_t tries;
	bool asking; /* the link will answer */
};

static void free_dial(struct port_dial *dial)
{
	(void)op_unlink(&dial->op);
	loop_timer_free(dial->timer);
	free(dial);
}

static void answer(struct port_dial *dial, int fd, const struct err *err)
{
	port_dial_fn fn = dial->fn;
	void *arg = dial->arg;

	free_dial(dial);
	if (fn)
		fn(arg, fd, err);
	else
		foreign_close(fd);
}

static int ask(struct port_dial *dial, struct sandbox *sandbox, struct err *err);

static void on_again(void *arg)
{
	struct port_dial *dial = arg;
	struct sandbox *sandbox = op_sandbox(&dial->op);
	struct err err;

	if (!sandbox)
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox has ended");
	if (!sandbox || ask(dial, sandbox, &err) < 0)
		answer(dial, -1, &err);
}

static bool try_again(struct port_dial *dial, const struct err *error)
{
	if (!dial->op.service || !dial->fn || error->code != ERR_PORT_CLOSED ||
	    error->errno_value != ECONNREFUSED || dial->tries >= ARRAY_LEN(again_ms))
		return false;
	if (!dial->timer &&
	    loop_timer_new(dial->op.service->config.loop, on_again, dial, &dial->timer) < 0)
		return false;
	loop_timer_set(dial->timer, again_ms[dial->tries++], 0);
	return true;
}

static void on_dialed(void *arg, int fd, const struct err *error)
{
	struct port_dial *dial = arg;

	dial->asking = false;
	if (!error || !try_again(dial, error))
		answer(dial, fd, error);
}

static int ask(struct port_dial *dial, struct sandbox *sandbox, struct err *err)
{
	if (!sandbox->link)
		return err_set(err, ERR_UNAVAILABLE,
			       "the connection to sandbox %s is being restored", sandbox->id);
	if (link_dial(sandbox->link, dial->port, on_dialed, dial, err) < 0)
		return -1;
	dial->asking = true;
	return 0;
}

int port_dial(struct sandbox *sandbox, uint16_t port, port_dial_fn fn, void *arg,
	      struct port_dial **ret, struct err *err)
{
	struct service *service = sandbox->service;
	struct port_dial *dial;

	if (service->network->dials.count >= DIALS_MAX)
		return err_set(err, ERR_CAPACITY_EXCEEDED, "too many connections are being made");
	dial = calloc(1, sizeof(*dial));
	if (!dial)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*dial = (struct port_dial){ .fn = fn, .arg = arg, .port = port };
	op_begin(&dial->op, &service->network->dials, service, sandbox->handle);
	if (ask(dial, sandbox, err) < 0) {
		free_dial(dial);
		return -1;
	}
	*ret = dial;
	return 0;
}

void port_dial_cancel(struct port_dial *dial)
{
	dial->fn = NULL;
	if (!dial->asking)
		free_dial(dial);
}

void port_stop_all(struct service *service)
{
	struct op *next;

	for (struct op *op = service->network->dials.first; op; op = next) {
		struct port_dial *dial = CONTAINER_OF(op, struct port_dial, op);

		next = op->next;
		dial->fn = NULL;
		if (dial->asking)
			loop_timer_free(TAKE_PTR(dial->timer));
		else
			free_dial(dial);
	}
	op_list_abandon(&service->network->dials);
}

/* ---- listeners ---- */

struct port_listing {
	struct op op;
	port_list_fn each;
	void *arg;
};

static void on_listed(void *arg, const struct link_port *port, const struct err *error)
{
	struct port_listing *listing = arg;
	port_list_fn each = listing->each;
	void *each_arg = listing->arg;
	struct port_info info;

	if (port) {
		info = (struct port_info){ .port = port->port,
					   .address = port->address,
					   .uid = port->uid,
					   .pid = port->pid,
					   .process = port->process };
		if (listing->op.service)
			each(each_arg, &info, NULL);
		return;
	}
	if (op_end(&listing->op))
		each(each_arg, NULL, error);
}

int port_list(struct sandbox *sandbox, port_list_fn each, void *arg, struct err *err)
{
	struct port_listing *listing;

	if (!sandbox->link)
		return err_set(err, ERR_UNAVAILABLE,
			       "the connection to sandbox %s is being restored", sandbox->id);
	listing = OP_NEW(struct port_listing, sandbox->service, sandbox->handle, err);
	if (!listing)
		return -1;
	listing->each = each;
	listing->arg = arg;
	if (link_ports(sandbox->link, on_listed, listing, err) == 0)
		return 0;
	(void)op_end(&listing->op);
	return -1;
}

/* A sandbox can report ports at any rate, so the number of events per minute is limited. */
void port_told(struct sandbox *sandbox, const struct link_port *port, bool opened)
{
	int64_t minute = time_boot_ms() / 60000;

	if (sandbox->pooled || sandbox_state(sandbox) != SANDBOX_RUNNING)
		return;
	if (sandbox->port_minute != (uint32_t)minute) {
		sandbox->port_minute = (uint32_t)minute;
		sandbox->port_events = 0;
	}
	if (sandbox->port_events++ < PORT_EVENTS_PER_MINUTE)
		event_port(sandbox, port, opened);
	else
		sandbox->port_events = PORT_EVENTS_PER_MINUTE;
}
