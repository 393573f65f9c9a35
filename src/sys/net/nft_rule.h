/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/sys: the expressions of nf_tables rules. */
#ifndef CAY_SYS_NET_NFT_RULE_H
#define CAY_SYS_NET_NFT_RULE_H

#include "sys/net/netlink.h"

#define NFT_STATE_NEW (1u << 3)		    /* NF_CT_STATE_BIT() of IP_CT_NEW */
#define NFT_STATE_KNOWN (1u << 1 | 1u << 2) /* and of IP_CT_ESTABLISHED, IP_CT_RELATED */

/* One rule under construction. */
struct nft_rule {
	struct netlink_buffer *b;
	size_t list;
};

void nft_message(struct netlink_buffer *b, uint16_t type, uint16_t flags);
void nft_batch(struct netlink_buffer *b, uint16_t type);
struct nft_rule nft_rule_begin(struct netlink_buffer *b, const char *table, const char *chain);
void nft_rule_end(struct nft_rule *rule);

/* A value shorter than the loaded one matches as a prefix. */
void nft_match_name(struct nft_rule *rule, uint32_t key, uint32_t op, const char *prefix);
void nft_match_whole_name(struct nft_rule *rule, uint32_t key, const char *name);
void nft_match_u32(struct nft_rule *rule, uint32_t key, uint32_t op, uint32_t value);
void nft_match_u8(struct nft_rule *rule, uint32_t key, uint32_t op, uint8_t value);
void nft_match_port(struct nft_rule *rule, uint8_t protocol, uint16_t port);
void nft_match_other_port(struct nft_rule *rule, uint8_t protocol, uint16_t port);
/* Matches if the source address is reached through another link, or not at all: it is forged. */
void nft_match_spoofed(struct nft_rule *rule);
void nft_match_state(struct nft_rule *rule, uint32_t states);		 /* any of these */
void nft_match_to(struct nft_rule *rule, uint32_t first, uint32_t last); /* host byte order */
void nft_match_not_elsewhere(struct nft_rule *rule); /* to this host, broadcast or multicast */
void nft_limit(struct nft_rule *rule, uint64_t per_sec, uint32_t burst, bool over);
/* Over so many packets a second, or connections at a time, of one link; set: of nft_set_put(). */
void nft_limit_link(struct nft_rule *rule, const char *set, uint32_t per_sec);
void nft_count_link(struct nft_rule *rule, const char *set, uint32_t connections);
/* A set of links that rules add to. timeout_ms 0: members go when they count nothing. */
void nft_set_put(struct netlink_buffer *b, const char *table, const char *name, uint32_t id,
		 uint64_t timeout_ms);

void nft_verdict(struct nft_rule *rule, uint32_t code);
void nft_go(struct nft_rule *rule, int32_t code, const char *chain); /* NFT_JUMP, NFT_GOTO */
void nft_redirect(struct nft_rule *rule, uint16_t port);
void nft_masquerade(struct nft_rule *rule);
void nft_reject(struct nft_rule *rule);
void nft_tell(struct nft_rule *rule, uint16_t group); /* by NFLOG */

#endif
