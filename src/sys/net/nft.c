/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/net/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "base/value/ipv4.h"
#include "sys/net/nft_rule.h"

#ifndef NFT_TABLE_F_OWNER
#define NFT_TABLE_F_OWNER 0x2
#endif
#ifndef NFT_TABLE_F_PERSIST
/* Linux 6.9: the table survives its owner, and a new owner can take it over */
#define NFT_TABLE_F_PERSIST 0x4
#endif

#define LOG_PER_SEC 50
#define NEW_PER_SEC 5000 /* of all links: keeps the connection table usable for others */
#define METER_MS 60000	 /* a link that opened nothing for so long is forgotten */
#define METER_NEW "new_per_sec"
#define METER_OPEN "connections"
#define METER_NAMES "questions_per_sec"
#define ANY_PREFIX "cay" /* prefix of the links of all instances */
#define REFUSED "refused"
#define ROUTED "routed"

int nft_open(int *ret_fd)
{
	return netlink_open(NETLINK_NETFILTER, ret_fd);
}

static void put_table(struct netlink_buffer *b, const char *table, uint16_t type, uint32_t flags)
{
	nft_message(b, type, (uint16_t)(NLM_F_ACK | (type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0)));
	netlink_text(b, NFTA_TABLE_NAME, table);
	if (type == NFT_MSG_NEWTABLE)
		netlink_be32(b, NFTA_TABLE_FLAGS, flags);
	netlink_end(b);
}

static void put_chain(struct netlink_buffer *b, const struct nft_spec *spec, const char *name,
		      const char *type, uint32_t hook, int32_t priority)
{
	size_t at;

	nft_message(b, NFT_MSG_NEWCHAIN, NLM_F_ACK | NLM_F_CREATE);
	netlink_text(b, NFTA_CHAIN_TABLE, spec->table);
	netlink_text(b, NFTA_CHAIN_NAME, name);
	if (!type) { /* other messages */
		netlink_end(b);
		return;
	}
	at = netlink_nest(b, NFTA_CHAIN_HOOK);
	netlink_be32(b, NFTA_HOOK_HOOKNUM, hook);
	netlink_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	netlink_unnest(b, at);
	netlink_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	netlink_text(b, NFTA_CHAIN_TYPE, type);
	netlink_end(b);
}

/* ---- rules ---- */

/* Ignores packets that did not arrive through one of our links. */
static void pass_others(struct netlink_buffer *b, const struct nft_spec *spec, const char *chain)
{
	struct nft_rule rule = nft_rule_begin(b, spec->table, chain);

	nft_match_name(&rule, NFT_META_IIFNAME, NFT_CMP_NEQ, spec->prefix);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
}

/* Logs and rejects, so that the sender does not wait for a timeout. */
static void put_refused(struct netlink_buffer *b, const struct nft_spec *spec)
{
	struct nft_rule rule;

	put_chain(b, spec, REFUSED, NULL, 0, 0);
	rule = nft_rule_begin(b, spec->table, REFUSED);
	nft_limit(&rule, LOG_PER_SEC, LOG_PER_SEC, false);
	nft_tell(&rule, spec->log_group);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, REFUSED);
	nft_reject(&rule);
	nft_rule_end(&rule);
}

/*
 * TCP and DNS as for open links. Other traffic is forwarded unless it is for this host or a network
 * near it.
 */
static void put_routed(struct netlink_buffer *b, const struct nft_spec *spec)
{
	struct nft_rule rule;

	put_chain(b, spec, ROUTED, NULL, 0, 0);
	rule = nft_rule_begin(b, spec->table, ROUTED);
	nft_match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, ROUTED);
	nft_match_port(&rule, IPPROTO_UDP, 53);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	for (size_t i = 0; i < ipv4_range_count; i++) {
		const struct ipv4_range *range = &ipv4_ranges[i];

		rule = nft_rule_begin(b, spec->table, ROUTED);
		nft_match_to(&rule, range->first,
			     range->first | ~(UINT32_MAX << (32 - range->bits)));
		nft_go(&rule, NFT_GOTO, REFUSED);
		nft_rule_end(&rule);
	}
	rule = nft_rule_begin(b, spec->table, ROUTED);
	nft_match_not_elsewhere(&rule);
	nft_go(&rule, NFT_GOTO, REFUSED);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, ROUTED);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
}

/*
 * Questions for names are not counted: the kernel keeps such a flow for 30 s, and a program that
 * resolves many names would lose its connections.
 */
static void put_count(struct netlink_buffer *b, const struct nft_spec *spec, const char *chain,
		      bool is_udp)
{
	struct nft_rule rule = nft_rule_begin(b, spec->table, chain);

	if (is_udp)
		nft_match_other_port(&rule, IPPROTO_UDP, 53);
	else
		nft_match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_NEQ, IPPROTO_UDP);
	nft_match_state(&rule, NFT_STATE_NEW);
	nft_count_link(&rule, METER_OPEN, spec->connections);
	nft_reject(&rule);
	nft_rule_end(&rule);
}

/* One link's own limits come first: what it has too much of does not count against the others. */
static void put_limits(struct netlink_buffer *b, const struct nft_spec *spec, const char *chain,
		       bool count)
{
	struct nft_rule rule = nft_rule_begin(b, spec->table, chain);

	nft_match_state(&rule, NFT_STATE_NEW);
	nft_limit_link(&rule, METER_NEW, spec->new_per_sec);
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
	/* All links share the resolver's socket. Datagrams of one flow are new only once. */
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_port(&rule, IPPROTO_UDP, 53);
	nft_limit_link(&rule, METER_NAMES, spec->new_per_sec);
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
	if (count) {
		put_count(b, spec, chain, false);
		put_count(b, spec, chain, true);
	}
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_state(&rule, NFT_STATE_NEW);
	nft_limit(&rule, NEW_PER_SEC, NEW_PER_SEC, true);
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
}

static void put_policy(struct netlink_buffer *b, const struct nft_spec *spec, bool count)
{
	static const char chain[] = "policy";
	struct nft_rule rule;

	put_chain(b, spec, chain, "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE);
	pass_others(b, spec, chain);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_u8(&rule, NFT_META_NFPROTO, NFT_CMP_NEQ, NFPROTO_IPV4);
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_spoofed(&rule);
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_u32(&rule, NFT_META_IIFGROUP, NFT_CMP_NEQ, NFT_GROUP_OPEN);
	nft_match_u32(&rule, NFT_META_IIFGROUP, NFT_CMP_NEQ, NFT_GROUP_ROUTED);
	nft_reject(&rule);
	nft_rule_end(&rule);
	put_limits(b, spec, chain, count);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_u32(&rule, NFT_META_IIFGROUP, NFT_CMP_EQ, NFT_GROUP_ROUTED);
	nft_go(&rule, NFT_GOTO, ROUTED);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_port(&rule, IPPROTO_UDP, 53);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_go(&rule, NFT_GOTO, REFUSED);
	nft_rule_end(&rule);
}

static void put_redirect(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "redirect";
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	struct nft_rule rule;

	put_chain(b, spec, chain, "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
	pass_others(b, spec, chain);
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		rule = nft_rule_begin(b, spec->table, chain);
		nft_match_port(&rule, protocols[i], 53);
		nft_redirect(&rule, spec->dns_port);
		nft_rule_end(&rule);
	}
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	nft_redirect(&rule, spec->proxy_port);
	nft_rule_end(&rule);
}

/* After the redirection, only our two services can be reached. */
static void put_input(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "input";
	const struct {
		uint8_t protocol;
		uint16_t port;
	} served[] = { { IPPROTO_TCP, spec->proxy_port },
		       { IPPROTO_TCP, spec->dns_port },
		       { IPPROTO_UDP, spec->dns_port } };
	struct nft_rule rule;

	put_chain(b, spec, chain, "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER);
	pass_others(b, spec, chain);
	for (size_t i = 0; i < ARRAY_LEN(served); i++) {
		rule = nft_rule_begin(b, spec->table, chain);
		nft_match_port(&rule, served[i].protocol, served[i].port);
		nft_verdict(&rule, NF_ACCEPT);
		nft_rule_end(&rule);
	}
	rule = nft_rule_begin(b, spec->table, chain);
	nft_reject(&rule);
	nft_rule_end(&rule);
}

/* Forwards only what a routed link sends to the outside, and the replies to it. */
static void put_forward(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const uint32_t keys[] = { NFT_META_IIFNAME, NFT_META_OIFNAME };
	static const char chain[] = "forward";
	struct nft_rule rule;

	put_chain(b, spec, chain, "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_name(&rule, NFT_META_IIFNAME, NFT_CMP_EQ, spec->prefix);
	nft_match_u32(&rule, NFT_META_IIFGROUP, NFT_CMP_EQ, NFT_GROUP_ROUTED);
	nft_match_name(&rule, NFT_META_OIFNAME, NFT_CMP_NEQ, ANY_PREFIX);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_name(&rule, NFT_META_OIFNAME, NFT_CMP_EQ, spec->prefix);
	nft_match_u32(&rule, NFT_META_OIFGROUP, NFT_CMP_EQ, NFT_GROUP_ROUTED);
	nft_match_state(&rule, NFT_STATE_KNOWN);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		rule = nft_rule_begin(b, spec->table, chain);
		nft_match_name(&rule, keys[i], NFT_CMP_EQ, spec->prefix);
		nft_verdict(&rule, NF_DROP);
		nft_rule_end(&rule);
	}
	/*
	 * Forwarding was enabled on these links for our traffic only: drop everything else that
	 * they would forward.
	 */
	for (size_t i = 0; i < spec->uplink_count; i++) {
		rule = nft_rule_begin(b, spec->table, chain);
		nft_match_whole_name(&rule, NFT_META_IIFNAME, spec->uplinks[i]);
		nft_match_name(&rule, NFT_META_OIFNAME, NFT_CMP_NEQ, ANY_PREFIX);
		nft_verdict(&rule, NF_DROP);
		nft_rule_end(&rule);
	}
}

static void put_masquerade(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "masquerade";
	struct nft_rule rule;

	put_chain(b, spec, chain, "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC);
	rule = nft_rule_begin(b, spec->table, chain);
	nft_match_name(&rule, NFT_META_IIFNAME, NFT_CMP_EQ, spec->prefix);
	nft_masquerade(&rule);
	nft_rule_end(&rule);
}

static int install(int fd, const struct nft_spec *spec, uint32_t flags, bool count)
{
	struct netlink_buffer b;

	netlink_init(&b);
	nft_batch(&b, NFNL_MSG_BATCH_BEGIN);
	/* Created first, so that it can be deleted; the whole batch is atomic. */
	put_table(&b, spec->table, NFT_MSG_NEWTABLE, flags);
	put_table(&b, spec->table, NFT_MSG_DELTABLE, 0);
	put_table(&b, spec->table, NFT_MSG_NEWTABLE, flags);
	nft_set_put(&b, spec->table, METER_NEW, 1, METER_MS);
	nft_set_put(&b, spec->table, METER_NAMES, 3, METER_MS);
	if (count)
		nft_set_put(&b, spec->table, METER_OPEN, 2, 0);
	put_refused(&b, spec);
	put_routed(&b, spec);
	put_policy(&b, spec, count);
	put_redirect(&b, spec);
	put_input(&b, spec);
	put_forward(&b, spec);
	put_masquerade(&b, spec);
	nft_batch(&b, NFNL_MSG_BATCH_END);
	return netlink_talk(fd, &b);
}

/*
 * Where the kernel supports it, the table has an owner, so 'nft flush ruleset' does not remove it.
 */
static int install_table(int fd, const struct nft_spec *spec, bool count)
{
	int r = install(fd, spec, NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST, count);

	return r == -EOPNOTSUPP || r == -EINVAL ? install(fd, spec, 0, count) : r;
}

/* Without the module nft_connlimit, open connections are limited by the daemon alone. */
int nft_install(int fd, const struct nft_spec *spec)
{
	int r = install_table(fd, spec, true);

	return r == -ENOENT || r == -EOPNOTSUPP ? install_table(fd, spec, false) : r;
}

int nft_remove(int fd, const char *table)
{
	struct netlink_buffer b;
	int r;

	netlink_init(&b);
	nft_batch(&b, NFNL_MSG_BATCH_BEGIN);
	put_table(&b, table, NFT_MSG_DELTABLE, 0);
	nft_batch(&b, NFNL_MSG_BATCH_END);
	r = netlink_talk(fd, &b);
	return r == -ENOENT ? 0 : r;
}
