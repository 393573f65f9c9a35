/* SPDX-License-Identifier: Apache-2.0 */
/* The links of sandboxes that have a network; src/warden/net/links.c. */
#ifndef CAY_WARDEN_NET_LINKS_H
#define CAY_WARDEN_NET_LINKS_H

#include "warden/warden.h"

/* Never fails: without it sandboxes have no network, and the log says why. range NULL: none. */
void links_open(struct warden *w, const char *range, const struct link_limits *limits);
/* limits.c: the operator's, from the environment or the settings file (NULL: the usual one).
 * -EINVAL: one of them is none, and has been reported. */
int link_limits_read(const char *config, struct link_limits *ret) _must_check_;
void links_close(struct warden *w); /* when no sandbox is left: links and rules go */
/* Gives a sandbox its link, opens or closes it. ns_fd: its net namespace. */
int links_set(struct warden *w, unsigned slot, int ns_fd, uint32_t network) _must_check_;
/* One without an owner: its number. */
int links_make(struct warden *w, int ns_fd, uint32_t *ret) _must_check_;
uint32_t links_address(const struct warden *w, unsigned slot); /* 0: none */
uint32_t links_gateway(const struct warden *w);		       /* 0: no networks here */
void links_stat(const struct warden *w, unsigned slot, uint64_t *ret_sent, uint64_t *ret_received);

int links_install(struct warden *w) _must_check_; /* installs the rules again */

/*
 * forward.c: what routed links need of the host. Forwarding is enabled on links that lead outside
 * if it is off, and the rules allow it only for us.
 */
void forward_open(struct warden *w);  /* takes up what a warden before us changed */
void forward_need(struct warden *w);  /* before a link is routed */
void forward_close(struct warden *w); /* restores settings that are no longer needed */

/*
 * link_stock.c: net namespaces that already have a link. None until the first sandbox with a
 * network is requested; then as many as were needed recently.
 */
#define LINKED_MAX 64
/* The namespace of a new sandbox with a network: out of the stock, or made now. */
int link_stock_take(struct warden *w, unsigned slot, uint32_t network,
		    struct netns *ret) _must_check_;
bool link_stock_has(const struct warden *w, uint32_t number);
bool link_stock_wanted(const struct warden *w);
int link_stock_fill(struct warden *w) _must_check_; /* one more */
bool link_stock_grown(const struct warden *w);
void link_stock_shrink(struct warden *w); /* to nothing, after a quiet while */
void link_stock_close(struct warden *w);

/* Reports to the daemon what the rules rejected; fd: to be watched, -1 if there is none. */
int links_log_fd(const struct warden *w);
void links_on_log(struct warden *w);

#endif
