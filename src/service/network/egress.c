/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network links of sandboxes and their changes. Only the engine determines which sandbox has which
 * address. Connections from other addresses are refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/value/ipv4.h"
#include "base/log.h"
#include "base/time.h"
#include "service/create/create_internal.h"
#include "service/network/egress.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"
#include "service/network/network_private.h"

static struct str address_key(const uint32_t *address)
{
	return (struct str){ (const char *)address, sizeof(*address) };
}

struct egress *egress_of(struct sandbox *sandbox)
{
	if (!sandbox->egress)
		sandbox->egress = calloc(1, sizeof(*sandbox->egress));
	return sandbox->egress;
}

static void drop_address(struct sandbox *sandbox)
{
	struct egress *egress = sandbox->egress;

	if (!egress || !egress->address)
		return;
	if (map_get(&sandbox->service->network->by_address, address_key(&egress->address)) ==
	    sandbox)
		(void)map_take(&sandbox->service->network->by_address,
			       address_key(&egress->address));
	egress->address = 0;
}

void egress_linked(struct sandbox *sandbox, const struct engine_network *network)
{
	struct service *service = sandbox->service;
	struct egress *egress;

	if (sandbox->egress && sandbox->egress->address == network->address)
		return;
	drop_address(sandbox);
	if (!network->address)
		return;
	egress = egress_of(sandbox);
	if (!egress)
		return; /* not assigned to a sandbox: refused */
	(void)map_take(&service->network->by_address, address_key(&network->address));
	if (map_put(&service->network->by_address, address_key(&network->address), sandbox) < 0)
		return;
	egress->address = network->address;
	egress->gateway = network->gateway;
	egress->sink = network->sink;
	if (service->config.on_network && network->gateway)
		service->config.on_network(service->config.network_arg, network);
}

/*
 * A sandbox behind its agent's proxy has no address of its own. It gets one of 0.0.0.0/8, from
 * which no packet can come, so that lookups by address find it, too.
 */
static void give_number(struct sandbox *sandbox)
{
	static uint32_t last;
	struct engine_network network = { 0 };

	if (sandbox->egress && sandbox->egress->address)
		return;
	do
		last = last % 0xffffff + 1;
	while (map_get(&sandbox->service->network->by_address, address_key(&last)));
	network.address = last;
	egress_linked(sandbox, &network);
}

void egress_attached(struct sandbox *sandbox, const struct engine_network *network)
{
	if (instance_can(&sandbox->engine->instance, CAN_PROXY))
		give_number(sandbox);
	else
		egress_linked(sandbox, network);
}

void egress_offered(struct sandbox *sandbox, int fd)
{
	const struct service_config *config = &sandbox->service->config;

	if (config->on_egress && egress_is_linked(sandbox))
		config->on_egress(config->network_arg, sandbox->egress->address, fd);
	else
		(void)close(fd);
}

bool egress_is_linked(const struct sandbox *sandbox)
{
	return sandbox->egress && sandbox->egress->address;
}

void egress_free(struct sandbox *sandbox)
{
	struct egress *egress = sandbox->egress;

	if (!egress)
		return;
	drop_address(sandbox);
	for (uint32_t i = 0; i < egress->pin_count; i++)
		free(egress->pins[i].name);
	free(egress->pins);
	egress_sink_free(egress);
	denials_free(egress);
	free(egress);
	sandbox->egress = NULL;
}

struct sandbox *egress_find(struct service *service, uint32_t address)
{
	struct sandbox *sandbox = map_get(&service->network->by_address, address_key(&address));

	return sandbox && !sandbox->pooled && sandbox_state(sandbox) != SANDBOX_DESTROYED ? sandbox
											  : NULL;
}

slot_handle egress_handle(const struct sandbox *sandbox)
{
	return sandbox->handle;
}

const char *egress_id(const struct sandbox *sandbox)
{
	return sandbox->id;
}

uint32_t egress_version(const struct sandbox *sandbox)
{
	return sandbox->network_version;
}

/* ---- packets refused by the host's rules ---- */

/* Records a packet that the host's rules refused. Multicast is not recorded, because programs send
 * it on their own to discover neighbours. */
void egress_rejected(struct service *service, uint32_t from, uint32_t to, uint16_t port,
		     uint8_t protocol)
{
	struct egress_verdict verdict = { .why = EGRESS_PROTOCOL };
	struct sandbox *sandbox = egress_find(service, from);
	struct egress_ask ask = { .protocol = protocol == IPPROTO_UDP	 ? EGRESS_UDP
					      : protocol == IPPROTO_ICMP ? EGRESS_ICMP
									 : EGRESS_OTHER,
				  .address = to,
				  .port = port };

	/* Nor are packets to the sink, because the lookup of the name was recorded. */
	if (!sandbox || to >> 28 == 0xe || egress_is_sink(sandbox, to))
		return;
	/* For a routed sandbox the rules refuse only private addresses and public ones of this
	 * host. */
	if (egress_link(sandbox) == ENGINE_LINK_ROUTED &&
	    !egress_judge_place(sandbox, &ask, &verdict))
		verdict.why = ipv4_class(to) == IPV4_PUBLIC ? EGRESS_HOST : EGRESS_PRIVATE;
	egress_note(sandbox, &ask, &verdict);
}

/* ---- changes ---- */

/* A change of the link in progress. */
struct change {
	struct op op;
	struct egress_policy *old; /* reinstated if the engine fails */
	sandbox_changed_fn done;
	void *arg;
};

static void take_back(struct sandbox *sandbox, struct egress_policy *old)
{
	egress_policy_free(sandbox->attrs.network);
	sandbox->attrs.network = old;
	sandbox->network_version++;
	if (sandbox_save(sandbox) < 0)
		log_error("sandbox %s: the previous network policy could not be saved",
			  sandbox->id);
}

static void on_changed(void *arg, const struct engine_network *network, const struct err *err)
{
	struct change *change = arg;
	struct sandbox *sandbox = op_sandbox(&change->op);
	struct service *service = op_unlink(&change->op);
	struct err gone;

	if (sandbox && sandbox_state(sandbox) == SANDBOX_DESTROYED)
		sandbox = NULL;
	if (sandbox && err)
		take_back(sandbox, TAKE_PTR(change->old));
	else if (sandbox)
		egress_linked(sandbox, network);
	if (!sandbox)
		(void)err_set(&gone, ERR_SANDBOX_GONE, "the sandbox has ended");
	if (service)
		change->done(change->arg, err ? NULL : sandbox,
			     err	? err
			     : !sandbox ? &gone
					: NULL);
	egress_policy_free(change->old);
	free(change);
}

/* The engine is asked only if the kind of link changes; the daemon applies everything else itself.
 */
int egress_apply(struct sandbox *sandbox, struct egress_policy *old, sandbox_changed_fn done,
		 void *arg, struct err *err)
{
	struct change *change;

	sandbox->network_version++;
	if (egress_policy_link(old) == egress_link(sandbox) ||
	    instance_can(&sandbox->engine->instance, CAN_PROXY) || sandbox_is_hibernated(sandbox)) {
		egress_policy_free(old);
		return 1;
	}
	change = OP_NEW(struct change, sandbox->service, sandbox->handle, err);
	if (!change) {
		take_back(sandbox, old);
		return -1;
	}
	change->old = old;
	change->done = done;
	change->arg = arg;
	if (instance_relink(&sandbox->engine->instance, sandbox->id, egress_link(sandbox),
			    on_changed, change, err) == 0)
		return 0;
	take_back(sandbox, old);
	(void)op_end(&change->op);
	return -1;
}

int egress_check_engine(const struct service_engine *engine, const struct egress_policy *policy,
			struct err *err)
{
	if (!policy || policy->mode == NETWORK_NONE || instance_can(&engine->instance, CAN_PROXY))
		return 0;
	return instance_need(&engine->instance, CAN_NETWORK, "network.mode",
			     "give a sandbox a network", err);
}
