/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress decision against a reference that is as simple as it can be: policies of tenants and
 * operators, names, addresses and rebinding at random. The reference works on text and knows
 * nothing of the code's own types; it says only whether a connection passes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "service/network/egress_internal.h"
#include "service/network/network_internal.h"
#include "service/network/network_private.h"
#include "service/sandbox/sandbox_internal.h"

#define CASES 100000
#define LIST_MAX 4
#define PINS_MAX 4
#define OWN_PORT 7070

/* Few values, so that they meet. */
static const char *const names[] = { "a.test",	   "b.test",	"x.a.test",
				     "y.x.a.test", "evil.test", "a.test.evil.test" };
static const char *const entries[] = { "a.test",	  "*.a.test",	    "b.test",
				       "evil.test",	  "*.evil.test",    "8.8.8.8",
				       "8.8.0.0/16",	  "10.1.2.3",	    "10.1.0.0/16",
				       "10.0.0.0/8",	  "0.0.0.0/0",	    "11.0.0.2",
				       "11.0.0.0/24",	  "127.0.0.0/8",    "100.96.0.0/16",
				       "169.254.169.254", "192.168.0.0/16", "10.9.9.9" };
static const char *const opened[] = { "10.1.0.0/16", "10.0.0.0/8",     "10.9.9.9",  "11.0.0.2",
				      "11.0.0.0/24", "192.168.0.0/16", "0.0.0.0/0", "127.0.0.1" };
/* The host's own are marked; 100.96.x.x are links, one of them the sink. */
static const struct {
	const char *text;
	bool is_local;
} addresses[] = { { "8.8.8.8", false },		{ "8.8.4.4", false },
		  { "9.9.9.9", false },		{ "10.1.2.3", false },
		  { "10.2.0.1", false },	{ "10.9.9.9", true },
		  { "11.0.0.2", true },		{ "127.0.0.1", true },
		  { "169.254.169.254", false }, { "192.168.1.1", false },
		  { "100.96.0.7", false },	{ "100.96.255.254", false },
		  { "100.100.100.200", false } };
static const uint16_t ports[] = { 80, 443, 22, 5432, OWN_PORT };

struct entry {
	char text[40];
	const char *host;
	uint16_t port;
};

/* One case. */
struct scene {
	const char *mode;
	bool learn;
	struct entry allow[LIST_MAX], deny[LIST_MAX];
	const char *opened[LIST_MAX];
	size_t allow_count, deny_count, opened_count;
	struct {
		const char *name, *address;
	} pins[PINS_MAX];
	size_t pin_count;
	enum egress_protocol protocol;
	const char *name; /* "": none */
	const char *address;
	bool is_local;
	uint16_t port;
};

/* ---- the reference ---- */

static uint32_t number(const char *text)
{
	unsigned a, b, c, d;

	assert_int_equal(sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d), 4);
	return a << 24 | b << 16 | c << 8 | d;
}

static unsigned bits_of(const char *entry)
{
	const char *slash = strchr(entry, '/');

	return slash ? (unsigned)atoi(slash + 1) : 32;
}

static bool is_net(const char *entry)
{
	return entry[0] >= '0' && entry[0] <= '9';
}

static bool in_net(const char *entry, const char *address)
{
	unsigned bits = bits_of(entry);

	return is_net(entry) &&
	       (bits == 0 || (number(entry) ^ number(address)) >> (32 - bits) == 0);
}

static bool is_named(const char *entry, const char *name)
{
	size_t n = strlen(name), m = strlen(entry);

	if (is_net(entry))
		return false;
	if (entry[0] != '*')
		return strcmp(entry, name) == 0;
	return n >= m && strcmp(name + n - (m - 1), entry + 1) == 0;
}

static bool is_private_net(const char *entry)
{
	return is_net(entry) && ((in_net("10.0.0.0/8", entry) && bits_of(entry) >= 8) ||
				 (in_net("192.168.0.0/16", entry) && bits_of(entry) >= 16) ||
				 (in_net("169.254.0.0/16", entry) && bits_of(entry) >= 16) ||
				 (in_net("100.64.0.0/10", entry) && bits_of(entry) >= 10));
}

static bool never(const char *address)
{
	return in_net("127.0.0.0/8", address) || in_net("100.96.0.0/16", address) ||
	       strcmp(address, "169.254.169.254") == 0 || strcmp(address, "100.100.100.200") == 0;
}

static bool port_fits(const struct entry *e, uint16_t port)
{
	return !e->port || e->port == port;
}

static bool place_is_open(const struct scene *s)
{
	bool by_operator = false, by_tenant = false;

	if (never(s->address) || (s->is_local && s->port == OWN_PORT))
		return false;
	if (!s->is_local && !is_private_net(s->address))
		return true;
	for (size_t i = 0; i < s->opened_count; i++)
		by_operator |= in_net(s->opened[i], s->address) &&
			       (!s->is_local || bits_of(s->opened[i]) == 32);
	for (size_t i = 0; i < s->allow_count; i++)
		by_tenant |= in_net(s->allow[i].host, s->address) &&
			     port_fits(&s->allow[i], s->port) &&
			     (bits_of(s->allow[i].host) == 32 ||
			      (!s->is_local && is_private_net(s->allow[i].host)));
	return by_operator && by_tenant;
}

static bool resolved(const struct scene *s, const char *name)
{
	for (size_t i = 0; i < s->pin_count; i++)
		if (strcmp(s->pins[i].address, s->address) == 0 &&
		    (!name || strcmp(s->pins[i].name, name) == 0))
			return true;
	return false;
}

static bool is_denied(const struct scene *s)
{
	for (size_t i = 0; i < s->deny_count; i++) {
		const struct entry *e = &s->deny[i];

		if (!port_fits(e, s->port))
			continue;
		if (in_net(e->host, s->address) || is_named(e->host, s->name))
			return true;
		for (size_t k = 0; k < s->pin_count; k++)
			if (strcmp(s->pins[k].address, s->address) == 0 &&
			    is_named(e->host, s->pins[k].name))
				return true;
	}
	return false;
}

static bool is_allowed(const struct scene *s)
{
	bool speaks = s->protocol != EGRESS_TCP, full = strcmp(s->mode, "full") == 0,
	     names_denied = false;

	for (size_t i = 0; i < s->allow_count; i++)
		if (in_net(s->allow[i].host, s->address) && port_fits(&s->allow[i], s->port))
			return true;
	for (size_t i = 0; i < s->deny_count; i++)
		names_denied |= !is_net(s->deny[i].host);
	if (full && !names_denied)
		return true;
	if (full && speaks)
		return s->name[0] && resolved(s, s->name);
	if (full)
		return s->port != 80 && s->port != 443 && resolved(s, NULL);
	if (s->learn)
		return true;
	for (size_t i = 0; i < s->allow_count; i++) {
		const struct entry *e = &s->allow[i];

		if (!port_fits(e, s->port))
			continue;
		if (speaks && s->name[0] && is_named(e->host, s->name) && resolved(s, s->name))
			return true;
		for (size_t k = 0; !speaks && e->port && k < s->pin_count; k++)
			if (s->port != 80 && s->port != 443 && is_named(e->host, s->pins[k].name) &&
			    strcmp(s->pins[k].address, s->address) == 0)
				return true;
	}
	return false;
}

static bool passes(const struct scene *s)
{
	return strcmp(s->mode, "none") != 0 && place_is_open(s) && !is_denied(s) && is_allowed(s);
}

/* ---- scenes ---- */

static uint32_t random_below(uint32_t n)
{
	static uint64_t state = 0x9e3779b97f4a7c15ULL; /* the same every time */

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(state >> 33) % n;
}

static size_t random_entries(struct entry *list)
{
	size_t count = random_below(LIST_MAX + 1);

	for (size_t i = 0; i < count; i++) {
		list[i].host = entries[random_below(ARRAY_LEN(entries))];
		list[i].port = random_below(2) ? ports[random_below(ARRAY_LEN(ports))] : 0;
		if (list[i].port)
			(void)snprintf(list[i].text, sizeof(list[i].text), "%s:%u", list[i].host,
				       list[i].port);
		else
			(void)snprintf(list[i].text, sizeof(list[i].text), "%s", list[i].host);
	}
	return count;
}

static struct scene random_scene(void)
{
	static const char *const modes[] = { "restricted", "restricted", "restricted",
					     "full",	   "full",	 "none" };
	static const enum egress_protocol protocols[] = { EGRESS_TLS, EGRESS_HTTP, EGRESS_TCP };
	struct scene s = { .mode = modes[random_below(ARRAY_LEN(modes))],
			   .learn = random_below(16) == 0,
			   .protocol = protocols[random_below(3)],
			   .port = ports[random_below(ARRAY_LEN(ports))],
			   .name = "" };
	size_t at = random_below(ARRAY_LEN(addresses));

	s.allow_count = random_entries(s.allow);
	s.deny_count = random_below(3) ? 0 : random_entries(s.deny);
	s.opened_count = random_below(LIST_MAX);
	for (size_t i = 0; i < s.opened_count; i++)
		s.opened[i] = opened[random_below(ARRAY_LEN(opened))];
	s.address = addresses[at].text;
	s.is_local = addresses[at].is_local;
	if (s.protocol != EGRESS_TCP && random_below(6))
		s.name = names[random_below(ARRAY_LEN(names))];
	/* A name may have led anywhere: rebinding is a pin to an address that is not its own. */
	s.pin_count = random_below(PINS_MAX + 1);
	for (size_t i = 0; i < s.pin_count; i++) {
		s.pins[i].name = random_below(2) && s.name[0]
					 ? s.name
					 : names[random_below(ARRAY_LEN(names))];
		s.pins[i].address = random_below(2)
					    ? s.address
					    : addresses[random_below(ARRAY_LEN(addresses))].text;
	}
	return s;
}

static struct egress_policy *policy_of(const struct scene *s)
{
	struct str allow[LIST_MAX], deny[LIST_MAX];
	struct egress_want want = { .mode = strcmp(s->mode, "none") == 0   ? NETWORK_NONE
					    : strcmp(s->mode, "full") == 0 ? NETWORK_FULL
									   : NETWORK_RESTRICTED,
				    .learn = s->learn,
				    .has_mode = true,
				    .has_learn = true,
				    .has_allow = true,
				    .has_deny = true };
	struct egress_policy *policy;
	struct err err;

	for (size_t i = 0; i < s->allow_count; i++)
		allow[i] = str_of(s->allow[i].text);
	for (size_t i = 0; i < s->deny_count; i++)
		deny[i] = str_of(s->deny[i].text);
	want.allow = (struct text_list){ allow, s->allow_count };
	want.deny = (struct text_list){ deny, s->deny_count };
	assert_int_equal(egress_policy_make(NULL, &want, &policy, &err), 0);
	return policy;
}

static bool judged(const struct scene *s)
{
	struct service service = { .config.own_ports = { OWN_PORT } };
	struct sandbox sandbox = { .service = &service, .attrs.network = policy_of(s) };
	const struct egress_ask ask = { .protocol = s->protocol,
					.address = number(s->address),
					.port = s->port,
					.is_local = s->is_local,
					.name = str_of(s->name) };
	struct egress_verdict verdict;
	struct err err;

	service.network = network_new();
	assert_non_null(service.network);
	service.network->opened = calloc(LIST_MAX, sizeof(struct egress_rule));
	for (size_t i = 0; i < s->opened_count; i++)
		assert_int_equal(egress_rule_parse(str_of(s->opened[i]), "opened",
						   &service.network->opened[i], &err),
				 0);
	service.network->opened_count = (uint32_t)s->opened_count;
	assert_non_null(egress_of(&sandbox));
	sandbox.egress->address = number("100.96.0.9");
	sandbox.egress->gateway = number("100.96.0.1");
	sandbox.egress->sink = number("100.96.255.254");
	for (size_t i = 0; i < s->pin_count; i++)
		egress_pin(&sandbox, str_of(s->pins[i].name), number(s->pins[i].address), 60);
	egress_judge(&sandbox, &ask, &verdict);
	egress_policy_free(sandbox.attrs.network);
	egress_free(&sandbox);
	network_close(&service);
	return egress_passes(&verdict);
}

static void show(const struct scene *s)
{
	print_error("mode %s%s, allow", s->mode, s->learn ? " learn" : "");
	for (size_t i = 0; i < s->allow_count; i++)
		print_error(" %s", s->allow[i].text);
	print_error(", deny");
	for (size_t i = 0; i < s->deny_count; i++)
		print_error(" %s", s->deny[i].text);
	print_error(", opened");
	for (size_t i = 0; i < s->opened_count; i++)
		print_error(" %s", s->opened[i]);
	print_error(", resolved");
	for (size_t i = 0; i < s->pin_count; i++)
		print_error(" %s=%s", s->pins[i].name, s->pins[i].address);
	print_error("; protocol %d, name '%s', %s%s port %u\n", s->protocol, s->name, s->address,
		    s->is_local ? " (local)" : "", s->port);
}

static void decisions_are_those_of_the_reference(void **state)
{
	unsigned passed = 0, differ = 0;

	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		struct scene s = random_scene();
		bool want = passes(&s), got = judged(&s);

		passed += want;
		if (want == got)
			continue;
		if (differ++ < 5) {
			print_error("want %d, got %d: ", want, got);
			show(&s);
		}
	}
	print_message("%u cases, %u pass\n", CASES, passed);
	assert_int_equal(differ, 0);
	/* The scenes are worth something: neither outcome is rare. */
	assert_in_range(passed, CASES / 20, CASES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions_are_those_of_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
