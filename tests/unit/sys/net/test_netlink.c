/* SPDX-License-Identifier: Apache-2.0 */
/* The builder of netlink messages, links and routes, and the packet filter, in a net namespace of
 * the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#include "../../own_place.h"
#include "sys/net/netlink.h"
#include "sys/net/nft.h"
#include "sys/net/rtnl.h"

/* ---- messages ---- */

static void messages_and_attributes_are_aligned(void **state)
{
	static struct netlink_buffer b;
	const uint8_t family = 9;
	const struct nlmsghdr *head = (const void *)b.data;
	const struct nlattr *attr = (const void *)(b.data + 20);
	size_t nest;

	(void)state;
	netlink_init(&b);
	netlink_begin(&b, 77, NLM_F_ACK, &family, 1);
	netlink_text(&b, 5, "abc12");
	nest = netlink_nest(&b, 6);
	netlink_be32(&b, 7, 0x01020304);
	netlink_unnest(&b, nest);
	netlink_end(&b);
	assert_int_equal(head->nlmsg_type, 77);
	assert_int_equal(head->nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
	assert_int_equal(head->nlmsg_len, b.n);
	assert_int_equal(attr->nla_type, 5);
	assert_int_equal(attr->nla_len, 4 + 6); /* with its end, without the padding */
	assert_int_equal(nest, 32);
	attr = (const void *)(b.data + nest);
	assert_int_equal(attr->nla_type, 6 | NLA_F_NESTED);
	assert_int_equal(attr->nla_len, 4 + 8);
	assert_memory_equal(b.data + nest + 8, "\1\2\3\4", 4);
	assert_int_equal(b.n, nest + 12);
}

static void a_full_buffer_is_never_sent(void **state)
{
	static struct netlink_buffer b;
	static const uint8_t large[NETLINK_BUFFER_SIZE];
	size_t filled;

	(void)state;
	netlink_init(&b);
	netlink_begin(&b, 1, NLM_F_ACK, large, 4);
	netlink_attr(&b, 1, large,
		     NETLINK_BUFFER_SIZE - b.n - sizeof(struct nlattr)); /* the last byte */
	assert_false(b.full);
	filled = b.n;
	assert_int_equal(filled, NETLINK_BUFFER_SIZE);
	netlink_u32(&b, 2, 1);
	assert_true(b.full);
	netlink_end(&b);
	netlink_unnest(&b, netlink_nest(&b, 3));
	assert_int_equal(b.n, filled);
	assert_int_equal(netlink_talk(-1, &b), -EMSGSIZE);
	assert_int_equal(netlink_dump(-1, &b, NULL, NULL), -EMSGSIZE);
}

static void the_first_error_of_several_messages_counts(void **state)
{
	static struct netlink_buffer b;
	const struct ifinfomsg none = { .ifi_index = 987654 };
	int fd = -1;

	(void)state;
	assert_int_equal(netlink_open(NETLINK_ROUTE, &fd), 0);
	netlink_init(&b);
	netlink_begin(&b, RTM_DELLINK, NLM_F_ACK, &none, sizeof(none));
	netlink_end(&b);
	netlink_begin(&b, 9999, NLM_F_ACK, &none, sizeof(none));
	netlink_end(&b);
	assert_int_equal(netlink_talk(fd, &b), -ENODEV);
	(void)close(fd);
	assert_int_equal(netlink_talk(fd, &b), -EBADF);
	assert_true(netlink_open(4000, &fd) < 0);
}

/* ---- links ---- */

static void count_link(void *arg, const struct rtnl_link *link)
{
	unsigned *found = arg;

	found[0]++;
	found[1] = link->ifindex;
}

static void a_pair_of_links_is_made_found_and_deleted(void **state)
{
	const struct rtnl_end here = { "here0", 100, 0x0a010001, 0x0a010002, true };
	const struct rtnl_end there = { "there0", 101, 0x0a010002, 0x0a010001, false };
	int ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1;
	unsigned found[2] = { 0 }, uplinks[2] = { 0 };
	struct rtnl_link link;
	bool used = true;

	(void)state;
	assert_int_equal(rtnl_open(&fd), 0);
	assert_int_equal(rtnl_range_used(fd, 0x0a010000, 16, &used), 0);
	assert_false(used);
	assert_int_equal(rtnl_default_links(fd, uplinks, 2), 0);
	if (rtnl_veth_make(fd, &here, &there, ns_fd, NFT_GROUP_OPEN) == -EOPNOTSUPP) {
		print_message("skipped: no pairs of links in this kernel\n");
		skip();
	}
	assert_int_equal(rtnl_veth_make(fd, &here, &there, ns_fd, NFT_GROUP_OPEN), -EEXIST);
	assert_int_equal(rtnl_link_raise(fd, &there), 0);
	assert_int_equal(rtnl_link_each(fd, "ther", count_link, found), 0);
	assert_int_equal(found[0], 1);
	assert_int_equal(found[1], 101);
	assert_int_equal(rtnl_link_each(fd, "there00", count_link, found), 0);
	assert_int_equal(found[0], 1);
	assert_int_equal(rtnl_link_stat(fd, "here0", &link), 0);
	assert_int_equal(link.ifindex, 100);
	assert_int_equal(rtnl_link_stat(fd, "gone0", &link), -ENODEV);
	assert_int_equal(rtnl_default_links(fd, uplinks, 2), 1);
	assert_int_equal(uplinks[0], 100);
	assert_int_equal(rtnl_range_used(fd, 0x0a010000, 16, &used), 0);
	assert_true(used);
	assert_int_equal(rtnl_range_used(fd, 0x0a020000, 16, &used),
			 0); /* the default route does not count */
	assert_false(used);
	assert_int_equal(rtnl_link_group(fd, 101, NFT_GROUP_ROUTED, true), 0);
	assert_int_equal(rtnl_link_group(fd, 999, NFT_GROUP_ROUTED, true), -ENODEV);
	assert_int_equal(rtnl_link_delete(fd, 100), 0);
	assert_int_equal(rtnl_link_delete(fd, 100), -ENODEV);
	assert_int_equal(rtnl_link_stat(fd, "there0", &link), -ENODEV); /* both ends */
	(void)close(ns_fd);
	(void)close(fd);
}

/* ---- the packet filter ---- */

static void a_table_is_replaced_and_removed(void **state)
{
	struct nft_spec spec = {
		.table = "caytest",
		.prefix = "ct-",
		.proxy_port = 3128,
		.dns_port = 53,
		.new_per_sec = 500,
		.connections = 1024,
	};
	int fd = -1, r;

	(void)state;
	r = nft_open(&fd);
	if (r >= 0)
		r = nft_install(fd, &spec);
	if (r < 0) {
		print_message("skipped: no nf_tables: %s\n", strerror(-r));
		skip();
	}
	for (size_t i = 0; i < NFT_UPLINKS_MAX; i++)
		spec.uplinks[i] = "fifteen-long-na";
	spec.uplink_count = NFT_UPLINKS_MAX;
	assert_int_equal(nft_install(fd, &spec), 0); /* the largest one fits its buffer */
	assert_int_equal(nft_remove(fd, "caytest"), 0);
	assert_int_equal(nft_remove(fd, "caytest"), 0); /* none is fine */
	(void)close(fd);
	assert_true(nft_install(fd, &spec) < 0);
}

/* ---- what was rejected ---- */

static struct nft_denied denied[8];
static unsigned denied_count;

static void on_denied(void *arg, const struct nft_denied *one)
{
	assert_null(arg);
	assert_true(denied_count < ARRAY_LEN(denied));
	denied[denied_count++] = *one;
}

struct report {
	struct nlmsghdr head;
	struct nfgenmsg family;
	struct nlattr attr;
	uint8_t packet[32];
};

static struct report make_report(uint8_t protocol)
{
	const struct iphdr ip = { .version = 4,
				  .ihl = 5,
				  .protocol = protocol,
				  .saddr = htonl(0x64400002),
				  .daddr = htonl(0x08080808) };
	struct report r = { .head = { .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET },
			    .attr = { .nla_type = NFULA_PAYLOAD, .nla_len = NLA_HDRLEN + 28 } };

	r.head.nlmsg_len = offsetof(struct report, packet) + 28;
	memcpy(r.packet, &ip, sizeof(ip));
	r.packet[22] = 0x12; /* the port it was for */
	r.packet[23] = 0x34;
	return r;
}

static unsigned read_reports(int fds[2], const void *bytes, size_t n)
{
	denied_count = 0;
	assert_int_equal(send(fds[0], bytes, n, 0), n);
	assert_int_equal(nft_log_read(fds[1], on_denied, NULL), 0);
	return denied_count;
}

static void reports_are_read_and_forged_ones_ignored(void **state)
{
	struct report pair[2] = { make_report(IPPROTO_UDP), make_report(IPPROTO_ICMP) }, bad;
	int fds[2];

	(void)state;
	assert_return_code(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds), errno);
	assert_int_equal(nft_log_read(fds[1], on_denied, NULL), 0); /* none just now */
	pair[0].head.nlmsg_len = sizeof(pair[0]);
	assert_int_equal(read_reports(fds, pair, sizeof(pair[0]) + pair[1].head.nlmsg_len), 2);
	assert_int_equal(denied[0].from, 0x64400002);
	assert_int_equal(denied[0].to, 0x08080808);
	assert_int_equal(denied[0].protocol, IPPROTO_UDP);
	assert_int_equal(denied[0].port, 0x1234);
	assert_int_equal(denied[1].port, 0); /* the protocol has none */
	bad = make_report(IPPROTO_UDP);
	bad.head.nlmsg_type++;
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 0);
	bad = make_report(IPPROTO_UDP);
	bad.attr.nla_len = 2; /* shorter than itself */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 0);
	bad.attr.nla_len = 200; /* beyond the message */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 0);
	bad = make_report(IPPROTO_UDP);
	bad.packet[0] = 0x44; /* a header shorter than a header */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 0);
	bad.packet[0] = 0x65; /* version 6 */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 0);
	bad = make_report(IPPROTO_UDP);
	bad.packet[0] = 0x4f; /* a header longer than what was copied: the port is not known */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 1);
	assert_int_equal(denied[0].port, 0);
	bad = make_report(IPPROTO_UDP);
	bad.packet[7] = 1; /* a later fragment */
	assert_int_equal(read_reports(fds, &bad, bad.head.nlmsg_len), 1);
	assert_int_equal(denied[0].port, 0);
	assert_int_equal(read_reports(fds, "short", 5), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
	assert_int_equal(nft_log_read(fds[1], on_denied, NULL), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_and_attributes_are_aligned),
		cmocka_unit_test(a_full_buffer_is_never_sent),
		cmocka_unit_test(the_first_error_of_several_messages_counts),
		cmocka_unit_test(a_pair_of_links_is_made_found_and_deleted),
		cmocka_unit_test(a_table_is_replaced_and_removed),
		cmocka_unit_test(reports_are_read_and_forged_ones_ignored),
	};

	if (!own_place_enter(CLONE_NEWNET))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
