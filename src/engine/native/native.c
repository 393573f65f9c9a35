/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine's driver table: each call is one request to the warden. */
#include "engine/native/native.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/native/warden.h"

#define CALLS_MAX 8192 /* more are refused as capacity_exceeded */

static int request_for(struct warden_request *req, enum warden_op op, const char *id,
		       struct err *err)
{
	*req = (struct warden_request){ .op = (uint16_t)op };
	if (str_copy(req->id, sizeof(req->id), str_of(id)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the id is too long");
	return 0;
}

static int snapshot_named(struct warden_request *req, const char *snapshot_id, struct err *err)
{
	if (str_copy(req->snapshot_id, sizeof(req->snapshot_id), str_of(snapshot_id)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the snapshot's id is too long");
	return 0;
}

static void native_close(struct engine *engine)
{
	warden_disconnect(engine);
	warden_fail_all(engine);
	native_builds_done(engine);
	loop_timer_free(engine->retry);
	loop_timer_free(engine->ping);
	slot_done(&engine->calls);
	free(engine);
}

/* The warden may be started after us: what it can do arrives with its first answer. */
static int native_open(const struct engine_config *config, struct engine **ret, struct err *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int n;

	if (!engine)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	engine->config = *config;
	engine->fd = -1;
	slot_init(&engine->calls, CALLS_MAX);
	n = snprintf(engine->socket_path, sizeof(engine->socket_path), "%s/warden.sock",
		     config->state_dir);
	if (n >= (int)sizeof(engine->socket_path) ||
	    loop_timer_new(config->loop, warden_on_retry, engine, &engine->retry) < 0 ||
	    loop_timer_new(config->loop, hello_on_timer, engine, &engine->ping) < 0) {
		native_close(engine);
		return err_set(err, ERR_INVALID_REQUEST,
			       "the name of the state directory is too long for a socket: %s",
			       config->state_dir);
	}
	loop_timer_set(engine->ping, HELLO_PING_MS, HELLO_PING_MS);
	warden_begin(engine);
	*ret = engine;
	return 0;
}

static_assert((int)ENGINE_LINK_PROXY == (int)WARDEN_LINK_PROXY &&
		      (int)ENGINE_LINK_ROUTED == (int)WARDEN_LINK_ROUTED,
	      "the same numbers");

static struct warden_limits limits_of(const struct engine_limits *limits, enum engine_link link)
{
	return (struct warden_limits){ limits->cpu_milli, limits->memory_mb, limits->disk_size_mb,
				       limits->pids_max, (uint32_t)link };
}

static int native_create(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
			 void *arg, struct err *err)
{
	struct native_call call = { .then.made = done, .arg = arg };
	struct warden_limits limits = limits_of(&spec->limits, spec->link);
	struct warden_request req;

	if (request_for(&req, WARDEN_CREATE, spec->id, err) < 0)
		return -1;
	if (snapshot_named(&req, spec->snapshot_id, err) < 0)
		return -1;
	memcpy(req.template_hash, spec->image.hash, sizeof(req.template_hash));
	req.flags = (spec->last_use ? WARDEN_TEMPORARY : 0) | (spec->memory ? WARDEN_MEMORY : 0);
	req.limits = limits;
	return warden_start(engine, &call, &req, NULL, err);
}

static int native_attach(struct engine *engine, const char *id, engine_made_fn done, void *arg,
			 struct err *err)
{
	struct native_call call = { .then.made = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_ATTACH, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, NULL, err);
}

static int native_dial(struct engine *engine, const char *id, engine_dialed_fn done, void *arg,
		       struct err *err)
{
	struct native_call call = { .then.dialed = done, .arg = arg, .dials = true };
	struct warden_request req;

	return request_for(&req, WARDEN_ATTACH, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, NULL, err);
}

static int native_destroy(struct engine *engine, const char *id, engine_done_fn done, void *arg,
			  struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_DESTROY, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, NULL, err);
}

static int native_resize(struct engine *engine, const char *id, const struct engine_limits *limits,
			 engine_done_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_RESIZE, id, err) < 0)
		return -1;
	req.limits = limits_of(limits, ENGINE_LINK_NONE);
	return warden_start(engine, &call, &req, NULL, err);
}

static int native_relink(struct engine *engine, const char *id, enum engine_link link,
			 engine_linked_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.linked = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_RESIZE, id, err) < 0)
		return -1;
	req.flags = WARDEN_RELINK;
	req.limits.network = (uint32_t)link;
	return warden_start(engine, &call, &req, NULL, err);
}

static int native_stat(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		       struct err *err)
{
	struct native_call call = { .then.stat = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_STAT, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, NULL, err);
}

static int list(struct engine *engine, enum warden_op op, const struct native_call *call,
		struct err *err)
{
	struct warden_request req = { .op = (uint16_t)op };

	return warden_start(engine, call, &req, NULL, err);
}

static int native_list(struct engine *engine, engine_list_fn each, void *arg, struct err *err)
{
	struct native_call call = { .then.each = each, .arg = arg };

	return list(engine, WARDEN_LIST, &call, err);
}

static int native_snapshot_list(struct engine *engine, engine_entry_fn each, void *arg,
				struct err *err)
{
	struct native_call call = { .then.entry = each, .arg = arg };

	return list(engine, WARDEN_SNAPSHOT_LIST, &call, err);
}

/* A claim that is lost with the connection is made again: on_back() comes with the old owner. */
static void native_claim(struct engine *engine, const char *owner)
{
	if (engine->fd >= 0 && hello_ask(engine, owner) < 0)
		warden_lose(engine, "the warden could not be asked");
}

static int native_pause(struct engine *engine, const char *id, bool paused, engine_done_fn done,
			void *arg, struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_PAUSE, id, err) < 0)
		return -1;
	req.flags = paused ? WARDEN_FREEZE : 0;
	return warden_start(engine, &call, &req, NULL, err);
}

static int native_snapshot(struct engine *engine, const char *id, const char *snapshot_id,
			   unsigned flags, engine_snapshot_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.snapshot = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_SNAPSHOT, id, err) < 0 ||
	    snapshot_named(&req, snapshot_id, err) < 0)
		return -1;
	req.flags = (flags & ENGINE_SNAPSHOT_TEMPORARY ? WARDEN_TEMPORARY : 0) |
		    (flags & ENGINE_SNAPSHOT_MEMORY ? WARDEN_MEMORY : 0);
	return warden_start(engine, &call, &req, NULL, err);
}

static int native_snapshot_delete(struct engine *engine, const char *snapshot_id,
				  engine_done_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req = { .op = WARDEN_SNAPSHOT_DELETE };

	return snapshot_named(&req, snapshot_id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, NULL, err);
}

static const struct engine_freeze freeze = { .set = native_pause };
static const struct engine_resize resize = { .set = native_resize };
static const struct engine_net network = { .set = native_relink };
static const struct engine_snapshot snapshot = { .take = native_snapshot,
						 .remove = native_snapshot_delete,
						 .list = native_snapshot_list };

const struct engine_driver engine_native = {
	.name = "native",
	.label = "Linux namespaces, cgroups, seccomp and overlayfs on the host's kernel",
	.warning = "Shares the host's kernel: not for mutually hostile tenants.",
	.doc = "namespaces and cgroups of this host, through cay-warden",
	.enable = "engine_native = true",
	.open = native_open,
	.close = native_close,
	.create = native_create,
	.attach = native_attach,
	.dial = native_dial,
	.destroy = native_destroy,
	.stat = native_stat,
	.list = native_list,
	.claim = native_claim,
	.freeze = &freeze,
	.snapshot = &snapshot,
	.resize = &resize,
	.image = &native_image,
	.network = &network,
};
