/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links and decisions. Which sandbox has which address is known from the engine only, so that an
 * address nobody was given is nobody's: what comes from there is refused.
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

#define PINS_MAX 1024 /* of one sandbox; the one that ends first makes room */
#define PIN_MIN_SEC 60
#define PIN_MAX_SEC 3600
#define PIN_GRACE_SEC 60 /* programs look up a little before they connect */

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
		return; /* not assigned: refused */
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
 * A sandbox behind its agent's proxy has no address of its own. It gets one of 0.0.0.0/8, where no
 * packet can come from, so that everything that finds sandboxes by address finds it too.
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

/* ---- pins ---- */

static struct egress_pin *pin_place(struct egress *egress, struct str name, uint32_t address,
				    int64_t now_ms)
{
	struct egress_pin *best = NULL;

	for (uint32_t i = 0; i < egress->pin_count; i++) {
		struct egress_pin *pin = &egress->pins[i];

		if (pin->address == address && str_is(name, pin->name))
			return pin;
		if (!best || pin->until_ms < best->until_ms)
			best = pin;
	}
	if (best && (best->until_ms <= now_ms || egress->pin_count == PINS_MAX)) {
		free(TAKE_PTR(best->name));
		return best;
	}
	if (egress->pin_count == egress->pin_room) {
		uint32_t room = MAX(egress->pin_room * 2, 8);
		struct egress_pin *pins = realloc(egress->pins, room * sizeof(*pins));

		if (!pins)
			return NULL;
		egress->pins = pins;
		egress->pin_room = room;
	}
	egress->pins[egress->pin_count] = (struct egress_pin){ .name = NULL };
	return &egress->pins[egress->pin_count++];
}

void egress_pin(struct sandbox *sandbox, struct str name, uint32_t address, uint32_t ttl_sec)
{
	int64_t now_ms = time_boot_ms();
	int64_t sec = MIN(MAX(ttl_sec, PIN_MIN_SEC), PIN_MAX_SEC) + PIN_GRACE_SEC;
	struct egress *egress = egress_of(sandbox);
	struct egress_pin *pin = egress ? pin_place(egress, name, address, now_ms) : NULL;

	if (!pin)
		return;
	if (!pin->name)
		pin->name = strndup(name.p, name.n);
	pin->address = address;
	pin->until_ms = pin->name ? now_ms + sec * 1000 : 0;
	if (!pin->name)
		pin->name = strdup("");
}

static bool is_pinned(const struct sandbox *sandbox, struct str name, uint32_t address)
{
	const struct egress *egress = sandbox->egress;
	int64_t now_ms = time_boot_ms();

	for (uint32_t i = 0; egress && i < egress->pin_count; i++)
		if (egress->pins[i].address == address && egress->pins[i].until_ms > now_ms &&
		    str_is(name, egress->pins[i].name))
			return true;
	return false;
}

/* ---- decisions ---- */

static bool decide(struct egress_verdict *ret, enum egress_why why, const struct egress_rule *rule)
{
	ret->why = why;
	ret->rule[0] = '\0';
	if (rule)
		(void)snprintf(ret->rule, sizeof(ret->rule), "%s", rule->text);
	return true;
}

static const struct egress_rule *by_name(const struct egress_rule *rules, uint32_t count,
					 struct str name, uint16_t port)
{
	for (uint32_t i = 0; name.n && i < count; i++)
		if (egress_rule_has_name(&rules[i], name, port))
			return &rules[i];
	return NULL;
}

static const struct egress_rule *by_address(const struct egress_rule *rules, uint32_t count,
					    uint32_t address, uint16_t port, bool special)
{
	for (uint32_t i = 0; i < count; i++)
		if (egress_rule_has_address(&rules[i], address, port) &&
		    (!special || egress_rule_is_special(&rules[i])))
			return &rules[i];
	return NULL;
}

/* Of the names that this address was given out for. */
static const struct egress_rule *by_pins(const struct sandbox *sandbox,
					 const struct egress_rule *rules, uint32_t count,
					 const struct egress_ask *ask)
{
	const struct egress *egress = sandbox->egress;
	int64_t now_ms = time_boot_ms();

	for (uint32_t i = 0; egress && i < egress->pin_count; i++) {
		const struct egress_pin *pin = &egress->pins[i];
		const struct egress_rule *rule;

		if (pin->address != ask->address || pin->until_ms <= now_ms)
			continue;
		rule = by_name(rules, count, str_of(pin->name), ask->port);
		if (rule)
			return rule;
	}
	return NULL;
}

/* Neighbours are refused as this host is: they are behind it. */
static bool is_ours(const struct sandbox *sandbox, uint32_t address)
{
	return sandbox->egress && ((sandbox->egress->gateway ^ address) & 0xffff0000) == 0;
}

static bool judge_place(const struct sandbox *sandbox, const struct egress_ask *ask,
			struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	enum ipv4_class class = ipv4_class(ask->address);

	if (class == IPV4_NEVER || is_ours(sandbox, ask->address))
		return decide(ret, EGRESS_HOST, NULL);
	if (class == IPV4_PUBLIC && !ask->is_local)
		return false;
	/* Only an address that means it opens one; a host's public address is named in full. */
	for (uint32_t i = 0; i < policy->allow_count; i++) {
		const struct egress_rule *rule = &policy->allow[i];

		if (egress_rule_has_address(rule, ask->address, ask->port) &&
		    (egress_rule_is_special(rule) || rule->bits == 128))
			return false;
	}
	return decide(ret, ask->is_local ? EGRESS_HOST : EGRESS_PRIVATE, NULL);
}

static bool judge_deny(const struct sandbox *sandbox, const struct egress_ask *ask,
		       struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	const struct egress_rule *rule =
		by_name(policy->deny, policy->deny_count, ask->name, ask->port);

	if (!rule && ask->protocol != EGRESS_DNS)
		rule = by_address(policy->deny, policy->deny_count, ask->address, ask->port, false);
	if (!rule && ask->protocol != EGRESS_DNS)
		rule = by_pins(sandbox, policy->deny, policy->deny_count, ask);
	return rule && decide(ret, EGRESS_DENIED, rule);
}

/* What says no name can only be allowed by its address; where nothing else than TLS or HTTP is
 * usual, what is neither counts as hiding its name. */
static enum egress_why judge_named(const struct sandbox *sandbox, const struct egress_ask *ask,
				   const struct egress_rule **ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	bool speaks = ask->protocol == EGRESS_TLS || ask->protocol == EGRESS_HTTP;

	if (speaks && ask->name.n) {
		*ret = by_name(policy->allow, policy->allow_count, ask->name, ask->port);
		if (!*ret)
			return EGRESS_NOT_ALLOWED;
		return is_pinned(sandbox, ask->name, ask->address) ? EGRESS_ALLOWED
								   : EGRESS_NOT_RESOLVED;
	}
	*ret = by_pins(sandbox, policy->allow, policy->allow_count, ask);
	if (!*ret)
		return EGRESS_NOT_ALLOWED;
	return speaks || ask->port == 443 || ask->port == 80 ? EGRESS_NAMELESS : EGRESS_ALLOWED;
}

static void judge_allow(const struct sandbox *sandbox, const struct egress_ask *ask,
			struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	const struct egress_rule *rule = NULL;
	enum egress_why why;

	if (policy->mode == NETWORK_FULL) {
		(void)decide(ret, EGRESS_ALLOWED, NULL);
		return;
	}
	if (ask->protocol == EGRESS_DNS) {
		rule = by_name(policy->allow, policy->allow_count, ask->name, 0);
		why = rule ? EGRESS_ALLOWED : EGRESS_NOT_ALLOWED;
	} else {
		rule = by_address(policy->allow, policy->allow_count, ask->address, ask->port,
				  false);
		why = rule ? EGRESS_ALLOWED : judge_named(sandbox, ask, &rule);
	}
	if (why != EGRESS_ALLOWED && policy->learn)
		why = EGRESS_LEARNED;
	(void)decide(ret, why, rule);
}

/* No rule opens the sink. A name that would pass by now has to be looked up again. */
static void judge_sink(const struct sandbox *sandbox, const struct egress_ask *ask,
		       struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	const struct egress_rule *rule =
		by_name(policy->deny, policy->deny_count, ask->name, ask->port);

	if (rule) {
		(void)decide(ret, EGRESS_DENIED, rule);
		return;
	}
	rule = by_name(policy->allow, policy->allow_count, ask->name, ask->port);
	(void)decide(ret,
		     ask->name.n && (rule || policy->learn || policy->mode == NETWORK_FULL)
			     ? EGRESS_NOT_RESOLVED
			     : EGRESS_NOT_ALLOWED,
		     rule);
}

void egress_judge(const struct sandbox *sandbox, const struct egress_ask *ask,
		  struct egress_verdict *ret)
{
	if (egress_mode(sandbox) == NETWORK_NONE)
		(void)decide(ret, EGRESS_NO_NETWORK, NULL);
	else if (ask->protocol != EGRESS_DNS && egress_is_sink(sandbox, ask->address))
		judge_sink(sandbox, ask, ret);
	else if (!(ask->protocol != EGRESS_DNS && judge_place(sandbox, ask, ret)) &&
		 !judge_deny(sandbox, ask, ret))
		judge_allow(sandbox, ask, ret);
}

bool egress_is_brokered(const struct sandbox *sandbox, uint32_t address, uint16_t port)
{
	const struct egress *egress = sandbox->egress;

	for (uint32_t i = 0; egress && sandbox->attrs.grants && i < egress->pin_count; i++)
		if (egress->pins[i].address == address &&
		    broker_has(sandbox, str_of(egress->pins[i].name), port))
			return true;
	return false;
}

bool egress_needs_name(const struct sandbox *sandbox, const struct egress_ask *ask)
{
	const struct egress_policy *policy = sandbox->attrs.network;

	if (!policy || policy->deny_count || egress_is_sink(sandbox, ask->address))
		return true;
	return policy->mode != NETWORK_FULL &&
	       !by_address(policy->allow, policy->allow_count, ask->address, ask->port, false);
}

/* What points into this host or a private net is dropped (a name rebound), unless allowed there. */
bool egress_answer_passes(const struct sandbox *sandbox, uint32_t address)
{
	const struct egress_ask ask = { .protocol = EGRESS_TCP, .address = address };
	struct egress_verdict verdict;

	return egress_mode(sandbox) != NETWORK_NONE && !judge_place(sandbox, &ask, &verdict);
}

/* The host's rules have refused it already. Groups of hosts are what programs look for neighbours
 * in by themselves: nothing to tell. */
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

	/* Nor what is sent to the sink: the name was noted when it was asked for. */
	if (!sandbox || to >> 28 == 0xe || egress_is_sink(sandbox, to))
		return;
	/* Of a routed one only what lies near is refused, and of public addresses only our own. */
	if (egress_link(sandbox) == ENGINE_LINK_ROUTED && !judge_place(sandbox, &ask, &verdict))
		verdict.why = ipv4_class(to) == IPV4_PUBLIC ? EGRESS_HOST : EGRESS_PRIVATE;
	egress_note(sandbox, &ask, &verdict);
}

/* ---- changes ---- */

/* A change of the link under way. */
struct change {
	struct op op;
	struct egress_policy *old; /* comes back when the engine cannot */
	sandbox_changed_fn done;
	void *arg;
};

static void take_back(struct sandbox *sandbox, struct egress_policy *old)
{
	egress_policy_free(sandbox->attrs.network);
	sandbox->attrs.network = old;
	sandbox->network_version++;
	if (sandbox_save(sandbox) < 0)
		log_error("sandbox %s: its old network policy could not be saved", sandbox->id);
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

/* The engine is asked only when a link comes or goes; the rest is ours. */
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
