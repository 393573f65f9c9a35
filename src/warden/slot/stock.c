/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Net namespaces, and slots with their cgroups, user namespaces and roots, prepared while the
 * warden is idle. Refilling starts when half of the target is used up and continues to the target,
 * so that it rarely competes with a create; the target follows recent demand.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/mount/buildns.h"
#include "warden/root/dev.h"
#include "warden/net/links.h"
#include "warden/root/programs.h"

#define TARGET_USUAL 20
#define TARGET_MAX 64
#define QUIET_MS 2000 /* without a create: back to the usual size */

int stock_open(struct warden *w)
{
	struct stock *p = &w->stock;

	p->net = calloc(TARGET_MAX, sizeof(*p->net));
	p->blanks = calloc(TARGET_MAX, sizeof(*p->blanks));
	p->target = TARGET_USUAL;
	p->filling = true;
	w->usual = (struct warden_limits){
		.cpu_milli = 1000, .memory_mb = 1024, .disk_size_mb = 3072, .pids_max = 1024
	};
	return p->net && p->blanks ? 0 : -ENOMEM;
}

unsigned stock_left(const struct warden *w)
{
	return MIN(w->stock.net_count, w->stock.blank_count);
}

/* A blank slot without a root of the usual template, or -1. */
static int undressed(const struct warden *w)
{
	const struct stock *p = &w->stock;

	for (unsigned i = 0; w->has_usual_template && i < p->blank_count; i++)
		if (!root_fits(w, p->blanks[i], w->usual_template))
			return (int)p->blanks[i];
	return -1;
}

void stock_undress(struct warden *w)
{
	w->has_usual_template = false;
	clean_root_forget_all(w);
	for (unsigned i = 0; i < w->stock.blank_count; i++)
		root_drop(w, w->stock.blanks[i]);
}

bool stock_wanted(const struct warden *w)
{
	return w->stock.filling && !w->stopping;
}

static int make_groups(struct warden *w, unsigned slot)
{
	int r = cgroup_make(&w->cgroups, slot);

	if (r >= 0 && !w->rows[slot].has_cgroups)
		w->rows[slot].has_cgroups = 1;
	else if (r >= 0 && w->stock.spare_cgroups)
		w->stock.spare_cgroups--;
	return r;
}

static int open_groups(struct warden *w, unsigned slot)
{
	int r = make_groups(w, slot);

	if (r >= 0)
		r = cgroup_door_open(&w->cgroups, slot, &w->doors[slot]);
	if (r >= 0)
		cgroup_view_make(&w->cgroups, slot, &w->views[slot]);
	return r;
}

/* Creates the parts that the slot keeps. */
static int make_own(struct warden *w, unsigned slot)
{
	int r = open_groups(w, slot);

	if (r >= 0)
		r = identity_make(w, slot);
	if (r >= 0)
		r = dev_make(w, slot);
	if (r >= 0)
		r = cover_make(w, slot);
	if (r >= 0)
		r = programs_make(w, slot);
	if (r >= 0)
		r = userns_make(w->proc_fd, slot_first_id(w, slot), &w->userns_fd[slot]);
	return r;
}

static int prepare_slot(struct warden *w, unsigned slot)
{
	int r = 0;

	if (w->userns_fd[slot] < 0)
		r = make_own(w, slot);
	else if (!w->rows[slot].has_cgroups)
		r = open_groups(w, slot);
	else if (w->stock.spare_cgroups)
		w->stock.spare_cgroups--;
	if (r >= 0)
		r = cgroup_own(&w->cgroups, slot, slot_first_id(w, slot));
	if (r >= 0)
		r = limits_set_groups(w, slot, &w->usual);
	if (r >= 0)
		r = identity_renew(w, slot);
	if (r >= 0)
		r = cover_renew(w, slot, &w->usual);
	if (r >= 0)
		r = dev_renew(w, slot);
	return r;
}

static int make_slot(struct warden *w, unsigned *ret)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		int r;

		if (w->rows[i].state != SLOT_FREE)
			continue;
		slots_used(w, i);
		r = prepare_slot(w, i);
		if (r < 0) {
			stock_forget(w, i); /* everything is created again the next time */
			return r;
		}
		w->rows[i].oom_base = cgroup_oom_kills(&w->cgroups, i); /* of earlier users */
		w->rows[i].state = SLOT_BLANK;
		*ret = i;
		return 0;
	}
	return -ENOBUFS;
}

static int fill_one(struct warden *w)
{
	struct stock *p = &w->stock;
	const char *step;
	int slot, r;

	if (p->late_fd_count) {
		mount_close(p->late_fds[--p->late_fd_count]);
		return 0;
	}
	if (p->cast_off_count && stock_left(w) > p->target / 2) {
		root_discard(w, &p->cast_off[--p->cast_off_count]);
		return 0;
	}
	if (stock_left(w) >= p->target && link_stock_wanted(w))
		return link_stock_fill(w);
	if (stock_left(w) >= p->target) {
		slot = undressed(w);
		if (slot < 0)
			return -EALREADY; /* nothing is missing */
		root_drop(w, (unsigned)slot);
		r = root_build(w, (unsigned)slot, w->usual_template, &step);
		if (r >= 0)
			root_warm(&w->roots[slot]);
		return r;
	}
	if (p->blank_count <= p->net_count) {
		r = make_slot(w, &p->blanks[p->blank_count]);
		p->blank_count += r >= 0;
	} else {
		r = netns_make(w->proc_fd, &w->home, &p->net[p->net_count]);
		p->net_count += r >= 0;
	}
	return r;
}

void stock_step(struct warden *w)
{
	if (fill_one(w) < 0)
		/* full; or tried again with the next create, which then reports the error */
		w->stock.filling = false;
}

/* Demand above the target shows as an empty stack: raises the target. */
static void taken(struct stock *p, unsigned left)
{
	p->taken_ms = time_boot_ms();
	if (left <= p->target / 2)
		p->filling = true;
	if (left == 0 && p->target < TARGET_MAX)
		p->target = MIN(p->target * 2, TARGET_MAX);
}

int stock_take_net(struct warden *w, struct netns *ret)
{
	struct stock *p = &w->stock;

	if (p->net_count == 0) {
		taken(p, 0);
		return netns_make(w->proc_fd, &w->home, ret);
	}
	*ret = p->net[--p->net_count];
	taken(p, p->net_count);
	return 0;
}

static unsigned best_blank(const struct warden *w, const uint8_t *hash)
{
	const struct stock *p = &w->stock;
	unsigned best = p->blank_count - 1;

	for (unsigned i = p->blank_count; i-- > 0;) {
		if (hash && root_fits(w, p->blanks[i], hash))
			return i;
		if (w->roots[p->blanks[i]].fd < 0)
			best = i; /* nothing is discarded with this one */
	}
	return best;
}

void stock_close_later(struct warden *w, int fd)
{
	struct stock *p = &w->stock;

	if (fd < 0)
		return;
	if (p->late_fd_count == LATE_FDS_MAX)
		mount_close(p->late_fds[--p->late_fd_count]);
	p->late_fds[p->late_fd_count++] = fd;
	p->filling = true;
}

/* Unmounting and deleting must not delay a request. */
static void cast_off(struct warden *w, unsigned slot)
{
	struct stock *p = &w->stock;

	if (w->roots[slot].fd < 0)
		return;
	clean_root_forget(w, slot);
	if (p->cast_off_count == CAST_OFF_MAX)
		root_discard(w, &p->cast_off[--p->cast_off_count]);
	p->cast_off[p->cast_off_count++] = w->roots[slot];
	w->roots[slot].fd = -1;
}

int stock_take_slot(struct warden *w, const uint8_t *hash, unsigned *ret)
{
	struct stock *p = &w->stock;
	unsigned at;

	if (p->blank_count == 0) {
		taken(p, 0);
		return make_slot(w, ret);
	}
	at = best_blank(w, hash);
	*ret = p->blanks[at];
	p->blanks[at] = p->blanks[--p->blank_count];
	taken(p, p->blank_count);
	if (!hash || !root_fits(w, *ret, hash)) {
		cast_off(w, *ret);
		p->filling = true; /* the next one of its kind finds one ready */
	}
	return 0;
}

void stock_forget(struct warden *w, unsigned slot)
{
	struct outlook *outlook = &w->outlooks[slot];

	cgroup_view_close(&w->views[slot]);
	cgroup_door_close(&w->doors[slot]);
	if (w->userns_fd[slot] >= 0)
		(void)close(TAKE_FD(w->userns_fd[slot]));
	clean_root_forget(w, slot);
	stock_close_later(w, TAKE_FD(w->covers_fd[slot]));
	stock_close_later(w, TAKE_FD(w->programs_fd[slot]));
	stock_close_later(w, TAKE_FD(outlook->lower_fd));
	stock_close_later(w, TAKE_FD(outlook->pool_fd));
}

/* Drops what a long-lived sandbox does not need. */
static void let_go(struct warden *w, unsigned slot)
{
	stock_forget(w, slot);
	netspace_close(&w->spaces[slot]);
}

void stock_keep_net(struct warden *w, struct netspace *space)
{
	struct stock *p = &w->stock;

	if (p->net_count < p->target && !w->stopping &&
	    netns_renew(w->proc_fd, &w->home, space, &p->net[p->net_count]) >= 0)
		p->net_count++;
	netspace_close(space);
}

/* On v2 a group permanently shows figures of its last user. */
static void renew_cgroups(struct warden *w, unsigned slot)
{
	cgroup_view_close(&w->views[slot]);
	cgroup_door_close(&w->doors[slot]);
	if (cgroup_remove(&w->cgroups, slot) < 0)
		stock_forget(w, slot); /* still busy in the kernel: the next user takes it over */
	else
		w->rows[slot].has_cgroups = 0;
	w->limits[slot] = (struct warden_limits){ 0 };
}

static void drop_cgroups(struct warden *w, unsigned slot)
{
	stock_forget(w, slot);
	if (cgroup_remove(&w->cgroups, slot) < 0) {
		w->stock.spare_cgroups++; /* still busy in the kernel: the next user takes it over
					   */
		return;
	}
	w->rows[slot].has_cgroups = 0;
	w->limits[slot] = (struct warden_limits){ 0 };
}

void stock_keep_cgroups(struct warden *w, unsigned slot)
{
	if (!cgroup_is_reusable(&w->cgroups))
		renew_cgroups(w, slot);
	else if (w->stock.blank_count + w->stock.spare_cgroups < w->stock.target)
		w->stock.spare_cgroups++;
	else
		drop_cgroups(w, slot);
}

static void drop_blank(struct warden *w)
{
	unsigned slot = w->stock.blanks[--w->stock.blank_count];

	root_drop(w, slot);
	w->rows[slot].state = SLOT_FREE;
	drop_cgroups(w, slot);
}

bool stock_grown(const struct warden *w)
{
	return w->stock.target > TARGET_USUAL || w->stock.spare_cgroups || w->stock.kept ||
	       link_stock_grown(w);
}

void stock_shrink(struct warden *w)
{
	struct stock *p = &w->stock;

	link_stock_shrink(w);
	if (time_boot_ms() - p->taken_ms < QUIET_MS)
		return;
	p->target = TARGET_USUAL;
	while (p->net_count > p->target)
		netns_close(&p->net[--p->net_count]);
	while (p->blank_count > p->target)
		drop_blank(w);
	p->spare_cgroups = 0;
	p->kept = false;
	for (unsigned i = 0; i < w->slot_top; i++) {
		if (w->rows[i].state == SLOT_FREE && w->rows[i].has_cgroups)
			drop_cgroups(w, i);
		if (w->rows[i].state == SLOT_LIVE)
			let_go(w, i);
	}
	slots_trim(w);
}

void stock_close(struct warden *w)
{
	struct stock *p = &w->stock;

	link_stock_close(w);
	while (p->net_count)
		netns_close(&p->net[--p->net_count]);
	while (p->blank_count)
		drop_blank(w);
	while (p->cast_off_count)
		root_discard(w, &p->cast_off[--p->cast_off_count]);
	clean_root_forget_all(w);
	while (p->late_fd_count)
		mount_close(p->late_fds[--p->late_fd_count]);
	free(p->net);
	free(p->blanks);
}
