/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/net/nft_rule.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#define LOG_BYTES 64 /* the IP and transport headers */
#define LINKS_MAX 65536
#define TYPE_IFINDEX 17 /* as nft(8) numbers it, for its listings */

void nft_message(struct netlink_buffer *b, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	netlink_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof(head));
}

void nft_batch(struct netlink_buffer *b, uint16_t type)
{
	const struct nfgenmsg head = { .version = NFNETLINK_V0,
				       .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	netlink_begin(b, type, 0, &head, sizeof(head));
	netlink_end(b);
}

struct nft_rule nft_rule_begin(struct netlink_buffer *b, const char *table, const char *chain)
{
	nft_message(b, NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND);
	netlink_text(b, NFTA_RULE_TABLE, table);
	netlink_text(b, NFTA_RULE_CHAIN, chain);
	return (struct nft_rule){ b, netlink_nest(b, NFTA_RULE_EXPRESSIONS) };
}

void nft_rule_end(struct nft_rule *rule)
{
	netlink_unnest(rule->b, rule->list);
	netlink_end(rule->b);
}

static size_t expr_begin(struct nft_rule *rule, const char *name, size_t *ret_data)
{
	size_t at = netlink_nest(rule->b, NFTA_LIST_ELEM);

	netlink_text(rule->b, NFTA_EXPR_NAME, name);
	*ret_data = netlink_nest(rule->b, NFTA_EXPR_DATA);
	return at;
}

static void expr_end(struct nft_rule *rule, size_t at, size_t data)
{
	netlink_unnest(rule->b, data);
	netlink_unnest(rule->b, at);
}

static void load_meta(struct nft_rule *rule, uint32_t key)
{
	size_t data, at = expr_begin(rule, "meta", &data);

	netlink_be32(rule->b, NFTA_META_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_META_KEY, key);
	expr_end(rule, at, data);
}

static void compare(struct nft_rule *rule, uint32_t op, const void *value, size_t size)
{
	size_t nest, data, at = expr_begin(rule, "cmp", &data);

	netlink_be32(rule->b, NFTA_CMP_SREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_CMP_OP, op);
	nest = netlink_nest(rule->b, NFTA_CMP_DATA);
	netlink_attr(rule->b, NFTA_DATA_VALUE, value, size);
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
}

/* A value shorter than the loaded one matches as a prefix. */
void nft_match_name(struct nft_rule *rule, uint32_t key, uint32_t op, const char *prefix)
{
	load_meta(rule, key);
	compare(rule, op, prefix, strlen(prefix));
}

void nft_match_whole_name(struct nft_rule *rule, uint32_t key, const char *name)
{
	char whole[16] = ""; /* IFNAMSIZ, padded with NUL */

	(void)memcpy(whole, name, strnlen(name, sizeof(whole) - 1));
	load_meta(rule, key);
	compare(rule, NFT_CMP_EQ, whole, sizeof(whole));
}

void nft_match_u32(struct nft_rule *rule, uint32_t key, uint32_t op, uint32_t value)
{
	load_meta(rule, key);
	compare(rule, op, &value, sizeof(value));
}

void nft_match_u8(struct nft_rule *rule, uint32_t key, uint32_t op, uint8_t value)
{
	load_meta(rule, key);
	compare(rule, op, &value, sizeof(value));
}

static void match_port(struct nft_rule *rule, uint8_t protocol, uint32_t op, uint16_t port)
{
	uint16_t value = htons(port);
	size_t data, at;

	nft_match_u8(rule, NFT_META_L4PROTO, NFT_CMP_EQ, protocol);
	at = expr_begin(rule, "payload", &data);
	netlink_be32(rule->b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	netlink_be32(rule->b, NFTA_PAYLOAD_OFFSET, 2);
	netlink_be32(rule->b, NFTA_PAYLOAD_LEN, 2);
	expr_end(rule, at, data);
	compare(rule, op, &value, sizeof(value));
}

void nft_match_port(struct nft_rule *rule, uint8_t protocol, uint16_t port)
{
	match_port(rule, protocol, NFT_CMP_EQ, port);
}

void nft_match_other_port(struct nft_rule *rule, uint8_t protocol, uint16_t port)
{
	match_port(rule, protocol, NFT_CMP_NEQ, port);
}

/* Matches if the source address is reached through another link, or not at all: it is forged. */
void nft_match_spoofed(struct nft_rule *rule)
{
	uint32_t none = 0;
	size_t data, at = expr_begin(rule, "fib", &data);

	netlink_be32(rule->b, NFTA_FIB_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_FIB_RESULT, NFT_FIB_RESULT_OIF);
	netlink_be32(rule->b, NFTA_FIB_FLAGS, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF);
	expr_end(rule, at, data);
	compare(rule, NFT_CMP_EQ, &none, sizeof(none));
}

/* op EQ: any of these states, because the mask is applied first. */
void nft_match_state(struct nft_rule *rule, uint32_t states)
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

static void put_limit(struct netlink_buffer *b, uint64_t per_sec, uint32_t burst, bool over)
{
	uint64_t rate = htobe64(per_sec), unit = htobe64(1);

	netlink_attr(b, NFTA_LIMIT_RATE, &rate, sizeof(rate));
	netlink_attr(b, NFTA_LIMIT_UNIT, &unit, sizeof(unit));
	netlink_be32(b, NFTA_LIMIT_BURST, burst);
	netlink_be32(b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	netlink_be32(b, NFTA_LIMIT_FLAGS, over ? NFT_LIMIT_F_INV : 0);
}

void nft_limit(struct nft_rule *rule, uint64_t per_sec, uint32_t burst, bool over)
{
	size_t data, at = expr_begin(rule, "limit", &data);

	put_limit(rule->b, per_sec, burst, over);
	expr_end(rule, at, data);
}

/* ---- of each link on its own ---- */

void nft_set_put(struct netlink_buffer *b, const char *table, const char *name, uint32_t id,
		 uint64_t timeout_ms)
{
	uint64_t timeout = htobe64(timeout_ms);
	size_t nest;

	nft_message(b, NFT_MSG_NEWSET, NLM_F_ACK | NLM_F_CREATE);
	netlink_text(b, NFTA_SET_TABLE, table);
	netlink_text(b, NFTA_SET_NAME, name);
	netlink_be32(b, NFTA_SET_ID, id);
	netlink_be32(b, NFTA_SET_FLAGS, NFT_SET_EVAL | (timeout_ms ? NFT_SET_TIMEOUT : 0));
	netlink_be32(b, NFTA_SET_KEY_TYPE, TYPE_IFINDEX);
	netlink_be32(b, NFTA_SET_KEY_LEN, sizeof(uint32_t));
	if (timeout_ms)
		netlink_attr(b, NFTA_SET_TIMEOUT, &timeout, sizeof(timeout));
	nest = netlink_nest(b, NFTA_SET_DESC);
	netlink_be32(b, NFTA_SET_DESC_SIZE, LINKS_MAX);
	netlink_unnest(b, nest);
	netlink_end(b);
}

/* The expression counts for the link that the packet came in through. */
static size_t dynset_begin(struct nft_rule *rule, const char *set, const char *expression,
			   size_t ret_nests[3])
{
	size_t at;

	load_meta(rule, NFT_META_IIF);
	at = expr_begin(rule, "dynset", &ret_nests[0]);
	netlink_text(rule->b, NFTA_DYNSET_SET_NAME, set);
	netlink_be32(rule->b, NFTA_DYNSET_OP, NFT_DYNSET_OP_UPDATE);
	netlink_be32(rule->b, NFTA_DYNSET_SREG_KEY, NFT_REG_1);
	ret_nests[1] = netlink_nest(rule->b, NFTA_DYNSET_EXPR);
	netlink_text(rule->b, NFTA_EXPR_NAME, expression);
	ret_nests[2] = netlink_nest(rule->b, NFTA_EXPR_DATA);
	return at;
}

static void dynset_end(struct nft_rule *rule, size_t at, const size_t nests[3])
{
	netlink_unnest(rule->b, nests[2]);
	netlink_unnest(rule->b, nests[1]);
	expr_end(rule, at, nests[0]);
}

void nft_limit_link(struct nft_rule *rule, const char *set, uint32_t per_sec)
{
	size_t nests[3], at = dynset_begin(rule, set, "limit", nests);

	put_limit(rule->b, per_sec, per_sec, true);
	dynset_end(rule, at, nests);
}

void nft_count_link(struct nft_rule *rule, const char *set, uint32_t connections)
{
	size_t nests[3], at = dynset_begin(rule, set, "connlimit", nests);

	netlink_be32(rule->b, NFTA_CONNLIMIT_COUNT, connections);
	netlink_be32(rule->b, NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
	dynset_end(rule, at, nests);
}

void nft_verdict(struct nft_rule *rule, uint32_t code)
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

void nft_redirect(struct nft_rule *rule, uint16_t port)
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

void nft_reject(struct nft_rule *rule)
{
	uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
	size_t data, at = expr_begin(rule, "reject", &data);

	netlink_be32(rule->b, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	netlink_attr(rule->b, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	expr_end(rule, at, data);
}

void nft_tell(struct nft_rule *rule, uint16_t group)
{
	uint16_t number = htons(group);
	size_t data, at = expr_begin(rule, "log", &data);

	netlink_attr(rule->b, NFTA_LOG_GROUP, &number, sizeof(number));
	netlink_be32(rule->b, NFTA_LOG_SNAPLEN, LOG_BYTES);
	expr_end(rule, at, data);
}

/* Compared as bytes, which is equal to a numeric comparison in network byte order. */
void nft_match_to(struct nft_rule *rule, uint32_t first, uint32_t last)
{
	uint32_t ends[] = { htonl(first), htonl(last) };
	static const uint16_t types[] = { NFTA_RANGE_FROM_DATA, NFTA_RANGE_TO_DATA };
	size_t nest, data, at = expr_begin(rule, "payload", &data);

	netlink_be32(rule->b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	netlink_be32(rule->b, NFTA_PAYLOAD_OFFSET, 16);
	netlink_be32(rule->b, NFTA_PAYLOAD_LEN, sizeof(first));
	expr_end(rule, at, data);
	at = expr_begin(rule, "range", &data);
	netlink_be32(rule->b, NFTA_RANGE_SREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_RANGE_OP, NFT_RANGE_EQ);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		nest = netlink_nest(rule->b, types[i]);
		netlink_attr(rule->b, NFTA_DATA_VALUE, &ends[i], sizeof(ends[i]));
		netlink_unnest(rule->b, nest);
	}
	expr_end(rule, at, data);
}

void nft_match_not_elsewhere(struct nft_rule *rule)
{
	uint32_t unicast = 1; /* RTN_UNICAST: to another host */
	size_t data, at = expr_begin(rule, "fib", &data);

	netlink_be32(rule->b, NFTA_FIB_DREG, NFT_REG_1);
	netlink_be32(rule->b, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	netlink_be32(rule->b, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
	expr_end(rule, at, data);
	compare(rule, NFT_CMP_NEQ, &unicast, sizeof(unicast));
}

void nft_go(struct nft_rule *rule, int32_t code, const char *chain)
{
	size_t value, nest, data, at = expr_begin(rule, "immediate", &data);

	netlink_be32(rule->b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	nest = netlink_nest(rule->b, NFTA_IMMEDIATE_DATA);
	value = netlink_nest(rule->b, NFTA_DATA_VERDICT);
	netlink_be32(rule->b, NFTA_VERDICT_CODE, (uint32_t)code);
	netlink_text(rule->b, NFTA_VERDICT_CHAIN, chain);
	netlink_unnest(rule->b, value);
	netlink_unnest(rule->b, nest);
	expr_end(rule, at, data);
}

void nft_masquerade(struct nft_rule *rule)
{
	size_t data, at = expr_begin(rule, "masq", &data);

	expr_end(rule, at, data);
}
