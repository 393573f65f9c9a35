/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of allow and deny, and the classes of addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/value/ipv4.h"
#include "base/str.h"
#include "service/network/egress.h"

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static void map_v4(uint8_t ret[16], uint32_t address)
{
	uint32_t wire = htonl(address);

	memcpy(ret, mapped, sizeof(mapped));
	memcpy(ret + 12, &wire, sizeof(wire));
}

/* ---- names ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return c >= 'a' && c <= 'z';
}

/* Letters, digits and inner hyphens, and underscores as in service names. */
static bool label_ok(struct str label)
{
	if (label.n == 0 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
		return false;
	for (size_t i = 0; i < label.n; i++)
		if (!is_letter(label.p[i]) && !is_digit(label.p[i]) && label.p[i] != '-' &&
		    label.p[i] != '_')
			return false;
	return true;
}

/* Some parsers read a name whose last label looks like a number as an address. */
static bool looks_numeric(struct str label)
{
	size_t i = 0;

	if (label.n >= 2 && label.p[0] == '0' && label.p[1] == 'x')
		return true;
	while (i < label.n && is_digit(label.p[i]))
		i++;
	return i == label.n;
}

int egress_name_parse(struct str text, char ret[EGRESS_NAME_MAX + 1])
{
	char name[EGRESS_NAME_MAX + 1];
	struct str rest, label = { NULL, 0 };

	if (text.n && text.p[text.n - 1] == '.')
		text.n--;
	if (text.n == 0 || text.n > EGRESS_NAME_MAX)
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		name[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	}
	name[text.n] = '\0';
	rest = (struct str){ name, text.n };
	for (bool more = true; more;) {
		struct str next = { NULL, 0 };

		more = str_cut(rest, '.', &label, &next);
		if (!more)
			label = rest;
		if (!label_ok(label))
			return -EINVAL;
		rest = next;
	}
	if (looks_numeric(label))
		return -EINVAL;
	memcpy(ret, name, text.n + 1);
	return 0;
}

/* ---- addresses ---- */

static int parse_part(struct str text, uint64_t *ret)
{
	unsigned base = 10;
	uint64_t value = 0;
	size_t i = 0;

	if (text.n > 1 && text.p[0] == '0') {
		bool hex = text.p[1] == 'x' || text.p[1] == 'X';

		base = hex ? 16 : 8;
		i = hex ? 2 : 1;
	}
	if (i >= text.n)
		return -EINVAL;
	for (; i < text.n; i++) {
		char c = text.p[i];
		unsigned digit = is_digit(c)		  ? (unsigned)(c - '0')
				 : (c >= 'a' && c <= 'f') ? (unsigned)(c - 'a' + 10)
				 : (c >= 'A' && c <= 'F') ? (unsigned)(c - 'A' + 10)
							  : 99;

		if (digit >= base || value > UINT32_MAX)
			return -EINVAL;
		value = value * base + digit;
	}
	*ret = value;
	return 0;
}

/* Like inet_aton() of the C libraries: the last part fills the remaining bytes. */
static int parse_v4(struct str text, uint32_t *ret)
{
	uint64_t parts[4], value = 0;
	unsigned count = 0;
	bool more = true;

	while (more) {
		struct str part, next = { NULL, 0 };

		if (count == 4)
			return -EINVAL;
		more = str_cut(text, '.', &part, &next);
		if (parse_part(more ? part : text, &parts[count]) < 0)
			return -EINVAL;
		count++;
		text = next;
	}
	for (unsigned i = 0; i + 1 < count; i++) {
		if (parts[i] > 255)
			return -EINVAL;
		value |= parts[i] << (24 - 8 * i);
	}
	if (parts[count - 1] >= 1ULL << (8 * (5 - count)))
		return -EINVAL;
	*ret = (uint32_t)(value | parts[count - 1]);
	return 0;
}

/* Unwraps IPv4 addresses in the IPv6 forms of gateways and tunnels. */
static void unwrap(uint8_t address[16])
{
	static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b }, zeros[12] = { 0 };
	uint32_t v4;

	if (memcmp(address, nat64, 12) == 0 ||
	    (memcmp(address, zeros, 12) == 0 && (address[12] || address[13])))
		memcpy(&v4, address + 12, sizeof(v4));
	else if (address[0] == 0x20 && address[1] == 0x02)
		memcpy(&v4, address + 2, sizeof(v4));
	else
		return;
	map_v4(address, ntohl(v4));
}

int egress_address_parse(struct str text, uint8_t ret[16])
{
	char copy[INET6_ADDRSTRLEN];
	uint32_t v4;

	if (parse_v4(text, &v4) == 0) {
		map_v4(ret, v4);
		return 0;
	}
	if (!memchr(text.p ? text.p : "", ':', text.n) || str_copy(copy, sizeof(copy), text) < 0 ||
	    inet_pton(AF_INET6, copy, ret) != 1)
		return -EINVAL;
	unwrap(ret);
	return 0;
}

/* ---- entries ---- */

static int refuse(struct err *err, const char *field, struct str text, const char *why)
{
	return err_set(err, ERR_INVALID_REQUEST, "%s: '%.*s' %s", field, (int)MIN(text.n, 80),
		       text.p, why);
}

/* Splits host and port: "[v6]:port", "v6" and "host:port". */
static int split(struct str text, struct str *host, struct str *port)
{
	const char *colon = memchr(text.p, ':', text.n);
	size_t at;

	*port = (struct str){ NULL, 0 };
	*host = text;
	if (text.n && text.p[0] == '[') {
		const char *end = memchr(text.p, ']', text.n);

		if (!end)
			return -EINVAL;
		at = (size_t)(end - text.p);
		*host = (struct str){ text.p + 1, at - 1 };
		if (at + 1 == text.n)
			return 0;
		if (text.p[at + 1] != ':')
			return -EINVAL;
		*port = (struct str){ text.p + at + 2, text.n - at - 2 };
		return port->n ? 0 : -EINVAL;
	}
	if (!colon || memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.p)))
		return 0;
	at = (size_t)(colon - text.p);
	*host = (struct str){ text.p, at };
	*port = (struct str){ colon + 1, text.n - at - 1 };
	return port->n ? 0 : -EINVAL;
}

static int parse_net(struct str host, struct egress_rule *ret)
{
	struct str address = host, bits;
	bool ranged = str_cut(host, '/', &address, &bits);
	bool is_v6 = memchr(host.p, ':', host.n) != NULL;
	uint64_t n = is_v6 ? 128 : 32;
	uint8_t parsed[16];

	if (!ranged)
		address = host;
	if (egress_address_parse(address, parsed) < 0)
		return -EINVAL;
	if (ranged && str_to_u64(bits, n, &n) < 0)
		return -ERANGE;
	if (!is_v6)
		n += 96;
	else if (n < 96 && memcmp(parsed, mapped, sizeof(mapped)) == 0)
		return -ERANGE; /* the prefix is wider than the IPv4-mapped range */
	for (size_t i = n; i < 128; i++)
		if (parsed[i / 8] & (0x80 >> (i % 8)))
			return -EDOM;
	ret->kind = EGRESS_NET;
	ret->bits = (uint8_t)n;
	memcpy(ret->address, parsed, sizeof(parsed));
	return 0;
}

static int write_text(struct egress_rule *rule)
{
	char address[INET6_ADDRSTRLEN] = "", port[8] = "";
	bool is_v4 = memcmp(rule->address, mapped, sizeof(mapped)) == 0 && rule->bits >= 96;
	unsigned all = is_v4 ? 32 : 128, bits = is_v4 ? rule->bits - 96u : rule->bits;
	int r;

	if (rule->port)
		(void)snprintf(port, sizeof(port), ":%u", rule->port);
	if (rule->kind != EGRESS_NET) {
		r = asprintf(&rule->text, "%s%s%s", rule->kind == EGRESS_BELOW ? "*." : "",
			     rule->name, port);
	} else {
		bool bracket = !is_v4 && rule->port;

		(void)inet_ntop(is_v4 ? AF_INET : AF_INET6, rule->address + (is_v4 ? 12 : 0),
				address, sizeof(address));
		r = bits == all ? asprintf(&rule->text, "%s%s%s%s", bracket ? "[" : "", address,
					   bracket ? "]" : "", port)
				: asprintf(&rule->text, "%s%s/%u%s%s", bracket ? "[" : "", address,
					   bits, bracket ? "]" : "", port);
	}
	if (r < 0)
		rule->text = NULL;
	return r < 0 ? -ENOMEM : 0;
}

static int parse_name(struct str host, struct egress_rule *ret)
{
	char name[EGRESS_NAME_MAX + 1];

	ret->kind = EGRESS_NAME;
	if (str_starts(host, "*.")) {
		ret->kind = EGRESS_BELOW;
		host = (struct str){ host.p + 2, host.n - 2 };
	}
	if (egress_name_parse(host, name) < 0)
		return -EINVAL;
	if (ret->kind == EGRESS_BELOW && !strchr(name, '.'))
		return -EDOM;
	ret->name = strdup(name);
	return ret->name ? 0 : -ENOMEM;
}

int egress_rule_parse(struct str text, const char *field, struct egress_rule *ret, struct err *err)
{
	struct egress_rule rule = { .kind = EGRESS_NAME };
	struct str host, port;
	uint64_t number = 0;
	int r;

	if (split(text, &host, &port) < 0 || host.n == 0)
		return refuse(err, field, text, "is not HOST or HOST:PORT");
	if (port.p && (str_to_u64(port, 65535, &number) < 0 || number == 0))
		return refuse(err, field, text, "must have a port from 1 to 65535");
	if (str_is(host, "*"))
		return refuse(err, field, text, "matches every address: use mode 'full' instead");
	rule.port = (uint16_t)number;
	r = parse_net(host, &rule);
	if (r == -ERANGE)
		return refuse(err, field, text, "has a prefix length that is out of range");
	if (r == -EDOM)
		return refuse(err, field, text, "has bits set after its prefix length");
	if (r == -EINVAL)
		r = parse_name(host, &rule);
	if (r == -EDOM)
		return refuse(err, field, text,
			      "is too broad: use at least two labels after '*.', or mode 'full'");
	if (r == -EINVAL)
		return refuse(err, field, text,
			      "is not a domain, '*.domain', address or CIDR (IDNs as xn--...)");
	if (r < 0 || write_text(&rule) < 0) {
		egress_rule_done(&rule);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	*ret = rule;
	return 0;
}

void egress_rule_done(struct egress_rule *rule)
{
	free(rule->text);
	free(rule->name);
	rule->text = rule->name = NULL;
}

bool egress_rule_has_name(const struct egress_rule *rule, struct str name, uint16_t port)
{
	size_t n;

	if (rule->kind == EGRESS_NET || (rule->port && port && rule->port != port))
		return false;
	n = strlen(rule->name);
	if (rule->kind == EGRESS_NAME)
		return name.n == n && memcmp(name.p, rule->name, n) == 0;
	return name.n > n + 1 && name.p[name.n - n - 1] == '.' &&
	       memcmp(name.p + name.n - n, rule->name, n) == 0;
}

bool egress_rule_has_address(const struct egress_rule *rule, uint32_t address, uint16_t port)
{
	uint8_t whole[16];
	unsigned bytes = rule->bits / 8, rest = rule->bits % 8;

	if (rule->kind != EGRESS_NET || (rule->port && port && rule->port != port))
		return false;
	map_v4(whole, address);
	if (memcmp(whole, rule->address, bytes) != 0)
		return false;
	return !rest || ((whole[bytes] ^ rule->address[bytes]) >> (8 - rest)) == 0;
}

bool egress_rule_is_special(const struct egress_rule *rule)
{
	uint32_t first;

	if (rule->kind != EGRESS_NET || rule->bits < 96 ||
	    memcmp(rule->address, mapped, sizeof(mapped)) != 0)
		return false;
	memcpy(&first, rule->address + 12, sizeof(first));
	first = ntohl(first);
	for (size_t i = 0; i < ipv4_range_count; i++)
		if (ipv4_ranges[i].class == IPV4_SPECIAL && ipv4_in_range(first, &ipv4_ranges[i]) &&
		    rule->bits >= 96u + ipv4_ranges[i].bits)
			return true;
	return false;
}
