/* SPDX-License-Identifier: Apache-2.0 */
/* One request, one answer. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/rights.h"
#include "sys/syscalls.h"
#include "warden/root/dev.h"
#include "warden/capability.h"
#include "warden/copy/job.h"
#include "warden/net/links.h"
#include "warden/storage/space.h"

#define LATER 1 /* an operation's answer comes from a job */

struct call {
	struct warden_request req;
	struct warden_reply reply;
	int in_fds[WARDEN_FDS_MAX]; /* that came with the request; -1: none */
	int fds[WARDEN_FDS_MAX];
};

/* What it asked for and did not get yet is undone: the next one asks again. */
void serve_drop_client(struct warden *w)
{
	if (w->client_fd >= 0)
		(void)close(w->client_fd);
	w->client_fd = -1;
	jobs_kill_all(w);
	temporary_drop_all(w);
}

static void call_step(struct call *call, const char *step)
{
	(void)snprintf(call->reply.step, sizeof(call->reply.step), "%s", step);
}

void serve_hello(struct warden *w, struct warden_reply *reply)
{
	reply->capabilities = capability_bits(w);
	reply->address = links_gateway(w);
	reply->alive = owner_holds(w);
	space_figures(w, reply);
	memcpy(reply->id, w->owner, sizeof(reply->id));
}

static int do_hello(struct warden *w, struct call *call)
{
	int r = *call->req.id ? owner_claim(w, call->req.id) : 0;

	if (r < 0) /* asked again with the next connection */
		log_warn("the id of the database could not be written: %s", strerror(-r));
	serve_hello(w, &call->reply);
	return 0;
}

/* A job makes its volume; the rest is done, and the answer given, when that has ended. */
static int create_later(struct warden *w, struct call *call, const char **ret_step)
{
	unsigned slot;
	int r;

	*ret_step = "find snapshot";
	if (w->snapshots_fd < 0)
		return -EOPNOTSUPP;
	r = spawn_reserve(w, &call->req, ret_step, &slot);
	if (r < 0)
		return r;
	*ret_step = "wait for the disk";
	r = jobs_add_copy(w, &call->req, slot);
	if (r < 0)
		w->rows[slot].state = SLOT_DYING;
	return r < 0 ? r : LATER;
}

/* From a temporary snapshot that is not needed any more: nothing to wait for. */
static int create_of_passing(struct warden *w, struct call *call, const char **ret_step)
{
	struct snapshot_order order = { .temporary = true };
	struct job_result found = { .error = 0 };
	unsigned slot;
	int r;

	*ret_step = "find snapshot";
	if (w->snapshots_fd < 0)
		return -EOPNOTSUPP;
	if (call->req.flags & WARDEN_MEMORY) /* that takes a job's time */
		return -EINVAL;
	r = spawn_reserve(w, &call->req, ret_step, &slot);
	if (r < 0)
		return r;
	order.slot = slot;
	memcpy(order.snapshot_id, call->req.snapshot_id, sizeof(order.snapshot_id));
	r = temporary_use_up(w, &order, &found);
	if (r < 0) {
		call_step(call, found.step);
		*ret_step = call->reply.step;
	} else {
		r = spawn_copy(w, &call->req, slot, &found, ret_step, call->fds);
	}
	if (r < 0)
		w->rows[slot].state = SLOT_DYING;
	return r;
}

static int do_create(struct warden *w, struct call *call)
{
	const char *step = "";
	int r, slot;

	r = space_admit(w, call->req.limits.disk_size_mb, &step);
	if (r < 0)
		; /* the step says what to do */
	else if (call->req.flags & WARDEN_TEMPORARY)
		r = create_of_passing(w, call, &step);
	else if (*call->req.snapshot_id)
		r = create_later(w, call, &step);
	else
		r = spawn(w, &call->req, &step, call->fds);
	slot = r == 0 ? slots_find(w, call->req.id) : -ENOENT;
	if (slot >= 0)
		call->reply.address = links_address(w, (unsigned)slot);
	if (r < 0) {
		if (step != call->reply.step)
			call_step(call, step);
		log_warn("create %s: %s: %s", call->req.id, step, strerror(-r));
	}
	return r;
}

static int do_attach(struct warden *w, struct call *call)
{
	int slot = slots_find(w, call->req.id);

	if (slot < 0)
		return slot;
	call->reply.address = links_address(w, (unsigned)slot);
	return attach_slot(w, (unsigned)slot, call->fds);
}

static int do_destroy(struct warden *w, struct call *call)
{
	int slot = slots_find(w, call->req.id);

	if (slot < 0)
		return 0; /* gone already: that is what was asked for */
	w->rows[slot].state = SLOT_DYING;
	processors_free(w, (unsigned)slot);
	jobs_kill_slot(w, (unsigned)slot);
	sweep_hold_net(w, (unsigned)slot);
	return sweep_kill(w, (unsigned)slot);
}

static int resize_network(struct warden *w, struct call *call, unsigned slot)
{
	uint32_t network = call->req.limits.network;
	_cleanup_close_ int net_fd = -1;
	int r;

	if (!network && !w->rows[slot].link)
		return 0;
	net_fd = attach_open_net(w, slot);
	if (net_fd < 0 || !slots_alive(w, slot)) /* pinned first, checked after */
		return -ESRCH;
	r = links_set(w, slot, net_fd, network);
	call->reply.address = network ? links_address(w, slot) : 0;
	call_step(call, r < 0 ? "make network link" : "");
	return r;
}

static int do_resize(struct warden *w, struct call *call)
{
	int slot = slots_find_live(w, call->req.id);
	bool same, same_cpus;
	int r;

	if (slot < 0)
		return slot;
	if (call->req.flags & WARDEN_RELINK)
		return resize_network(w, call, (unsigned)slot);
	same_cpus = cover_cpus(&w->limits[slot]) == cover_cpus(&call->req.limits);
	same = w->limits[slot].memory_mb == call->req.limits.memory_mb;
	r = limits_set(w, (unsigned)slot, &call->req.limits);
	if (r >= 0 && !same_cpus)
		processors_change(w, (unsigned)slot, &call->req.limits);
	if (r < 0 || same)
		return r;
	r = shm_resize(w, (unsigned)slot, call->req.limits.memory_mb);
	if (r < 0)
		log_debug("%s: /dev/shm keeps its size: %s", call->req.id, strerror(-r));
	return 0; /* the memory limit bounds it anyway */
}

/*
 * The quota counts bytes when they are allocated on disk, up to half a minute after they were
 * written. The storage of a paused sandbox is billed: what is on its way counts at once. Pages that
 * replace allocated ones count twice until then.
 */
static uint64_t unwritten(const struct warden *w, unsigned slot)
{
	uint64_t bytes =
		w->rows[slot].frozen && w->pool_has_quota ? cgroup_unwritten(&w->cgroups, slot) : 0;

	return bytes == UINT64_MAX ? 0 : bytes; /* unknown */
}

static int do_stat(struct warden *w, struct call *call)
{
	int slot = slots_find(w, call->req.id);
	_cleanup_close_ int net_fd = -1;
	struct cgroup_stat stat;
	int r;

	if (slot < 0) /* what the host's restart left of it, which does not live */
		return salvage_usage(w, call->req.id, &call->reply.disk_bytes);
	net_fd = attach_open_net(w, (unsigned)slot);
	r = cgroup_stat(&w->cgroups, (unsigned)slot, &stat);
	if (r < 0)
		return r;
	call->reply.alive = net_fd >= 0 && slots_alive(w, (unsigned)slot);
	call->reply.oom_kills = stat.oom_kills - MIN(w->rows[slot].oom_base, stat.oom_kills);
	call->reply.memory_bytes = stat.memory_bytes;
	call->reply.memory_peak_bytes = stat.memory_peak_bytes;
	call->reply.cpu_us = stat.cpu_us;
	call->reply.has_stall = stat.has_stall;
	memcpy(call->reply.stall, stat.stall, sizeof(stat.stall));
	call->reply.pids = (uint32_t)stat.pids;
	call->reply.disk_bytes =
		limits_disk_usage(w, (unsigned)slot) + unwritten(w, (unsigned)slot);
	call->reply.paused = w->rows[slot].frozen;
	links_stat(w, (unsigned)slot, &call->reply.sent_bytes, &call->reply.received_bytes);
	return 0;
}

static int do_pause(struct warden *w, struct call *call)
{
	int slot = slots_find_live(w, call->req.id);
	bool freeze = call->req.flags & WARDEN_FREEZE;
	int r;

	if (slot < 0)
		return slot;
	if (!freeze)
		slots_note_frozen(w, (unsigned)slot);
	else if (!w->rows[slot].frozen)
		w->rows[slot].frozen_since_us = time_mono_us();
	if (!freeze && jobs_taking(w, (unsigned)slot)) {
		w->rows[slot].frozen = 0; /* the snapshot's end thaws it */
		return 0;
	}
	w->rows[slot].frozen = 1; /* first: a warden that kills it thaws it before */
	r = cgroup_freeze(&w->cgroups, (unsigned)slot, freeze);
	if (r >= 0)
		w->rows[slot].frozen = freeze;
	return r;
}

static _noreturn_ void build_child(struct warden *w, struct call *call)
{
	int report_fd = fcntl(call->in_fds[1], F_DUPFD, 4); /* also where it is 3 already */
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (setns(w->host_mnt_fd, CLONE_NEWNS) < 0 || setsid() < 0)
		_exit(126);
	if (dup2(call->in_fds[0], 1) < 0 || dup2(call->in_fds[0], 2) < 0 || dup2(report_fd, 3) < 0)
		_exit(126);
	(void)sys_close_range(4, ~0U);
	(void)execl(w->build_program, w->build_program, call->req.id, "--templates",
		    w->templates_path, "--report", "3",
		    call->req.flags & WARDEN_REMOVE ? "--remove" : NULL, (char *)NULL);
	_exit(127);
}

static int do_build(struct warden *w, struct call *call)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pid;

	if (call->in_fds[0] < 0 || call->in_fds[1] < 0 || !w->build_program)
		return -EINVAL;
	if (call->req.flags &
	    WARDEN_REMOVE) /* a template that is built again may have the same hash */
		stock_undress(w);
	pid = sys_clone3(&args);
	if (pid == 0)
		build_child(w, call);
	return pid < 0 ? pid : 0;
}

static int do_snapshot(struct warden *w, struct call *call)
{
	int slot = slots_find_live(w, call->req.id);
	int r;

	if (slot < 0)
		return slot;
	if (!(capability_bits(w) & WARDEN_CAN_SNAPSHOT))
		return -EOPNOTSUPP;
	if (!slots_alive(w, (unsigned)slot))
		return -ESRCH;
	r = jobs_add_snapshot(w, &call->req, (unsigned)slot);
	return r < 0 ? r : LATER;
}

static int do_snapshot_delete(struct warden *w, struct call *call)
{
	if (w->snapshots_fd < 0)
		return 0;
	if (jobs_call_off(w, call->req.snapshot_id, call->req.tag))
		return LATER;
	return snapshot_delete(w, call->req.snapshot_id);
}

int serve_reply(struct warden *w, const struct warden_reply *reply, const int fds[WARDEN_FDS_MAX])
{
	uint8_t bytes[WARDEN_REPLY_SIZE];
	size_t count = 0;

	while (fds && count < WARDEN_FDS_MAX && fds[count] >= 0)
		count++;
	warden_reply_encode(bytes, reply);
	if (w->client_fd >= 0 &&
	    rights_send(w->client_fd, bytes, sizeof(bytes), fds, count, 0) >= 0)
		return 0;
	serve_drop_client(w);
	return -EPIPE;
}

static int do_list(struct warden *w, struct call *call)
{
	call->reply.more = 1;
	for (unsigned i = 0; i < w->slot_top; i++) {
		int r;

		if (w->rows[i].state != SLOT_LIVE)
			continue;
		memcpy(call->reply.id, w->rows[i].id, WARDEN_ID_SIZE);
		r = serve_reply(w, &call->reply, NULL);
		if (r < 0)
			return r;
	}
	memset(call->reply.id, 0, WARDEN_ID_SIZE);
	call->reply.more = 0;
	return 0;
}

struct listing {
	struct warden *w;
	struct call *call;
};

static int list_name(void *arg, const char *name)
{
	struct listing *l = arg;
	struct warden_reply *reply = &l->call->reply;
	struct manifest manifest;
	size_t n = strlen(name);

	if (strchr(name, '.') || n >= WARDEN_ID_SIZE || jobs_has(l->w, name))
		return 0; /* not finished */
	memset(reply->id, 0, WARDEN_ID_SIZE);
	memcpy(reply->id, name, n);
	if (snapshot_read(l->w, reply->id, &manifest) < 0)
		manifest = (struct manifest){ .size_bytes = 0 }; /* it can still be deleted */
	reply->size_bytes = manifest.size_bytes;
	reply->memory = manifest.has_memory;
	memset(reply->step, 0, sizeof(reply->step));
	memcpy(reply->step, manifest.sandbox_id, sizeof(manifest.sandbox_id));
	memcpy(reply->template_hash, manifest.template_hash, sizeof(reply->template_hash));
	return serve_reply(l->w, reply, NULL);
}

static int do_snapshot_list(struct warden *w, struct call *call)
{
	struct listing l = { w, call };
	int r;

	call->reply.more = 1;
	r = snapshot_each(w, list_name, &l);
	memset(call->reply.id, 0, WARDEN_ID_SIZE);
	call->reply.more = 0;
	return r;
}

static int (*const operations[WARDEN_OP_END])(struct warden *w, struct call *call) = {
	[WARDEN_HELLO] = do_hello,
	[WARDEN_CREATE] = do_create,
	[WARDEN_ATTACH] = do_attach,
	[WARDEN_DESTROY] = do_destroy,
	[WARDEN_RESIZE] = do_resize,
	[WARDEN_STAT] = do_stat,
	[WARDEN_LIST] = do_list,
	[WARDEN_PAUSE] = do_pause,
	[WARDEN_BUILD] = do_build,
	[WARDEN_SNAPSHOT] = do_snapshot,
	[WARDEN_SNAPSHOT_DELETE] = do_snapshot_delete,
	[WARDEN_SNAPSHOT_LIST] = do_snapshot_list,
};

static void call_run(struct warden *w, struct call *call)
{
	call->reply.op = call->req.op;
	call->reply.tag = call->req.tag;
	fault_point(w, "call.asked");
	call->reply.error = operations[call->req.op](w, call);
	fault_point(w, "call.done");
	if (call->reply.error == LATER)
		return;
	/* The daemon did not receive its creation: undo, it will ask again. */
	if (serve_reply(w, &call->reply, call->fds) < 0 && call->req.op == WARDEN_CREATE &&
	    call->reply.error == 0)
		(void)!do_destroy(w, call);
	for (size_t i = 0; i < WARDEN_FDS_MAX; i++)
		if (call->fds[i] >= 0)
			(void)close(call->fds[i]);
	fault_point(w, "call.answered");
}

/* The frame is whole, its content is not acceptable: it is answered, and the connection continues.
 * One bad request must not cost every other user the engine. */
static void call_reject(struct warden *w, struct call *call)
{
	struct warden_reply reply = { .op = call->req.op, .tag = call->req.tag, .error = -EINVAL };

	(void)snprintf(reply.step, sizeof(reply.step), "the warden rejected the request");
	log_warn("operation %u: the request is malformed", (unsigned)call->req.op);
	(void)!serve_reply(w, &reply, NULL);
}

void serve_client(struct warden *w)
{
	uint8_t bytes[WARDEN_REQUEST_SIZE + 1];
	struct call call = { .in_fds = { -1, -1 }, .fds = { -1, -1 } };
	struct rights rights;
	ssize_t n = rights_receive(w->client_fd, bytes, sizeof(bytes), WARDEN_FDS_MAX, MSG_DONTWAIT,
				   &rights);
	int r;

	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n <= 0) {
		log_info("the daemon went away");
		serve_drop_client(w);
		return;
	}
	for (int i = 0; i < WARDEN_FDS_MAX; i++)
		call.in_fds[i] = rights.fds[i]; /* -1: none came */
	r = warden_request_decode(bytes, (size_t)n, &call.req);
	if (r == -EINVAL) {
		call_reject(w, &call);
	} else if (r < 0) {
		log_warn("%zd bytes that are no request: connection closed", n);
		serve_drop_client(w);
	} else {
		call_run(w, &call);
	}
	for (int i = 0; i < WARDEN_FDS_MAX; i++)
		if (call.in_fds[i] >= 0)
			(void)close(call.in_fds[i]);
}
