/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From parts to a running sandbox. The warden clones and replies; everything else happens in the
 * child (child.c).
 */
#include <errno.h>
#include <string.h>

#include "warden/root/dev.h"
#include "warden/slot/child.h"
#include "warden/copy/job.h"
#include "warden/storage/space.h"
#include "warden/net/links.h"

static int gather(struct birth *b, const struct warden_request *req, const char **ret_step)
{
	struct warden *w = b->w;
	struct slot_row *row = &w->rows[b->slot];
	struct root *root = &w->roots[b->slot];
	int r = 0;

	*ret_step = "write identity";
	r = identity_name(w, b->slot, row->id, b->is_copy);
	if (r >= 0 && root->fd < 0)
		r = root_build(w, b->slot, req->template_hash, ret_step);
	if (r < 0)
		return r;
	*ret_step = "size shm";
	r = shm_size_root(root, req->limits.memory_mb);
	if (r < 0)
		return r;
	row->disk_size_mb = root->disk_size_mb;
	space_promised(w, row->disk_size_mb);
	/* from here on it belongs to the sandbox, and is removed with it */
	row->volume = root->volume;
	memcpy(row->template_hash, root->template_hash, sizeof(row->template_hash));
	b->has_covers = root->has_covers;
	b->disk_fd = storage_quota_open(w, root->quota);
	b->root_fd = TAKE_FD(root->fd);
	if (!b->is_copy) {
		memcpy(w->usual_template, req->template_hash, sizeof(w->usual_template));
		w->has_usual_template = true;
	}
	*ret_step = "set limits";
	r = limits_set(w, b->slot, &req->limits);
	if (r < 0)
		return r;
	*ret_step = "make net namespace";
	if (req->limits.network)
		r = link_stock_take(w, b->slot, req->limits.network, &b->net);
	else
		r = stock_take_net(w, &b->net);
	b->tell_fd = b->net.listen_fd;
	return r;
}

static int bear(struct birth *b, const struct warden_request *req, const char **ret_step,
		int ret_fds[WARDEN_FDS_MAX])
{
	int pid, pidfd = -1, r;

	r = gather(b, req, ret_step);
	if (r < 0)
		return r;
	*ret_step = "clone";
	processors_seat(b->w, b->slot, &req->limits);
	/* We wait for the child until its exec, and all requests behind this one wait with us. */
	cgroup_hurry(&b->w->cgroups, b->slot, true);
	pid = child_clone(b, &pidfd);
	cgroup_hurry(&b->w->cgroups, b->slot, false);
	if (pid < 0)
		return pid;
	b->w->bonds[b->slot] = BOND_CHILD;
	b->w->rows[b->slot].state = SLOT_LIVE;
	ret_fds[0] = TAKE_FD(b->net.client_fd);
	ret_fds[1] = pidfd;
	return 0;
}

int spawn_reserve(struct warden *w, const struct warden_request *req, const char **ret_step,
		  unsigned *ret_slot)
{
	bool is_copy = *req->snapshot_id;
	struct slot_row *row;
	int r;

	*ret_step = "find id";
	if (slots_find(w, req->id) >= 0)
		return -EEXIST;
	*ret_step = "make slot";
	r = stock_take_slot(w, is_copy ? NULL : req->template_hash, ret_slot);
	if (r < 0)
		return r;
	row = &w->rows[*ret_slot];
	memcpy(row->id, req->id, WARDEN_ID_SIZE);
	row->pid = 0;
	if (is_copy)
		row->volume = storage_volume_number();
	row->state = SLOT_MAKING; /* the intent: from here on a new warden removes it */
	return 0;
}

static int spawn_slot(struct warden *w, const struct warden_request *req, unsigned slot,
		      const char **ret_step, int ret_fds[WARDEN_FDS_MAX])
{
	struct birth b = { .w = w,
			   .slot = slot,
			   .id = w->rows[slot].id,
			   .userns_fd = w->userns_fd[slot],
			   .view = w->views[slot],
			   .is_copy = *req->snapshot_id,
			   .net = NETNS_NONE,
			   .root_fd = -1,
			   .disk_fd = -1,
			   .covers_fd = -1 };
	int r = bear(&b, req, ret_step, ret_fds);

	if (r < 0)
		w->rows[slot].state = SLOT_DYING;
	if (r < 0 || slot >= KEEPING_SLOTS)
		stock_forget(w, slot);
	else if (!w->rows[slot].link)
		netspace_take(&w->spaces[slot], &b.net.space);
	w->stock.kept |= slot < KEEPING_SLOTS;
	if (b.root_fd >= 0)
		(void)close(b.root_fd);
	if (b.disk_fd >= 0)
		(void)close(b.disk_fd);
	netns_close(&b.net);
	return r;
}

int spawn(struct warden *w, const struct warden_request *req, const char **ret_step,
	  int ret_fds[WARDEN_FDS_MAX])
{
	unsigned slot;
	int r = spawn_reserve(w, req, ret_step, &slot);

	return r < 0 ? r : spawn_slot(w, req, slot, ret_step, ret_fds);
}

int spawn_copy(struct warden *w, const struct warden_request *req, unsigned slot,
	       const struct job_result *copied, const char **ret_step, int ret_fds[WARDEN_FDS_MAX])
{
	int r = root_build_over(w, slot, w->rows[slot].volume, copied->template_hash, ret_step);

	if (r < 0)
		return r;
	w->rows[slot].disk_size_mb = 0;
	limits_recount(w, slot, 0, copied->size_bytes);
	return spawn_slot(w, req, slot, ret_step, ret_fds);
}
