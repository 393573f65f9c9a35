/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of sandboxes that have one: a pair of links, one end (eth0) in the sandbox's net
 * namespace, the other on the host under a name of this instance, each with a point-to-point
 * address. Nothing is routed: the rules (sys/nft.h) send TCP and DNS to the daemon, which decides,
 * and reject the rest. They are installed before the first link, and stay while one exists: also
 * when the daemon or we are dead, nothing is open then.
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

#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/nft.h"
#include "sys/rtnl.h"
#include "warden/links.h"

#define INSIDE "eth0"
#define RANGE_BITS_MAX 12 /* sixteen instances of 65536 addresses */
#define NUMBER_FIRST 2	  /* 1 is the host's end of all of them */
#define NUMBER_END 65534
#define NUMBER_TRIES 64
#define LOG_GROUP 0x4300
#define GONE_TRIES 300
#define GONE_STEP_US 10000

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

static int install(struct warden *w)
{
	const struct nft_spec spec = { .table = w->links.table,
				       .prefix = w->links.prefix,
				       .proxy_port = WARDEN_PROXY_PORT,
				       .dns_port = WARDEN_DNS_PORT,
				       .log_group = (uint16_t)(LOG_GROUP + w->instance) };

	return control_on(w, CONTROL_EGRESS) ? nft_install(w->links.nft_fd, &spec) : 0;
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

/* The real thing in a namespace that is thrown away: what this host cannot do shows here. */
static int try_all(struct warden *w)
{
	_cleanup_close_ int own = openat(w->proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
	int r = own < 0 ? -errno : open_sockets(w);

	if (r >= 0)
		r = install(w);
	if (r >= 0)
		r = rtnl_veth_make(w->links.rtnl_fd, INSIDE, "outside", own, NFT_GROUP_CLOSED);
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
	if (r >= 0 && !ours)
		r = rtnl_range_used(w->links.rtnl_fd, w->links.first, 16, &used);
	if (r >= 0 && used) {
		log_error("part of the network range %s is in use on this host: choose another",
			  range);
		return -EADDRINUSE;
	}
	if (r >= 0 && ours) {
		r = install(w);
		w->links.installed = r >= 0;
	}
	return r;
}

void links_open(struct warden *w, const char *range)
{
	int r;

	w->links.rtnl_fd = w->links.nft_fd = -1;
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

/* In the sandbox's namespace. IPv6 stays on loopback only. */
static int make_inside(struct warden *w, uint32_t number)
{
	_cleanup_close_ int fd = -1;
	char outside[IF_NAMESIZE];
	unsigned ifindex = 0;
	int r = rtnl_open(&fd);

	link_name(w, number, outside);
	if (r >= 0)
		r = file_write(w->proc_fd, "sys/net/ipv6/conf/default/disable_ipv6", "1");
	if (r == -ENOENT)
		r = 0; /* a kernel without it */
	if (r >= 0)
		r = rtnl_veth_make(fd, INSIDE, outside, w->home.net_fd, NFT_GROUP_CLOSED);
	if (r >= 0)
		r = rtnl_link_find(fd, INSIDE, &ifindex);
	if (r >= 0)
		r = rtnl_link_up(fd, ifindex, w->links.first + number, gateway(w), true);
	return r;
}

/* Not by rules alone: the kernel itself routes nothing that comes in here, and has no IPv6 here. */
static void set_outside(struct warden *w, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "sys/net/ipv6/conf/%s/disable_ipv6", name);
	(void)!file_write(w->proc_fd, path, "1");
	(void)snprintf(path, sizeof(path), "sys/net/ipv4/conf/%s/forwarding", name);
	(void)!file_write(w->proc_fd, path, "0");
}

static int make_outside(struct warden *w, uint32_t number)
{
	char name[IF_NAMESIZE];
	unsigned ifindex = 0;
	int r;

	link_name(w, number, name);
	set_outside(w, name);
	r = rtnl_link_find(w->links.rtnl_fd, name, &ifindex);
	if (r >= 0)
		r = rtnl_link_up(w->links.rtnl_fd, ifindex, gateway(w), w->links.first + number,
				 false);
	return r < 0 ? r : rtnl_link_group(w->links.rtnl_fd, ifindex, NFT_GROUP_OPEN);
}

static int make_link(struct warden *w, unsigned slot, int ns_fd)
{
	struct slot_row *row = &w->rows[slot];
	int r = -EEXIST;

	for (int i = 0; i < NUMBER_TRIES && r == -EEXIST; i++) {
		uint32_t number = next_number(w);

		row->link = number;
		if (setns(ns_fd, CLONE_NEWNET) < 0)
			return -errno;
		r = make_inside(w, number);
		if (setns(w->home.net_fd, CLONE_NEWNET) < 0)
			abort();
		if (r >= 0)
			r = make_outside(w, number);
	}
	if (r < 0)
		row->link = 0;
	return r;
}

/* 'none' after another mode: the link stays, closed. Deleting one takes the kernel 30 ms. */
static int change_group(struct warden *w, unsigned slot, uint32_t network)
{
	char name[IF_NAMESIZE];
	unsigned ifindex = 0;
	int r;

	link_name(w, w->rows[slot].link, name);
	r = rtnl_link_find(w->links.rtnl_fd, name, &ifindex);
	return r < 0 ? r
		     : rtnl_link_group(w->links.rtnl_fd, ifindex,
				       network ? NFT_GROUP_OPEN : NFT_GROUP_CLOSED);
}

int links_set(struct warden *w, unsigned slot, int ns_fd, uint32_t network)
{
	int r = 0;

	if (!network && !w->rows[slot].link)
		return 0;
	if (!w->links.usable)
		return -EOPNOTSUPP;
	if (!w->links.installed) {
		r = install(w);
		if (r < 0)
			return r;
		w->links.installed = true;
	}
	return w->rows[slot].link ? change_group(w, slot, network) : make_link(w, slot, ns_fd);
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

/* ---- closing ---- */

struct leftovers {
	struct warden *w;
	unsigned count;
	bool delete;
};

static void on_leftover(void *arg, const struct rtnl_link *link)
{
	struct leftovers *left = arg;

	left->count++;
	if (left->delete)
		left->w->links.doomed = link->ifindex;
}

void links_close(struct warden *w)
{
	struct leftovers left = { .w = w };

	if (!w->links.installed)
		return;
	for (int i = 0; i < GONE_TRIES; i++) {
		left.count = 0;
		left.delete = i == GONE_TRIES - 1;
		if (rtnl_link_each(w->links.rtnl_fd, w->links.prefix, on_leftover, &left) < 0 ||
		    left.count == 0)
			break;
		if (left.delete)
			(void)!rtnl_link_delete(w->links.rtnl_fd, w->links.doomed);
		(void)usleep(GONE_STEP_US);
	}
	if (nft_remove(w->links.nft_fd, w->links.table) < 0)
		log_warn("the rules of table %s stay", w->links.table);
}
