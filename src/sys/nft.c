/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "sys/netlink.h"

#ifndef NFT_TABLE_F_OWNER
#define NFT_TABLE_F_OWNER 0x2
#endif
#ifndef NFT_TABLE_F_PERSIST
#define NFT_TABLE_F_PERSIST 0x4 /* Linux 6.9: outlives its owner, who can take it up again */
#endif

#define LOG_BYTES 64 /* the IP and transport heads */
#define LOG_PER_SEC 50
#define NEW_PER_SEC \
	2000 /* connections of all links: keeps the connection table usable for others */

/* One rule under construction. */
struct rule {
	struct netlink_buffer *b;
	size_t list;
};

int nft_open(int *ret_fd)
{
	return netlink_open(NETLINK_NETFILTER, ret_fd);
}

static void message(struct netlink_buffer *b, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	netlink_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof(head));
}

static void batch(struct netlink_buffer *b, uint16_t type)
{
	const struct nfgenmsg head = { .version = NFNETLINK_V0,
				       .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	netlink_begin(b, type, 0, &head, sizeof(head));
	netlink_end(b);
}

static void put_table(struct netlink_buffer *b, const char *table, uint16_t type, uint32_t flags)
{
	message(b, type, (uint16_t)(NLM_F_ACK | (type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0)));
	netlink_text(b, NFTA_TABLE_NAME, table);
	if (type == NFT_MSG_NEWTABLE)
		netlink_be32(b, NFTA_TABLE_FLAGS, flags);
	netlink_end(b);
}

static void put_chain(struct netlink_buffer *b, const struct nft_spec *spec, const char *name,
		      const char *type, uint32_t hook, int32_t priority)
{
	size_t at;

	message(b, NFT_MSG_NEWCHAIN, NLM_F_ACK | NLM_F_CREATE);
	netlink_text(b, NFTA_CHAIN_TABLE, spec->table);
	netlink_text(b, NFTA_CHAIN_NAME, name);
	at = netlink_nest(b, NFTA_CHAIN_HOOK);
	netlink_be32(b, NFTA_HOOK_HOOKNUM, hook);
	netlink_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	netlink_unnest(b, at);
	netlink_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	netlink_text(b, NFTA_CHAIN_TYPE, type);
	netlink_end(b);
}

/* ---- expressions ---- */

static size_t expr_begin(struct rule *rule, const char *name, size_t *ret_data)
{
	size_t at = netlink_nest(rule->b, NFTA_LIST_ELEM);

	netlink_text(rule->b, NFTA_EXPR_NAME, name);
	*ret_data = netlink_nest(rule->b, NFTA_EXPR_DATA);
	return at;
}

static void expr_end(struct rule *rule, size_t at, size_t data)
{
	netlink_unnest(rule->b, data);
	netlink_unnest(rule->b, at);
}

static void load_meta(struct rule *rule, uint32_t key)
{
	size_t data, at = expr_begin(rule, "meta", &data);

	netlink_be32(rule->b, NFTA_META_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_META_KEY, key);
	expr_end(rule, at, data);
}

static void compare(struct rule *rule, uint32_t op, const void *value, size_t size)
{
	size_t nest, data, at = expr_begin(rule, "cmp", &data);

	netlink_be32(rule->b, NFTA_CMP_SREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_CMP_OP, op);
	nest = netlink_nest(rule->b, NFTA_CMP_DATA);
	netlink_attr(rule->b, NFTA_DATA_VALUE, value, size);
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
}

/* A shorter value than the loaded one compares beginnings. */
static void match_name(struct rule *rule, uint32_t key, uint32_t op, const char *prefix)
{
	load_meta(rule, key);
	compare(rule, op, prefix, strlen(prefix));
}

static void match_u32(struct rule *rule, uint32_t key, uint32_t op, uint32_t value)
{
	load_meta(rule, key);
	compare(rule, op, &value, sizeof(value));
}

static void match_u8(struct rule *rule, uint32_t key, uint32_t op, uint8_t value)
{
	load_meta(rule, key);
	compare(rule, op, &value, sizeof(value));
}

static void match_port(struct rule *rule, uint8_t protocol, uint16_t port)
{
	uint16_t value = htons(port);
	size_t data, at;

	match_u8(rule, NFT_META_L4PROTO, NFT_CMP_EQ, protocol);
	at = expr_begin(rule, "payload", &data);
	netlink_be32(rule->b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	netlink_be32(rule->b, NFTA_PAYLOAD_OFFSET, 2);
	netlink_be32(rule->b, NFTA_PAYLOAD_LEN, 2);
	expr_end(rule, at, data);
	compare(rule, NFT_CMP_EQ, &value, sizeof(value));
}

/* The source is reached through another link, or not at all: somebody else's address. */
static void match_spoofed(struct rule *rule)
{
	uint32_t none = 0;
	size_t data, at = expr_begin(rule, "fib", &data);

	netlink_be32(rule->b, NFTA_FIB_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_FIB_RESULT, NFT_FIB_RESULT_OIF);
	netlink_be32(rule->b, NFTA_FIB_FLAGS, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF);
	expr_end(rule, at, data);
	compare(rule, NFT_CMP_EQ, &none, sizeof(none));
}

/* op EQ: any of these states; the mask is applied first. */
static void match_state(struct rule *rule, uint32_t states)
{
	uint32_t zero = 0;
	size_t nest, data, at = expr_begin(rule, "ct", &data);

	netlink_be32(rule->b, NFTA_CT_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_CT_KEY, NFT_CT_STATE);
	expr_end(rule, at, data);
	at = expr_begin(rule, "bitwise", &data);
	netlink_be32(rule->b, NFTA_BITWISE_SREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_BITWISE_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_BITWISE_LEN, sizeof(states));
	nest = netlink_nest(rule->b, NFTA_BITWISE_MASK);
	netlink_attr(rule->b, NFTA_DATA_VALUE, &states, sizeof(states));
	netlink_unnest(rule->b, nest);
	nest = netlink_nest(rule->b, NFTA_BITWISE_XOR);
	netlink_attr(rule->b, NFTA_DATA_VALUE, &zero, sizeof(zero));
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
	compare(rule, NFT_CMP_NEQ, &zero, sizeof(zero));
}

static void limit(struct rule *rule, uint64_t per_sec, uint32_t burst, bool over)
{
	uint64_t rate = htobe64(per_sec), unit = htobe64(1);
	size_t data, at = expr_begin(rule, "limit", &data);

	netlink_attr(rule->b, NFTA_LIMIT_RATE, &rate, sizeof(rate));
	netlink_attr(rule->b, NFTA_LIMIT_UNIT, &unit, sizeof(unit));
	netlink_be32(rule->b, NFTA_LIMIT_BURST, burst);
	netlink_be32(rule->b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	netlink_be32(rule->b, NFTA_LIMIT_FLAGS, over ? NFT_LIMIT_F_INV : 0);
	expr_end(rule, at, data);
}

static void verdict(struct rule *rule, uint32_t code)
{
	size_t value, nest, data, at = expr_begin(rule, "immediate", &data);

	netlink_be32(rule->b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	nest = netlink_nest(rule->b, NFTA_IMMEDIATE_DATA);
	value = netlink_nest(rule->b, NFTA_DATA_VERDICT);
	netlink_be32(rule->b, NFTA_VERDICT_CODE, code);
	netlink_unnest(rule->b, value);
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
}

static void redirect(struct rule *rule, uint16_t port)
{
	uint16_t value = htons(port);
	size_t nest, data, at = expr_begin(rule, "immediate", &data);

	netlink_be32(rule->b, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	nest = netlink_nest(rule->b, NFTA_IMMEDIATE_DATA);
	netlink_attr(rule->b, NFTA_DATA_VALUE, &value, sizeof(value));
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
	at = expr_begin(rule, "redir", &data);
	netlink_be32(rule->b, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expr_end(rule, at, data);
}

static void reject(struct rule *rule)
{
	uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
	size_t data, at = expr_begin(rule, "reject", &data);

	netlink_be32(rule->b, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	netlink_attr(rule->b, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	expr_end(rule, at, data);
}

static void tell(struct rule *rule, uint16_t group)
{
	uint16_t number = htons(group);
	size_t data, at = expr_begin(rule, "log", &data);

	netlink_attr(rule->b, NFTA_LOG_GROUP, &number, sizeof(number));
	netlink_be32(rule->b, NFTA_LOG_SNAPLEN, LOG_BYTES);
	expr_end(rule, at, data);
}

/* ---- rules ---- */

static struct rule rule_begin(struct netlink_buffer *b, const struct nft_spec *spec,
			      const char *chain)
{
	message(b, NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND);
	netlink_text(b, NFTA_RULE_TABLE, spec->table);
	netlink_text(b, NFTA_RULE_CHAIN, chain);
	return (struct rule){ b, netlink_nest(b, NFTA_RULE_EXPRESSIONS) };
}

static void rule_end(struct rule *rule)
{
	netlink_unnest(rule->b, rule->list);
	netlink_end(rule->b);
}

/* What did not come in through one of our links is none of our business. */
static void pass_others(struct netlink_buffer *b, const struct nft_spec *spec, const char *chain)
{
	struct rule rule = rule_begin(b, spec, chain);

	match_name(&rule, NFT_META_IIFNAME, NFT_CMP_NEQ, spec->prefix);
	verdict(&rule, NF_ACCEPT);
	rule_end(&rule);
}

static void put_policy(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "policy";
	struct rule rule;

	put_chain(b, spec, chain, "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE);
	pass_others(b, spec, chain);
	rule = rule_begin(b, spec, chain);
	match_u8(&rule, NFT_META_NFPROTO, NFT_CMP_NEQ, NFPROTO_IPV4);
	verdict(&rule, NF_DROP);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	match_spoofed(&rule);
	verdict(&rule, NF_DROP);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	match_u32(&rule, NFT_META_IIFGROUP, NFT_CMP_NEQ, NFT_GROUP_OPEN);
	reject(&rule);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	match_state(&rule, 1u << 3 /* NF_CT_STATE_BIT(IP_CT_NEW) */);
	limit(&rule, NEW_PER_SEC, NEW_PER_SEC, true);
	verdict(&rule, NF_DROP);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	verdict(&rule, NF_ACCEPT);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	match_port(&rule, IPPROTO_UDP, 53);
	verdict(&rule, NF_ACCEPT);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	limit(&rule, LOG_PER_SEC, LOG_PER_SEC, false);
	tell(&rule, spec->log_group);
	rule_end(&rule);
	rule = rule_begin(b, spec, chain);
	reject(&rule);
	rule_end(&rule);
}

static void put_redirect(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "redirect";
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	struct rule rule;

	put_chain(b, spec, chain, "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
	pass_others(b, spec, chain);
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
		rule = rule_begin(b, spec, chain);
		match_port(&rule, protocols[i], 53);
		redirect(&rule, spec->dns_port);
		rule_end(&rule);
	}
	rule = rule_begin(b, spec, chain);
	match_u8(&rule, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	redirect(&rule, spec->proxy_port);
	rule_end(&rule);
}

/* Behind the redirection only our two services are left to talk to. */
static void put_input(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const char chain[] = "input";
	const struct {
		uint8_t protocol;
		uint16_t port;
	} served[] = { { IPPROTO_TCP, spec->proxy_port },
		       { IPPROTO_TCP, spec->dns_port },
		       { IPPROTO_UDP, spec->dns_port } };
	struct rule rule;

	put_chain(b, spec, chain, "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER);
	pass_others(b, spec, chain);
	for (size_t i = 0; i < ARRAY_LEN(served); i++) {
		rule = rule_begin(b, spec, chain);
		match_port(&rule, served[i].protocol, served[i].port);
		verdict(&rule, NF_ACCEPT);
		rule_end(&rule);
	}
	rule = rule_begin(b, spec, chain);
	reject(&rule);
	rule_end(&rule);
}

/* Nothing is routed, neither from a sandbox nor to one. */
static void put_forward(struct netlink_buffer *b, const struct nft_spec *spec)
{
	static const uint32_t keys[] = { NFT_META_IIFNAME, NFT_META_OIFNAME };
	static const char chain[] = "forward";

	put_chain(b, spec, chain, "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct rule rule = rule_begin(b, spec, chain);

		match_name(&rule, keys[i], NFT_CMP_EQ, spec->prefix);
		verdict(&rule, NF_DROP);
		rule_end(&rule);
	}
}

static int install(int fd, const struct nft_spec *spec, uint32_t flags)
{
	struct netlink_buffer b;

	netlink_init(&b);
	batch(&b, NFNL_MSG_BATCH_BEGIN);
	/* Made first, so that there is one to delete; all of this happens at once or not. */
	put_table(&b, spec->table, NFT_MSG_NEWTABLE, flags);
	put_table(&b, spec->table, NFT_MSG_DELTABLE, 0);
	put_table(&b, spec->table, NFT_MSG_NEWTABLE, flags);
	put_policy(&b, spec);
	put_redirect(&b, spec);
	put_input(&b, spec);
	put_forward(&b, spec);
	batch(&b, NFNL_MSG_BATCH_END);
	return netlink_talk(fd, &b);
}

/* Where the kernel can, the table is ours alone: 'nft flush ruleset' leaves it. */
int nft_install(int fd, const struct nft_spec *spec)
{
	int r = install(fd, spec, NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST);

	return r == -EOPNOTSUPP || r == -EINVAL ? install(fd, spec, 0) : r;
}

int nft_remove(int fd, const char *table)
{
	struct netlink_buffer b;
	int r;

	netlink_init(&b);
	batch(&b, NFNL_MSG_BATCH_BEGIN);
	put_table(&b, table, NFT_MSG_DELTABLE, 0);
	batch(&b, NFNL_MSG_BATCH_END);
	r = netlink_talk(fd, &b);
	return r == -ENOENT ? 0 : r;
}
