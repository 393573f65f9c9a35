/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/net/rtnl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>

#include "sys/net/netlink.h"

#define ASK NLM_F_ACK
#define SHAPE_BURST_PART 250   /* of a second at full rate: 4 ms */
#define SHAPE_BURST_MIN 262144 /* bytes: more than the largest packet before it is segmented */
#define SHAPE_QUEUE_PART 50    /* 20 ms wait; more are dropped */
/*
 * Errors are reported without NLM_F_ACK: only the last of several messages needs an
 * acknowledgement.
 */
#define MAKE (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)

int rtnl_open(int *ret_fd)
{
	return netlink_open(NETLINK_ROUTE, ret_fd);
}

static void put_pair(struct netlink_buffer *b, const struct rtnl_end *here,
		     const struct rtnl_end *there, int there_ns_fd, uint32_t there_group)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC, .ifi_index = (int)here->ifindex };
	const struct ifinfomsg peer_head = { .ifi_family = AF_UNSPEC,
					     .ifi_index = (int)there->ifindex };
	size_t info, data, peer;

	netlink_begin(b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	netlink_text(b, IFLA_IFNAME, here->name);
	info = netlink_nest(b, IFLA_LINKINFO);
	netlink_text(b, IFLA_INFO_KIND, "veth");
	data = netlink_nest(b, IFLA_INFO_DATA);
	peer = b->n;
	netlink_attr(b, VETH_INFO_PEER, &peer_head, sizeof(peer_head));
	netlink_text(b, IFLA_IFNAME, there->name);
	netlink_u32(b, IFLA_GROUP, there_group);
	netlink_u32(b, IFLA_NET_NS_FD, (uint32_t)there_ns_fd);
	netlink_unnest(b, peer);
	netlink_unnest(b, data);
	netlink_unnest(b, info);
	netlink_end(b);
}

/* Before the link is up: disables automatic IPv6 addresses and forwarding. */
static void put_quiet(struct netlink_buffer *b, unsigned ifindex)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	uint8_t none = IN6_ADDR_GEN_MODE_NONE;
	size_t spec, family, conf;

	netlink_begin(b, RTM_NEWLINK, 0, &head, sizeof(head));
	spec = netlink_nest(b, IFLA_AF_SPEC);
	family = netlink_nest(b, AF_INET);
	conf = netlink_nest(b, IFLA_INET_CONF);
	netlink_u32(b, IPV4_DEVCONF_FORWARDING, 0);
	netlink_unnest(b, conf);
	netlink_unnest(b, family);
	family = netlink_nest(b, AF_INET6);
	netlink_attr(b, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
	netlink_unnest(b, family);
	netlink_unnest(b, spec);
	netlink_end(b);
}

static void put_address(struct netlink_buffer *b, const struct rtnl_end *end)
{
	const struct ifaddrmsg head = { .ifa_family = AF_INET,
					.ifa_prefixlen = 32,
					.ifa_index = end->ifindex };

	netlink_begin(b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	netlink_be32(b, IFA_LOCAL, end->address);
	netlink_be32(b, IFA_ADDRESS, end->peer);
	netlink_end(b);
}

static void put_up(struct netlink_buffer *b, unsigned ifindex, uint16_t flags)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC,
					.ifi_index = (int)ifindex,
					.ifi_flags = IFF_UP,
					.ifi_change = IFF_UP };

	netlink_begin(b, RTM_NEWLINK, flags, &head, sizeof(head));
	netlink_end(b);
}

static void put_gateway(struct netlink_buffer *b, const struct rtnl_end *end)
{
	const struct rtmsg head = { .rtm_family = AF_INET,
				    .rtm_table = RT_TABLE_MAIN,
				    .rtm_protocol = RTPROT_BOOT,
				    .rtm_scope = RT_SCOPE_UNIVERSE,
				    .rtm_type = RTN_UNICAST };

	netlink_begin(b, RTM_NEWROUTE, MAKE, &head, sizeof(head));
	netlink_be32(b, RTA_GATEWAY, end->peer);
	netlink_u32(b, RTA_OIF, end->ifindex);
	netlink_end(b);
}

static void put_raise(struct netlink_buffer *b, const struct rtnl_end *end)
{
	put_quiet(b, end->ifindex);
	put_address(b, end);
	put_up(b, end->ifindex, ASK);
	if (end->gateway)
		put_gateway(b, end);
}

int rtnl_veth_make(int fd, const struct rtnl_end *here, const struct rtnl_end *there,
		   int there_ns_fd, uint32_t there_group)
{
	struct netlink_buffer b;

	netlink_init(&b);
	put_pair(&b, here, there, there_ns_fd, there_group);
	put_raise(&b, here);
	return netlink_talk(fd, &b);
}

int rtnl_link_raise(int fd, const struct rtnl_end *end)
{
	struct netlink_buffer b;

	netlink_init(&b);
	put_raise(&b, end);
	return netlink_talk(fd, &b);
}

int rtnl_link_group(int fd, unsigned ifindex, uint32_t group, bool forward)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	struct netlink_buffer b;
	size_t spec, family, conf;

	netlink_init(&b);
	netlink_begin(&b, RTM_NEWLINK, ASK, &head, sizeof(head));
	netlink_u32(&b, IFLA_GROUP, group);
	spec = netlink_nest(&b, IFLA_AF_SPEC);
	family = netlink_nest(&b, AF_INET);
	conf = netlink_nest(&b, IFLA_INET_CONF);
	netlink_u32(&b, IPV4_DEVCONF_FORWARDING, forward);
	netlink_unnest(&b, conf);
	netlink_unnest(&b, family);
	netlink_unnest(&b, spec);
	netlink_end(&b);
	return netlink_talk(fd, &b);
}

int rtnl_link_shape(int fd, unsigned ifindex, uint64_t bytes_per_sec)
{
	const struct tcmsg head = { .tcm_family = AF_UNSPEC,
				    .tcm_ifindex = (int)ifindex,
				    .tcm_handle = TC_H_MAKE(1U << 16, 0),
				    .tcm_parent = TC_H_ROOT };
	uint64_t burst = MIN(MAX(bytes_per_sec / SHAPE_BURST_PART, SHAPE_BURST_MIN), UINT32_MAX);
	uint64_t queue =
		MIN(MAX(bytes_per_sec / SHAPE_QUEUE_PART, SHAPE_BURST_MIN), UINT32_MAX / 2);
	struct tc_tbf_qopt shape = { .rate = { .linklayer = TC_LINKLAYER_ETHERNET,
					       .rate = (uint32_t)MIN(bytes_per_sec, UINT32_MAX) },
				     .limit = (uint32_t)MIN(burst + queue, UINT32_MAX) };
	struct netlink_buffer b;
	size_t options;

	netlink_init(&b);
	netlink_begin(&b, RTM_NEWQDISC, ASK | NLM_F_CREATE | NLM_F_REPLACE, &head, sizeof(head));
	netlink_text(&b, TCA_KIND, "tbf");
	options = netlink_nest(&b, TCA_OPTIONS);
	netlink_attr(&b, TCA_TBF_PARMS, &shape, sizeof(shape));
	if (bytes_per_sec > UINT32_MAX)
		netlink_attr(&b, TCA_TBF_RATE64, &bytes_per_sec, sizeof(bytes_per_sec));
	netlink_u32(&b, TCA_TBF_BURST, (uint32_t)burst);
	netlink_unnest(&b, options);
	netlink_end(&b);
	return netlink_talk(fd, &b);
}

int rtnl_link_delete(int fd, unsigned ifindex)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex };
	struct netlink_buffer b;

	netlink_init(&b);
	netlink_begin(&b, RTM_DELLINK, ASK, &head, sizeof(head));
	netlink_end(&b);
	return netlink_talk(fd, &b);
}

/* ---- queries ---- */

static bool next_attr(const uint8_t **at, size_t *left, uint16_t *type, struct rtattr **ret)
{
	struct rtattr *attr = (struct rtattr *)(uintptr_t)*at;
	size_t step;

	if (*left < sizeof(*attr) || attr->rta_len < sizeof(*attr) || attr->rta_len > *left)
		return false;
	step = MIN((size_t)RTA_ALIGN(attr->rta_len), *left);
	*type = attr->rta_type & NLA_TYPE_MASK;
	*ret = attr;
	*at += step;
	*left -= step;
	return true;
}

struct link_walk {
	const char *prefix;
	void (*each)(void *arg, const struct rtnl_link *link);
	void *arg;
};

static void read_stats(const struct rtattr *attr, struct rtnl_link *link)
{
	struct rtnl_link_stats64 stats = { 0 };

	memcpy(&stats, RTA_DATA(attr), MIN(RTA_PAYLOAD(attr), sizeof(stats)));
	link->rx_bytes = stats.rx_bytes;
	link->tx_bytes = stats.tx_bytes;
}

static void on_link(void *arg, uint16_t type, const void *data, size_t size)
{
	const struct link_walk *walk = arg;
	const struct ifinfomsg *info = data;
	struct rtnl_link link = { 0 };
	const uint8_t *at;
	struct rtattr *attr;
	uint16_t kind;
	size_t left;

	if (type != RTM_NEWLINK || size < NLMSG_ALIGN(sizeof(*info)))
		return;
	link.ifindex = (unsigned)info->ifi_index;
	at = (const uint8_t *)data + NLMSG_ALIGN(sizeof(*info));
	left = size - NLMSG_ALIGN(sizeof(*info));
	while (next_attr(&at, &left, &kind, &attr)) {
		if (kind == IFLA_IFNAME)
			memcpy(link.name, RTA_DATA(attr),
			       MIN(RTA_PAYLOAD(attr), sizeof(link.name) - 1));
		else if (kind == IFLA_STATS64)
			read_stats(attr, &link);
	}
	if (strncmp(link.name, walk->prefix, strlen(walk->prefix)) == 0)
		walk->each(walk->arg, &link);
}

int rtnl_link_each(int fd, const char *prefix,
		   void (*each)(void *arg, const struct rtnl_link *link), void *arg)
{
	const struct ifinfomsg none = { .ifi_family = AF_UNSPEC };
	struct link_walk walk = { prefix, each, arg };
	struct netlink_buffer b;

	netlink_init(&b);
	netlink_begin(&b, RTM_GETLINK, NLM_F_DUMP, &none, sizeof(none));
	netlink_end(&b);
	return netlink_dump(fd, &b, on_link, &walk);
}

static void keep_link(void *arg, const struct rtnl_link *link)
{
	*(struct rtnl_link *)arg = *link;
}

/*
 * One link: its message, then the acknowledgement, which ends the dump with the error if there is
 * one.
 */
int rtnl_link_stat(int fd, const char *name, struct rtnl_link *ret)
{
	const struct ifinfomsg none = { .ifi_family = AF_UNSPEC };
	struct rtnl_link found = { 0 };
	struct link_walk walk = { name, keep_link, &found };
	struct netlink_buffer b;
	int r;

	netlink_init(&b);
	netlink_begin(&b, RTM_GETLINK, NLM_F_ACK, &none, sizeof(none));
	netlink_text(&b, IFLA_IFNAME, name);
	netlink_end(&b);
	r = netlink_dump(fd, &b, on_link, &walk);
	if (r < 0)
		return r;
	*ret = found;
	return found.ifindex ? 0 : -ENODEV;
}

struct range {
	uint32_t first, mask;
	bool used;
};

static void on_route(void *arg, uint16_t type, const void *data, size_t size)
{
	struct range *range = arg;
	const struct rtmsg *route = data;
	uint32_t to = 0, mask;
	const uint8_t *at;
	struct rtattr *attr;
	uint16_t kind;
	size_t left;

	if (type != RTM_NEWROUTE || size < NLMSG_ALIGN(sizeof(*route)) || route->rtm_dst_len == 0 ||
	    route->rtm_dst_len > 32)
		return;
	at = (const uint8_t *)data + NLMSG_ALIGN(sizeof(*route));
	left = size - NLMSG_ALIGN(sizeof(*route));
	while (next_attr(&at, &left, &kind, &attr))
		if (kind == RTA_DST && RTA_PAYLOAD(attr) == sizeof(to))
			memcpy(&to, RTA_DATA(attr), sizeof(to));
	mask = range->mask & (UINT32_MAX << (32 - route->rtm_dst_len));
	range->used |= (ntohl(to) & mask) == (range->first & mask);
}

int rtnl_range_used(int fd, uint32_t address, unsigned bits, bool *ret)
{
	const struct rtmsg all = { .rtm_family = AF_INET };
	struct range range = { address, UINT32_MAX << (32 - bits), false };
	struct netlink_buffer b;
	int r;

	netlink_init(&b);
	netlink_begin(&b, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
	netlink_end(&b);
	r = netlink_dump(fd, &b, on_route, &range);
	*ret = range.used;
	return r;
}

struct defaults {
	unsigned *links;
	size_t count, max;
};

static void add_default(struct defaults *defaults, unsigned ifindex)
{
	for (size_t i = 0; i < defaults->count; i++)
		if (defaults->links[i] == ifindex)
			return;
	if (ifindex && defaults->count < defaults->max)
		defaults->links[defaults->count++] = ifindex;
}

static void on_default(void *arg, uint16_t type, const void *data, size_t size)
{
	const struct rtmsg *route = data;
	const uint8_t *at;
	struct rtattr *attr;
	uint16_t kind;
	size_t left;
	unsigned ifindex;

	if (type != RTM_NEWROUTE || size < NLMSG_ALIGN(sizeof(*route)) || route->rtm_dst_len ||
	    route->rtm_type != RTN_UNICAST)
		return;
	at = (const uint8_t *)data + NLMSG_ALIGN(sizeof(*route));
	left = size - NLMSG_ALIGN(sizeof(*route));
	while (next_attr(&at, &left, &kind, &attr)) {
		if (kind == RTA_OIF && RTA_PAYLOAD(attr) == sizeof(ifindex)) {
			memcpy(&ifindex, RTA_DATA(attr), sizeof(ifindex));
			add_default(arg, ifindex);
		} else if (kind == RTA_MULTIPATH) {
			struct rtnexthop *hop = RTA_DATA(attr);
			int rest = (int)RTA_PAYLOAD(attr);

			for (; RTNH_OK(hop, rest);
			     rest -= RTNH_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
				add_default(arg, (unsigned)hop->rtnh_ifindex);
		}
	}
}

int rtnl_default_links(int fd, unsigned *ret, size_t max)
{
	const struct rtmsg all = { .rtm_family = AF_INET };
	struct defaults defaults = { ret, 0, max };
	struct netlink_buffer b;
	int r;

	netlink_init(&b);
	netlink_begin(&b, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
	netlink_end(&b);
	r = netlink_dump(fd, &b, on_default, &defaults);
	return r < 0 ? r : (int)defaults.count;
}
