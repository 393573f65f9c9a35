/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packet filter of one instance: one nf_tables table of fixed rules for all links whose names
 * begin with a prefix. Links differ by their device group, so no rule changes when sandboxes come
 * and go:
 * - any other group: closed, everything is rejected;
 * - NFT_GROUP_OPEN: TCP goes to the proxy and DNS to the resolver; the rest is logged and rejected;
 * - NFT_GROUP_ROUTED: as NFT_GROUP_OPEN, but other traffic to the outside is forwarded and
 *   masqueraded. Traffic to this host, its neighbours and private networks is rejected.
 */
#ifndef CAY_SYS_NET_NFT_H
#define CAY_SYS_NET_NFT_H

#include "base/macro.h"

/* "CAY" and a number: unlikely to collide with other users of groups */
#define NFT_GROUP_CLOSED 0x43415900u
#define NFT_GROUP_OPEN 0x43415901u
#define NFT_GROUP_ROUTED 0x43415902u
#define NFT_UPLINKS_MAX 4

struct nft_spec {
	const char *table;
	const char *prefix; /* prefix of the links' names */
	uint16_t proxy_port;
	uint16_t dns_port;
	uint16_t log_group;		      /* NFLOG group */
	uint32_t new_per_sec;		      /* connections that one link may open per second */
	uint32_t connections;		      /* open connections of one link */
	const char *uplinks[NFT_UPLINKS_MAX]; /* links on which we enabled forwarding */
	size_t uplink_count;
};

int nft_open(int *ret_fd) _must_check_;
/* Creates the table or replaces its content, atomically. */
int nft_install(int fd, const struct nft_spec *spec) _must_check_;
int nft_remove(int fd, const char *table) _must_check_; /* a missing table is accepted */

/* A packet that the rules rejected, as reported by NFLOG. */
struct nft_denied {
	uint32_t from, to; /* IPv4, host byte order */
	uint8_t protocol;
	uint16_t port; /* 0: the protocol has no ports */
};
int nft_log_open(uint16_t group, int *ret_fd) _must_check_;
/* Reads what is available now. Returns 0, or -errno if the log has failed. */
int nft_log_read(int fd, void (*each)(void *arg, const struct nft_denied *denied),
		 void *arg) _must_check_;

#endif
