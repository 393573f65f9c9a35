/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions: first the kind of address (this host, private networks), which the operator restricts,
 * then deny, then allow. A name stands for the addresses that the resolver returned to the sandbox:
 * its pins.
 */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "base/value/ipv4.h"
#include "service/network/egress_internal.h"
#include "service/network/network_private.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"

#define PINS_MAX 1024 /* per sandbox; the one that expires first is dropped */
#define PIN_MIN_SEC 60
#define PIN_MAX_SEC 3600
#define PIN_GRACE_SEC 60 /* programs may connect a little after the TTL has expired */

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
					    uint32_t address, uint16_t port)
{
	for (uint32_t i = 0; i < count; i++)
		if (egress_rule_has_address(&rules[i], address, port))
			return &rules[i];
	return NULL;
}

/* The first rule that matches a name pinned to this address. with_port: only rules with a port. */
static const struct egress_rule *by_pins(const struct sandbox *sandbox,
					 const struct egress_rule *rules, uint32_t count,
					 const struct egress_ask *ask, bool with_port)
{
	const struct egress *egress = sandbox->egress;
	int64_t now_ms = time_boot_ms();

	for (uint32_t i = 0; egress && i < egress->pin_count; i++) {
		const struct egress_pin *pin = &egress->pins[i];
		const struct egress_rule *rule;

		if (pin->address != ask->address || pin->until_ms <= now_ms)
			continue;
		for (uint32_t k = 0; k < count; k++) {
			rule = by_name(&rules[k], 1, str_of(pin->name), ask->port);
			if (rule && (!with_port || rule->port))
				return rule;
		}
	}
	return NULL;
}

/* Addresses of other sandboxes count as addresses of this host. */
static bool is_ours(const struct sandbox *sandbox, uint32_t address)
{
	return sandbox->egress && ((sandbox->egress->gateway ^ address) & 0xffff0000) == 0;
}

static bool is_own_port(const struct service_config *config, uint16_t port)
{
	for (size_t i = 0; port && i < ARRAY_LEN(config->own_ports); i++)
		if (config->own_ports[i] == port)
			return true;
	return false;
}

/* The operator's part: an address of this host must be listed as a single address, and never opens
 * the daemon's ports. */
bool egress_is_opened(const struct sandbox *sandbox, const struct egress_ask *ask)
{
	const struct network *network = sandbox->service->network;

	if (ask->is_local && is_own_port(&sandbox->service->config, ask->port))
		return false;
	for (uint32_t i = 0; i < network->opened_count; i++)
		if (egress_rule_has_address(&network->opened[i], ask->address, 0) &&
		    (!ask->is_local || network->opened[i].bits == 128))
			return true;
	return false;
}

/* The sandbox's part: an entry of allow that names special addresses; for this host, the exact
 * address. */
static bool names_place(const struct sandbox *sandbox, const struct egress_ask *ask)
{
	const struct egress_policy *policy = sandbox->attrs.network;

	for (uint32_t i = 0; i < policy->allow_count; i++) {
		const struct egress_rule *rule = &policy->allow[i];

		if (egress_rule_has_address(rule, ask->address, ask->port) &&
		    (rule->bits == 128 || (!ask->is_local && egress_rule_is_special(rule))))
			return true;
	}
	return false;
}

bool egress_judge_place(const struct sandbox *sandbox, const struct egress_ask *ask,
			struct egress_verdict *ret)
{
	enum ipv4_class class = ipv4_class(ask->address);

	if (class == IPV4_NEVER || is_ours(sandbox, ask->address))
		return decide(ret, EGRESS_HOST, NULL);
	if (class == IPV4_PUBLIC && !ask->is_local)
		return false;
	if (egress_is_opened(sandbox, ask) && names_place(sandbox, ask))
		return false;
	return decide(ret, ask->is_local ? EGRESS_HOST : EGRESS_PRIVATE, NULL);
}

static bool judge_deny(const struct sandbox *sandbox, const struct egress_ask *ask,
		       struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	const struct egress_rule *rule =
		by_name(policy->deny, policy->deny_count, ask->name, ask->port);

	if (!rule && ask->protocol != EGRESS_DNS)
		rule = by_address(policy->deny, policy->deny_count, ask->address, ask->port);
	if (!rule && ask->protocol != EGRESS_DNS)
		rule = by_pins(sandbox, policy->deny, policy->deny_count, ask, false);
	return rule && decide(ret, EGRESS_DENIED, rule);
}

static bool speaks(const struct egress_ask *ask)
{
	return ask->protocol == EGRESS_TLS || ask->protocol == EGRESS_HTTP;
}

/* On ports for TLS or HTTP, a connection that is neither of them counts as one that hides its name.
 */
static bool hides_name(const struct egress_ask *ask)
{
	return speaks(ask) || ask->port == 443 || ask->port == 80;
}

/* A connection without a name is allowed only by its address, or by an entry with its port: such an
 * entry permits the service on that port, whatever its protocol. */
static enum egress_why judge_named(const struct sandbox *sandbox, const struct egress_ask *ask,
				   const struct egress_rule **ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;

	if (speaks(ask) && ask->name.n) {
		*ret = by_name(policy->allow, policy->allow_count, ask->name, ask->port);
		if (!*ret)
			return EGRESS_NOT_ALLOWED;
		return is_pinned(sandbox, ask->name, ask->address) ? EGRESS_ALLOWED
								   : EGRESS_NOT_RESOLVED;
	}
	*ret = by_pins(sandbox, policy->allow, policy->allow_count, ask, true);
	if (*ret && !hides_name(ask))
		return EGRESS_ALLOWED;
	if (!*ret)
		*ret = by_pins(sandbox, policy->allow, policy->allow_count, ask, false);
	return *ret ? EGRESS_NAMELESS : EGRESS_NOT_ALLOWED;
}

static bool denies_names(const struct egress_policy *policy)
{
	for (uint32_t i = 0; i < policy->deny_count; i++)
		if (policy->deny[i].kind != EGRESS_NET)
			return true;
	return false;
}

static bool has_pin(const struct sandbox *sandbox, uint32_t address)
{
	const struct egress *egress = sandbox->egress;
	int64_t now_ms = time_boot_ms();

	for (uint32_t i = 0; egress && i < egress->pin_count; i++)
		if (egress->pins[i].address == address && egress->pins[i].until_ms > now_ms)
			return true;
	return false;
}

/* A denied name can be blocked only if all other connections state their true name. */
static enum egress_why judge_full(const struct sandbox *sandbox, const struct egress_ask *ask)
{
	if (ask->protocol == EGRESS_DNS || !denies_names(sandbox->attrs.network))
		return EGRESS_ALLOWED;
	if (speaks(ask) && ask->name.n)
		return is_pinned(sandbox, ask->name, ask->address) ? EGRESS_ALLOWED
								   : EGRESS_NOT_RESOLVED;
	if (hides_name(ask))
		return EGRESS_NAMELESS;
	return has_pin(sandbox, ask->address) ? EGRESS_ALLOWED : EGRESS_NOT_RESOLVED;
}

static void judge_allow(const struct sandbox *sandbox, const struct egress_ask *ask,
			struct egress_verdict *ret)
{
	const struct egress_policy *policy = sandbox->attrs.network;
	const struct egress_rule *rule = NULL;
	bool full = policy->mode == NETWORK_FULL;
	enum egress_why why;

	if (ask->protocol != EGRESS_DNS)
		rule = by_address(policy->allow, policy->allow_count, ask->address, ask->port);
	if (rule) {
		why = EGRESS_ALLOWED;
	} else if (full) {
		why = judge_full(sandbox, ask);
	} else if (ask->protocol == EGRESS_DNS) {
		rule = by_name(policy->allow, policy->allow_count, ask->name, 0);
		why = rule ? EGRESS_ALLOWED : EGRESS_NOT_ALLOWED;
	} else {
		why = judge_named(sandbox, ask, &rule);
	}
	if (why != EGRESS_ALLOWED && policy->learn && !full)
		why = EGRESS_LEARNED;
	(void)decide(ret, why, rule);
}

/* No rule opens the sink. A name that is allowed by now has to be looked up again. */
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
	else if (!(ask->protocol != EGRESS_DNS && egress_judge_place(sandbox, ask, ret)) &&
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

	if (!policy || denies_names(policy) || egress_is_sink(sandbox, ask->address))
		return true;
	return policy->mode != NETWORK_FULL &&
	       !by_address(policy->allow, policy->allow_count, ask->address, ask->port);
}

/* Answers with an address of this host or a private network are dropped (DNS rebinding), unless
 * that address is allowed. */
bool egress_answer_passes(const struct sandbox *sandbox, uint32_t address)
{
	const struct egress_ask ask = { .protocol = EGRESS_TCP, .address = address };
	struct egress_verdict verdict;

	return egress_mode(sandbox) != NETWORK_NONE && !egress_judge_place(sandbox, &ask, &verdict);
}
