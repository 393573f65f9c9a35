/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine's driver table: each call is one request to the warden. */
#include "engine/native/native.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/native/warden.h"

#define CALLS_MAX 8192 /* more are refused as capacity_exceeded */
#define CONNECT_TRIES_AT_OPEN 100

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

/* The capabilities must be known when open returns: waits for the first answer here. */
static int wait_hello(struct engine *engine)
{
	for (int i = 0; i < CONNECT_TRIES_AT_OPEN && engine->fd >= 0 && !engine->capabilities; i++)
		loop_turn(engine->config.loop, 50);
	return engine->capabilities ? 0 : -ETIMEDOUT;
}

static int native_open(const struct engine_config *config, struct engine **ret, struct err *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int n, r;

	if (!engine)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	engine->config = *config;
	engine->fd = -1;
	slot_init(&engine->calls, CALLS_MAX);
	n = snprintf(engine->socket_path, sizeof(engine->socket_path), "%s/warden.sock",
		     config->state_dir);
	r = n >= (int)sizeof(engine->socket_path) ? -ENAMETOOLONG : 0;
	if (r >= 0)
		r = loop_timer_new(config->loop, warden_on_retry, engine, &engine->retry);
	for (int i = 0; r >= 0 && i < CONNECT_TRIES_AT_OPEN; i++) {
		r = warden_connect(engine);
		if (r != -ENOENT && r != -ECONNREFUSED)
			break;
		(void)usleep(50000);
		r = i + 1 < CONNECT_TRIES_AT_OPEN ? 0 : r;
	}
	if (r >= 0)
		r = wait_hello(engine);
	if (r < 0) {
		err_set_errno(err, ERR_UNAVAILABLE, r, "no cay-warden at %s", engine->socket_path);
		engine_native.close(engine);
		return -1;
	}
	*ret = engine;
	return 0;
}

static void native_close(struct engine *engine)
{
	warden_disconnect(engine);
	warden_fail_all(engine);
	loop_timer_free(engine->retry);
	slot_done(&engine->calls);
	free(engine);
}

static uint32_t native_capabilities(const struct engine *engine)
{
	static const struct {
		uint32_t warden, engine;
	} table[] = {
		{ WARDEN_CAN_ISOLATE, ENGINE_CAN_ISOLATE },
		{ WARDEN_CAN_LIMIT_MEMORY, ENGINE_CAN_LIMIT_MEMORY },
		{ WARDEN_CAN_LIMIT_CPU, ENGINE_CAN_LIMIT_CPU },
		{ WARDEN_CAN_LIMIT_PIDS, ENGINE_CAN_LIMIT_PIDS },
		{ WARDEN_CAN_LIMIT_DISK, ENGINE_CAN_LIMIT_DISK },
		{ WARDEN_CAN_SURVIVE, ENGINE_CAN_SURVIVE },
		{ WARDEN_CAN_POOL, ENGINE_CAN_POOL },
		{ WARDEN_CAN_PAUSE, ENGINE_CAN_PAUSE },
		{ WARDEN_CAN_SNAPSHOT, ENGINE_CAN_SNAPSHOT },
		{ WARDEN_CAN_NETWORK, ENGINE_CAN_NETWORK },
		{ WARDEN_CAN_SNAPSHOT_MEMORY, ENGINE_CAN_SNAPSHOT_MEMORY },
	};
	uint32_t bits = 0;

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (engine->capabilities & table[i].warden)
			bits |= table[i].engine;
	return bits;
}

static_assert((int)ENGINE_LINK_PROXY == (int)WARDEN_LINK_PROXY &&
		      (int)ENGINE_LINK_ROUTED == (int)WARDEN_LINK_ROUTED,
	      "the same numbers");

static struct warden_limits limits_of(const struct engine_limits *limits)
{
	return (struct warden_limits){ limits->cpu_milli, limits->memory_mb, limits->disk_size_mb,
				       limits->pids_max, (uint32_t)limits->network };
}

static int native_create(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
			 void *arg, struct err *err)
{
	struct native_call call = { .then.made = done, .arg = arg };
	struct warden_limits limits = limits_of(&spec->limits);
	struct warden_request req;

	if (request_for(&req, WARDEN_CREATE, spec->id, err) < 0)
		return -1;
	if (snapshot_named(&req, spec->snapshot_id, err) < 0)
		return -1;
	memcpy(req.template_hash, spec->template_hash, sizeof(req.template_hash));
	req.flags = (spec->last_use ? WARDEN_TEMPORARY : 0) | (spec->memory ? WARDEN_MEMORY : 0);
	req.limits = limits;
	return warden_start(engine, &call, &req, -1, err);
}

static int native_attach(struct engine *engine, const char *id, engine_made_fn done, void *arg,
			 struct err *err)
{
	struct native_call call = { .then.made = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_ATTACH, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, -1, err);
}

static int native_destroy(struct engine *engine, const char *id, engine_done_fn done, void *arg,
			  struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_DESTROY, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, -1, err);
}

static int native_resize(struct engine *engine, const char *id, const struct engine_limits *limits,
			 engine_resized_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.resized = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_RESIZE, id, err) < 0)
		return -1;
	req.limits = limits_of(limits);
	return warden_start(engine, &call, &req, -1, err);
}

static int native_stat(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		       struct err *err)
{
	struct native_call call = { .then.stat = done, .arg = arg };
	struct warden_request req;

	return request_for(&req, WARDEN_STAT, id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, -1, err);
}

static int native_list(struct engine *engine, enum engine_kind kind, engine_list_fn each, void *arg,
		       struct err *err)
{
	struct native_call call = { .then.each = each, .arg = arg };
	struct warden_request req = {
		.op = kind == ENGINE_SNAPSHOTS ? WARDEN_SNAPSHOT_LIST : WARDEN_LIST,
	};

	return warden_start(engine, &call, &req, -1, err);
}

static int native_pause(struct engine *engine, const char *id, bool paused, engine_done_fn done,
			void *arg, struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_PAUSE, id, err) < 0)
		return -1;
	req.flags = paused ? WARDEN_FREEZE : 0;
	return warden_start(engine, &call, &req, -1, err);
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
	return warden_start(engine, &call, &req, -1, err);
}

static int native_snapshot_delete(struct engine *engine, const char *snapshot_id,
				  engine_done_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.done = done, .arg = arg };
	struct warden_request req = { .op = WARDEN_SNAPSHOT_DELETE };

	return snapshot_named(&req, snapshot_id, err) < 0
		       ? -1
		       : warden_start(engine, &call, &req, -1, err);
}

int native_build(struct engine *engine, const char *name, bool remove, int log_fd,
		 engine_made_fn done, void *arg, struct err *err)
{
	struct native_call call = { .then.made = done, .arg = arg };
	struct warden_request req;

	if (request_for(&req, WARDEN_BUILD, name, err) < 0)
		return -1;
	req.flags = remove ? WARDEN_REMOVE : 0;
	return warden_start(engine, &call, &req, log_fd, err);
}

const struct engine_driver engine_native = {
	.name = "native",
	.label = "Linux namespaces, cgroups, seccomp and overlayfs on the host's kernel",
	.warning = "Shares the host's kernel: not for mutually hostile tenants.",
	.open = native_open,
	.close = native_close,
	.capabilities = native_capabilities,
	.create = native_create,
	.attach = native_attach,
	.destroy = native_destroy,
	.resize = native_resize,
	.stat = native_stat,
	.list = native_list,
	.pause = native_pause,
	.snapshot = native_snapshot,
	.snapshot_delete = native_snapshot_delete,
};
