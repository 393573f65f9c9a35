/* SPDX-License-Identifier: Apache-2.0 */
/* Rejected packets, as the kernel reports them over NFLOG: the head of each packet. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/socket.h>

#include "sys/net/netlink.h"
#include "sys/net/nft.h"

#define COPY_BYTES 64
#define GATHER_10MS 10 /* the kernel collects packets for this long before it reports them */

static void configure(struct netlink_buffer *b, uint16_t group, uint16_t flags)
{
	const struct nfgenmsg head = { .version = NFNETLINK_V0, .res_id = htons(group) };

	netlink_begin(b, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, flags, &head, sizeof(head));
}

int nft_log_open(uint16_t group, int *ret_fd)
{
	const struct nfulnl_msg_config_cmd bind_group = { .command = NFULNL_CFG_CMD_BIND };
	const struct nfulnl_msg_config_mode mode = { .copy_range = htonl(COPY_BYTES),
						     .copy_mode = NFULNL_COPY_PACKET };
	struct netlink_buffer b;
	_cleanup_close_ int fd = -1;
	int r = netlink_open(NETLINK_NETFILTER, &fd);

	if (r < 0)
		return r;
	netlink_init(&b);
	configure(&b, group, NLM_F_ACK);
	netlink_attr(&b, NFULA_CFG_CMD, &bind_group, sizeof(bind_group));
	netlink_end(&b);
	configure(&b, group, NLM_F_ACK);
	netlink_attr(&b, NFULA_CFG_MODE, &mode, sizeof(mode));
	netlink_be32(&b, NFULA_CFG_TIMEOUT, GATHER_10MS);
	netlink_end(&b);
	r = netlink_talk(fd, &b);
	if (r >= 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

static bool read_packet(const uint8_t *p, size_t n, struct nft_denied *ret)
{
	struct iphdr ip;
	size_t head;

	if (n < sizeof(ip))
		return false;
	memcpy(&ip, p, sizeof(ip));
	head = ip.ihl * 4u;
	if (ip.version != 4 || head < sizeof(ip))
		return false;
	*ret = (struct nft_denied){ .from = ntohl(ip.saddr),
				    .to = ntohl(ip.daddr),
				    .protocol = ip.protocol };
	if (ip.protocol == IPPROTO_UDP && n >= head + 4 && !(ntohs(ip.frag_off) & 0x1fff))
		ret->port = (uint16_t)(p[head + 2] << 8 | p[head + 3]);
	return true;
}

static bool read_message(const struct nlmsghdr *head, struct nft_denied *ret)
{
	size_t at = NLMSG_ALIGN(sizeof(struct nfgenmsg)), n = NLMSG_PAYLOAD(head, 0);
	const uint8_t *data = NLMSG_DATA(head);

	if (head->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
		return false;
	while (at + sizeof(struct nlattr) <= n) {
		struct nlattr attr;

		memcpy(&attr, data + at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > n - at)
			return false;
		if ((attr.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD)
			return read_packet(data + at + NLA_HDRLEN, attr.nla_len - NLA_HDRLEN, ret);
		at += NLA_ALIGN(attr.nla_len);
	}
	return false;
}

/* One datagram can contain several packets. */
int nft_log_read(int fd, void (*each)(void *arg, const struct nft_denied *denied), void *arg)
{
	_Alignas(8) uint8_t bytes[16384];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	struct nft_denied denied;
	int rest = (int)n;

	/* the kernel dropped some because they came too fast; they are only for information */
	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -errno;
	for (struct nlmsghdr *head = (void *)bytes; NLMSG_OK(head, rest);
	     head = NLMSG_NEXT(head, rest))
		if (read_message(head, &denied))
			each(arg, &denied);
	return 0;
}
