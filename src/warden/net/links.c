/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of sandboxes that have one: a pair of links, one end (eth0) in the sandbox's net
 * namespace, the other on the host under a name of this instance, each with a point-to-point
 * address. The rules (sys/net/nft.h) send TCP and DNS to the daemon, which decides, and reject the
 * rest; only of routed ones it is forwarded (forward.c). They are installed before the first link,
 * and stay while one exists: also when the daemon or we are dead, nothing is open then.
 *
 * A link ends with its namespace; the kernel takes it down in the background. Numbers go round, so
 * that one is used again long after.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/net/nft.h"
#include "sys/net/rtnl.h"
#include "warden/net/links.h"

#define INSIDE "eth0"
#define INSIDE_INDEX 0x40000000 /* far from what the kernel gives out by itself, as is the next */
#define INDEX_FIRST 0x41000000	/* of links on the host, then instance and number */
#define RANGE_BITS_MAX 12	/* sixteen instances of 65536 addresses */
#define NUMBER_FIRST 2		/* 1 is the host's end of all of them */
#define NUMBER_END WARDEN_SINK_NUMBER /* not a link's, nor what comes behind it */
#define NUMBER_TRIES 256 /* more than were ever in stock: a killed warden's go by and by */
#define LOG_GROUP 0x4300
#define PING_GROUPS "sys/net/ipv4/ping_group_range"
#define GONE_TRIES 300
#define GONE_STEP_US 10000
#define BYTES_PER_MBIT (1000000 / 8)

static uint32_t gateway(const struct warden *w)
{
	return w->links.first + 1;
}

uint32_t links_gateway(const struct warden *w)
{
	return w->links.usable ? gateway(w) : 0;
}

uint32_t links_address(const struct warden *w, unsigned slot)
{
	return w->rows[slot].link ? w->links.first + w->rows[slot].link : 0;
}

static void link_name(const struct warden *w, uint32_t number, char dst[IF_NAMESIZE])
{
	(void)snprintf(dst, IF_NAMESIZE, "%s%u", w->links.prefix, number & 0xffff);
}

static int parse_range(struct warden *w, const char *range)
{
	struct str address, bits;
	char text[INET_ADDRSTRLEN];
	struct in_addr in;
	uint64_t n;

	if (!str_cut(str_of(range), '/', &address, &bits) ||
	    str_copy(text, sizeof(text), address) < 0 || inet_pton(AF_INET, text, &in) != 1 ||
	    str_to_u64(bits, RANGE_BITS_MAX, &n) < 0 || n < 4 ||
	    (ntohl(in.s_addr) & ~(UINT32_MAX << (32 - n))) != 0)
		return -EINVAL;
	w->links.first = ntohl(in.s_addr) + (w->instance << 16);
	return 0;
}

int links_install(struct warden *w)
{
	struct nft_spec spec = { .table = w->links.table,
				 .prefix = w->links.prefix,
				 .proxy_port = WARDEN_PROXY_PORT,
				 .dns_port = WARDEN_DNS_PORT,
				 .log_group = (uint16_t)(LOG_GROUP + w->instance),
				 .new_per_sec = w->links.limits.new_per_sec,
				 .connections = w->links.limits.connections,
				 .uplink_count = w->links.uplink_count };

	for (size_t i = 0; i < spec.uplink_count; i++)
		spec.uplinks[i] = w->links.uplinks[i];

	return control_on(w, CONTROL_EGRESS) ? nft_install(w->links.nft_fd, &spec) : 0;
}

/* Without it nothing is less closed; only UDP and the like are then refused without a word. */
static void listen_to_rules(struct warden *w)
{
	int r = nft_log_open((uint16_t)(LOG_GROUP + w->instance), &w->links.log_fd);

	if (r < 0)
		log_warn("rejected packets are not reported: %s", strerror(-r));
}

int links_log_fd(const struct warden *w)
{
	return w->links.log_fd;
}

static void on_denied(void *arg, const struct nft_denied *denied)
{
	struct warden *w = arg;
	const struct warden_reply told = { .op = WARDEN_DENIED,
					   .address = denied->from,
					   .to_address = denied->to,
					   .to_port = denied->port,
					   .protocol = denied->protocol };

	uint8_t bytes[WARDEN_REPLY_SIZE];

	/* Never waits for a daemon that does not read: this packet is then not reported. */
	warden_reply_encode(bytes, &told);
	if (w->client_fd >= 0)
		(void)!send(w->client_fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void links_on_log(struct warden *w)
{
	if (nft_log_read(w->links.log_fd, on_denied, w) < 0)
		(void)close(TAKE_FD(w->links.log_fd));
}

/* ---- opening ---- */

static int open_sockets(struct warden *w)
{
	int r = rtnl_open(&w->links.rtnl_fd);

	return r < 0 ? r : nft_open(&w->links.nft_fd);
}

static void close_sockets(struct warden *w)
{
	if (w->links.rtnl_fd >= 0)
		(void)close(TAKE_FD(w->links.rtnl_fd));
	if (w->links.nft_fd >= 0)
		(void)close(TAKE_FD(w->links.nft_fd));
}

static int shape(const struct warden *w, int rtnl_fd, unsigned ifindex)
{
	uint64_t rate = (uint64_t)w->links.limits.rate_mbit * BYTES_PER_MBIT;

	return rate ? rtnl_link_shape(rtnl_fd, ifindex, rate) : 0;
}

/* The real thing in a namespace that is thrown away: what this host cannot do shows here. */
static int try_all(struct warden *w)
{
	const struct rtnl_end here = { INSIDE, INSIDE_INDEX, gateway(w) + 1, gateway(w), true };
	const struct rtnl_end there = { .name = "outside", .ifindex = INDEX_FIRST };
	_cleanup_close_ int own = openat(w->proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
	int r = own < 0 ? -errno : open_sockets(w);

	if (r >= 0)
		r = links_install(w);
	if (r >= 0)
		r = rtnl_veth_make(w->links.rtnl_fd, &here, &there, own, NFT_GROUP_CLOSED);
	if (r >= 0 && shape(w, w->links.rtnl_fd, here.ifindex) < 0) {
		log_warn("links of sandboxes have no rate limit: this kernel has no TBF");
		w->links.limits.rate_mbit = 0;
	}
	close_sockets(w);
	return r;
}

static int probe(struct warden *w)
{
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	r = try_all(w);
	if (setns(w->home.net_fd, CLONE_NEWNET) < 0)
		abort();
	return r;
}

static bool any_linked(const struct warden *w)
{
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state != SLOT_FREE && w->rows[i].link)
			return true;
	return false;
}

/* ---- what is left of links whose namespaces are gone ---- */

struct leftovers {
	unsigned count;
	unsigned ifindex; /* of one */
};

static void on_leftover(void *arg, const struct rtnl_link *link)
{
	struct leftovers *left = arg;

	left->count++;
	left->ifindex = link->ifindex;
}

/* The kernel removes them in the background: none is left when this returns. */
static void await_gone(struct warden *w)
{
	for (int i = 0; i < GONE_TRIES; i++) {
		struct leftovers left = { 0 };

		if (rtnl_link_each(w->links.rtnl_fd, w->links.prefix, on_leftover, &left) < 0 ||
		    left.count == 0)
			return;
		if (i >= GONE_TRIES / 2) /* a process holds them */
			(void)!rtnl_link_delete(w->links.rtnl_fd, left.ifindex);
		else
			(void)usleep(GONE_STEP_US);
	}
}

/* After a restart the rules are renewed at once: those of an older version may differ. */
static int open_links(struct warden *w, const char *range)
{
	bool used = false, ours = any_linked(w);
	int r = parse_range(w, range);

	if (r < 0) {
		log_error("network range '%s' is not ADDRESS/BITS with at most %d bits", range,
			  RANGE_BITS_MAX);
		return r;
	}
	r = probe(w);
	if (r >= 0)
		r = open_sockets(w);
	if (r >= 0 && !ours) {
		await_gone(w); /* the stock of one that was killed */
		r = rtnl_range_used(w->links.rtnl_fd, w->links.first, 16, &used);
	}
	if (r >= 0 && used) {
		log_error("part of the network range %s is in use on this host: choose another",
			  range);
		return -EADDRINUSE;
	}
	if (r >= 0 && !ours) { /* what is left of one that was killed */
		forward_open(w);
		forward_close(w);
		r = nft_remove(w->links.nft_fd, w->links.table);
	}
	if (r >= 0 && ours) {
		forward_open(w);
		r = links_install(w);
		w->links.installed = r >= 0;
		if (r >= 0)
			listen_to_rules(w);
	}
	return r;
}

void links_open(struct warden *w, const char *range, const struct link_limits *limits)
{
	int r;

	w->links.limits = *limits;
	w->links.rtnl_fd = w->links.nft_fd = w->links.log_fd = -1;
	w->links.next = NUMBER_FIRST;
	(void)snprintf(w->links.table, sizeof(w->links.table), "cay%u", w->instance);
	(void)snprintf(w->links.prefix, sizeof(w->links.prefix), "cay%u-", w->instance & 0xff);
	if (!range || !*range || strcmp(range, "none") == 0)
		return;
	r = open_links(w, range);
	if (r < 0)
		log_warn("sandboxes get no network: %s", strerror(-r));
	else
		w->links.usable = true;
}

/* ---- one link ---- */

static bool number_free(const struct warden *w, uint32_t number)
{
	if (link_stock_has(w, number))
		return false;
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state != SLOT_FREE && w->rows[i].link == number)
			return false;
	return true;
}

static uint32_t next_number(struct warden *w)
{
	do {
		if (w->links.next >= NUMBER_END)
			w->links.next = NUMBER_FIRST;
	} while (!number_free(w, w->links.next++));
	return w->links.next - 1;
}

static unsigned link_index(const struct warden *w, uint32_t number)
{
	return INDEX_FIRST + (w->instance << 16) + number;
}

/* In the sandbox's namespace. */
static int make_inside(struct warden *w, const struct rtnl_end *outside)
{
	const struct rtnl_end inside = { .name = INSIDE,
					 .ifindex = INSIDE_INDEX,
					 .address = outside->peer,
					 .peer = outside->address,
					 .gateway = true };
	_cleanup_close_ int fd = -1;
	int r = rtnl_open(&fd);

	/* All users inside may ping; whether the packet leaves is decided elsewhere. */
	if (r >= 0 && file_write(w->proc_fd, PING_GROUPS, "0 4294967294") < 0)
		log_debug("sandboxes cannot ping");
	if (r >= 0)
		r = rtnl_veth_make(fd, &inside, outside, w->home.net_fd, NFT_GROUP_OPEN);
	/* No process inside can change it: the namespace is the host's. */
	return r < 0 ? r : shape(w, fd, INSIDE_INDEX);
}

static int make_link(struct warden *w, int ns_fd, uint32_t *ret)
{
	int r = -EEXIST;

	for (int i = 0; i < NUMBER_TRIES && r == -EEXIST; i++) {
		char name[IF_NAMESIZE];
		struct rtnl_end outside = { .name = name, .address = gateway(w) };

		*ret = next_number(w);
		link_name(w, *ret, name);
		outside.ifindex = link_index(w, *ret);
		outside.peer = w->links.first + *ret;
		if (setns(ns_fd, CLONE_NEWNET) < 0)
			return -errno;
		r = make_inside(w, &outside);
		if (setns(w->home.net_fd, CLONE_NEWNET) < 0)
			abort();
		if (r >= 0)
			r = rtnl_link_raise(w->links.rtnl_fd, &outside);
		if (r >= 0)
			r = shape(w, w->links.rtnl_fd, outside.ifindex);
	}
	if (r < 0)
		*ret = 0;
	return r;
}

/* 'none' after another mode: the link stays, closed. Deleting one takes the kernel 30 ms. */
static int change_group(struct warden *w, uint32_t number, uint32_t network)
{
	static const uint32_t groups[] = { NFT_GROUP_CLOSED, NFT_GROUP_OPEN, NFT_GROUP_ROUTED };
	bool routed = network == WARDEN_LINK_ROUTED;

	if (routed)
		forward_need(w);
	return rtnl_link_group(w->links.rtnl_fd, link_index(w, number), groups[network], routed);
}

/* Before the first link. */
static int prepare(struct warden *w)
{
	int r;

	if (!w->links.usable)
		return -EOPNOTSUPP;
	if (w->links.installed)
		return 0;
	r = links_install(w);
	if (r < 0)
		return r;
	w->links.installed = true;
	listen_to_rules(w);
	return 0;
}

int links_make(struct warden *w, int ns_fd, uint32_t *ret)
{
	int r = prepare(w);

	return r < 0 ? r : make_link(w, ns_fd, ret);
}

int links_set(struct warden *w, unsigned slot, int ns_fd, uint32_t network)
{
	int r;

	if (!network && !w->rows[slot].link)
		return 0;
	r = prepare(w);
	if (r < 0)
		return r;
	if (!w->rows[slot].link) {
		r = make_link(w, ns_fd, &w->rows[slot].link);
		if (r < 0 || network == WARDEN_LINK_PROXY)
			return r; /* as every new one */
	}
	return change_group(w, w->rows[slot].link, network);
}

void links_stat(const struct warden *w, unsigned slot, uint64_t *ret_sent, uint64_t *ret_received)
{
	struct rtnl_link link;
	char name[IF_NAMESIZE];

	*ret_sent = *ret_received = 0;
	if (!w->rows[slot].link || w->links.rtnl_fd < 0)
		return;
	link_name(w, w->rows[slot].link, name);
	if (rtnl_link_stat(w->links.rtnl_fd, name, &link) < 0)
		return;
	*ret_sent = link.rx_bytes;
	*ret_received = link.tx_bytes;
}

void links_close(struct warden *w)
{
	if (!w->links.installed)
		return;
	await_gone(w);
	forward_close(w);
	if (nft_remove(w->links.nft_fd, w->links.table) < 0)
		log_warn("the rules of table %s stay", w->links.table);
}
