/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packet filter of one instance: one nf_tables table of fixed rules for all links whose name
 * begins alike. What differs between links is their device group, so that no rule is ever changed
 * while sandboxes come and go:
 *
 *   any other group   closed: everything is rejected
 *   NFT_GROUP_OPEN    TCP goes to the proxy, DNS to the resolver, the rest is logged and rejected
 *   NFT_GROUP_ROUTED  the same, but the rest is forwarded and masqueraded when it is for somebody
 *                     outside; what is for this host, its neighbours or private nets is rejected
 */
#ifndef CAY_SYS_NET_NFT_H
#define CAY_SYS_NET_NFT_H

#include "base/macro.h"

#define NFT_GROUP_CLOSED 0x43415900u /* "CAY" and a number: nobody else's by accident */
#define NFT_GROUP_OPEN 0x43415901u
#define NFT_GROUP_ROUTED 0x43415902u
#define NFT_UPLINKS_MAX 4

struct nft_spec {
	const char *table;
	const char *prefix; /* of the links' names */
	uint16_t proxy_port;
	uint16_t dns_port;
	uint16_t log_group;		      /* of NFLOG */
	uint32_t new_per_sec;		      /* connections that one link may open */
	uint32_t connections;		      /* and have at a time */
	const char *uplinks[NFT_UPLINKS_MAX]; /* links that forward for our sake alone */
	size_t uplink_count;
};

int nft_open(int *ret_fd) _must_check_;
/* Makes the table, or replaces its content by the same rules; at no instant there are none. */
int nft_install(int fd, const struct nft_spec *spec) _must_check_;
int nft_remove(int fd, const char *table) _must_check_; /* none is fine */

/* What the rules rejected, as NFLOG tells it. */
struct nft_denied {
	uint32_t from, to; /* IPv4, the host's byte order */
	uint8_t protocol;
	uint16_t port; /* 0: the protocol has none */
};
int nft_log_open(uint16_t group, int *ret_fd) _must_check_;
/* Reads what there is just now: 0, or -errno when there will be no more. */
int nft_log_read(int fd, void (*each)(void *arg, const struct nft_denied *denied),
		 void *arg) _must_check_;

#endif
