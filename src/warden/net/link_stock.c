/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Net namespaces with a link, prepared while the warden is idle: creating a link takes the kernel
 * longer than most other parts of a sandbox. They contain no process, and the daemon does not know
 * their addresses, so no traffic passes such a link. They end with the process that holds them.
 */
#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "warden/net/links.h"

#define TARGET_FIRST 8
#define QUIET_MS 60000 /* without a sandbox with a network for this long, none is kept */

bool link_stock_has(const struct warden *w, uint32_t number)
{
	const struct link_stock *stock = &w->links.stock;

	for (unsigned i = 0; i < stock->count; i++)
		if (stock->ready[i].link == number)
			return true;
	return false;
}

/* Demand above the target shows as an empty stock: raises the target. */
static void asked(struct warden *w)
{
	struct link_stock *stock = &w->links.stock;

	stock->taken_ms = time_boot_ms();
	if (stock->target == 0)
		stock->target = TARGET_FIRST;
	else if (stock->count == 0)
		stock->target = MIN(stock->target * 2, (unsigned)LINKED_MAX);
	if (stock->count <= stock->target / 2)
		w->stock.filling = true;
}

static int make(struct warden *w, unsigned slot, uint32_t network, struct netns *ret)
{
	int r = stock_take_net(w, ret);

	return r < 0 ? r : links_set(w, slot, ret->space.fd, network);
}

int link_stock_take(struct warden *w, unsigned slot, uint32_t network, struct netns *ret)
{
	struct link_stock *stock = &w->links.stock;

	asked(w);
	if (stock->count == 0)
		return make(w, slot, network, ret);
	stock->count--;
	w->rows[slot].link = stock->ready[stock->count].link;
	*ret = stock->ready[stock->count].net;
	return network == WARDEN_LINK_PROXY ? 0 : links_set(w, slot, ret->space.fd, network);
}

bool link_stock_wanted(const struct warden *w)
{
	return w->links.usable && w->links.stock.count < w->links.stock.target;
}

int link_stock_fill(struct warden *w)
{
	struct link_stock *stock = &w->links.stock;
	struct linked_netns one = { .net = NETNS_NONE };
	int r;

	if (!stock->ready)
		stock->ready = calloc(LINKED_MAX, sizeof(*stock->ready));
	if (!stock->ready)
		return -ENOMEM;
	r = netns_make(w->proc_fd, &w->home, &one.net);
	if (r >= 0)
		r = links_make(w, one.net.space.fd, &one.link);
	if (r < 0) {
		netns_close(&one.net);
		return r;
	}
	netspace_forget(&one.net.space);
	stock->ready[stock->count++] = one;
	return 0;
}

bool link_stock_grown(const struct warden *w)
{
	return w->links.stock.target > 0;
}

static void drop(struct link_stock *stock)
{
	while (stock->count)
		netns_close(&stock->ready[--stock->count].net);
	stock->target = 0;
}

void link_stock_shrink(struct warden *w)
{
	if (time_boot_ms() - w->links.stock.taken_ms >= QUIET_MS)
		drop(&w->links.stock);
}

void link_stock_close(struct warden *w)
{
	drop(&w->links.stock);
	free(TAKE_PTR(w->links.stock.ready));
}
