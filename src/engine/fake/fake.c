/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: every function starts a call, which completes some iterations of the loop later. */
#include "engine/fake/fake.h"

#include <stdio.h>

#include "engine/fake/state.h"

struct engine *fake_opened_last;

static void complete_made(struct fake_call *call, struct err *err)
{
	struct engine_made made = { .channel = CHANNEL_NONE, .watch_fd = -1 };

	if (!err->code)
		(void)(call->op == FAKE_CREATE ? fake_sandbox_create(call, &made, err)
					       : fake_sandbox_attach(call, &made, err));
	call->fn.made(call->arg, &made, err->code ? err : NULL);
}

static void complete_dial(struct fake_call *call, struct err *err)
{
	struct engine_made made = { .channel = CHANNEL_NONE, .watch_fd = -1 };

	if (!err->code)
		(void)fake_sandbox_attach(call, &made, err);
	if (made.watch_fd >= 0)
		(void)close(made.watch_fd);
	call->fn.dialed(call->arg, &made.channel, err->code ? err : NULL);
}

static void complete_done(struct fake_call *call, struct err *err)
{
	struct fake_sandbox *s = fake_find(call->engine, call->id);

	if (!err->code && !s && call->op != FAKE_DESTROY)
		(void)err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", call->id);
	if (!err->code && s && call->op == FAKE_DESTROY)
		fake_sandbox_free(s);
	else if (!err->code && s && call->op == FAKE_RESIZE)
		s->limits = call->limits;
	else if (!err->code && s)
		s->paused = call->paused;
	call->fn.done(call->arg, err->code ? err : NULL);
}

static int do_snapshot(struct fake_call *call, struct engine_snapshot_info *ret, struct err *err)
{
	const struct fake_sandbox *s = fake_find(call->engine, call->id);

	if (!s)
		return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", call->id);
	if (!s->alive)
		return err_set(err, ERR_SANDBOX_GONE, "sandbox %s is dead", call->id);
	if (fake_snapshot_find(call->engine, call->snapshot_id))
		return err_set(err, ERR_CONFLICT, "snapshot %s exists", call->snapshot_id);
	ret->size_bytes = 1 << 20;
	ret->memory = call->memory && !call->engine->no_memory;
	ret->why = call->memory ? call->engine->no_memory : NULL;
	if (ret->memory)
		ret->size_bytes += 1 << 20;
	memcpy(ret->template_hash, s->template_hash, sizeof(ret->template_hash));
	if (fake_snapshot_add(call->engine, call->snapshot_id, call->temporary, ret) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	return 0;
}

static void complete_snapshot(struct fake_call *call, struct err *err)
{
	struct engine_snapshot_info snapshot = { 0 };

	if (!err->code)
		(void)do_snapshot(call, &snapshot, err);
	call->fn.snapshot(call->arg, &snapshot, err->code ? err : NULL);
}

static void complete_snapshot_delete(struct fake_call *call, struct err *err)
{
	if (!err->code)
		fake_snapshot_drop(call->engine, call->snapshot_id);
	call->fn.done(call->arg, err->code ? err : NULL);
}

static void complete_stat(struct fake_call *call, struct err *err)
{
	const struct fake_sandbox *s = fake_find(call->engine, call->id);
	struct engine_stat stat = { 0 };

	if (!err->code && !s)
		(void)err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", call->id);
	if (s)
		stat = (struct engine_stat){
			.alive = s->alive,
			.paused = s->paused,
			.oom_killed = s->by_oom,
			.oom_kills = s->by_oom,
			.memory_bytes = 1 << 20,
			.memory_peak_bytes = 2 << 20,
			.memory_limit_bytes = (uint64_t)s->limits.memory_mb << 20,
			.cpu_us = 1000,
			.pids = s->alive,
			.disk_limit_bytes = (uint64_t)s->limits.disk_size_mb << 20,
		};
	call->fn.stat(call->arg, &stat, err->code ? err : NULL);
}

static void complete_list(struct fake_call *call, struct err *err)
{
	for (struct fake_sandbox *s = call->engine->sandboxes, *next; s && !err->code; s = next) {
		next = s->next;
		call->fn.each(call->arg, s->id, NULL);
	}
	call->fn.each(call->arg, NULL, err->code ? err : NULL);
}

static void list_snapshot(struct fake_call *call, const struct fake_snapshot *s)
{
	struct engine_snapshot_entry entry = { .id = s->id,
					       .size_bytes = s->info.size_bytes,
					       .memory = s->info.memory };

	memcpy(entry.template_hash, s->info.template_hash, sizeof(entry.template_hash));
	call->fn.entry(call->arg, &entry, NULL);
}

static void complete_snapshot_list(struct fake_call *call, struct err *err)
{
	struct fake_snapshot *k = NULL;

	while (!err->code && (k = fake_snapshot_next(call->engine, k)))
		if (!k->temporary)
			list_snapshot(call, k);
	call->fn.entry(call->arg, NULL, err->code ? err : NULL);
}

static void engine_free(struct engine *engine)
{
	free(engine->state_dir);
	free(engine);
}

static void call_free(struct fake_call *call)
{
	struct engine *engine = call->engine;

	free(call);
	if (--engine->open_calls == 0 && engine->closed)
		engine_free(engine);
}

static void (*const completions[FAKE_OP_COUNT])(struct fake_call *call, struct err *err) = {
	[FAKE_CREATE] = complete_made,
	[FAKE_ATTACH] = complete_made,
	[FAKE_DIAL] = complete_dial,
	[FAKE_DESTROY] = complete_done,
	[FAKE_RESIZE] = complete_done,
	[FAKE_STAT] = complete_stat,
	[FAKE_LIST] = complete_list,
	[FAKE_PAUSE] = complete_done,
	[FAKE_SNAPSHOT] = complete_snapshot,
	[FAKE_SNAPSHOT_DELETE] = complete_snapshot_delete,
	[FAKE_SNAPSHOT_LIST] = complete_snapshot_list,
	[FAKE_IMAGE_HAVE] = fake_image_complete_have,
	[FAKE_IMAGE_PREPARE] = fake_image_complete,
	[FAKE_IMAGE_REMOVE] = fake_image_complete,
};

static void complete(struct fake_call *call)
{
	enum err_code *fail = &call->engine->fail_next[call->op];
	struct err err = { .code = ERR_OK };

	if (call->engine->closed)
		(void)err_set(&err, ERR_UNAVAILABLE, "the engine was closed");
	else if (*fail)
		(void)err_set(&err, *fail, "%s",
			      call->engine->fail_message ? call->engine->fail_message
							 : "failed on demand");
	*fail = ERR_OK;
	completions[call->op](call, &err);
	call_free(call);
}

void fake_step(void *arg)
{
	struct fake_call *call = arg, **at;

	if (call->steps > 1 && !call->engine->closed) {
		call->steps--;
		if (loop_defer(call->engine->loop, fake_step, call) == 0)
			return;
	}
	if (!call->engine->hold[call->op] || call->engine->closed) {
		complete(call);
		return;
	}
	at = &call->engine->held[call->op]; /* in order of arrival */
	while (*at)
		at = &(*at)->next;
	*at = call;
}

struct fake_call *fake_call_new(struct engine *engine, enum fake_op op, const char *id, void *arg,
				struct err *err)
{
	struct fake_call *call = calloc(1, sizeof(*call));

	if (!call) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	call->engine = engine;
	call->op = op;
	call->steps = engine->steps[op];
	call->arg = arg;
	if (snprintf(call->id, sizeof(call->id), "%s", id) > ENGINE_ID_MAX) {
		free(call);
		(void)err_set(err, ERR_INVALID_REQUEST, "the id is too long");
		return NULL;
	}
	return call;
}

static int name_snapshot(struct fake_call *call, const char *snapshot_id, struct err *err)
{
	if (str_copy(call->snapshot_id, sizeof(call->snapshot_id), str_of(snapshot_id)) == 0)
		return 0;
	free(call);
	return err_set(err, ERR_INVALID_REQUEST, "the snapshot's id is too long");
}

int fake_call_start(struct fake_call *call, struct err *err)
{
	struct engine *engine = call->engine;

	if (loop_defer(engine->loop, fake_step, call) < 0) {
		free(call);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	engine->open_calls++;
	engine->calls[call->op]++;
	return 0;
}

static struct engine_capabilities capabilities(const struct engine *engine)
{
	return (struct engine_capabilities){ .flags = ENGINE_ISOLATES | ENGINE_OWN_TREE |
						      ENGINE_LIMITS_MEMORY | ENGINE_LIMITS_CPU |
						      ENGINE_LIMITS_PIDS | ENGINE_LIMITS_DISK |
						      ENGINE_POOLS | engine->more_flags |
						      (engine->memory ? ENGINE_KEEPS_MEMORY : 0) };
}

void fake_announce(void *arg)
{
	struct engine *engine = arg;
	struct engine_capabilities can = capabilities(engine);

	if (engine->config.on_ready)
		engine->config.on_ready(engine->config.arg, &can);
}

void fake_reopen(struct engine *engine, const struct engine_config *config)
{
	if (!config) {
		engine->config = (struct engine_config){ .loop = engine->loop };
		loop_timer_clear(engine->ready_timer);
		return;
	}
	engine->config = *config;
	loop_timer_set(engine->ready_timer, 0, 0);
}

void fake_lose(struct engine *engine, bool lost)
{
	struct engine_capabilities can = capabilities(engine);
	struct err why;

	(void)err_set(&why, ERR_UNAVAILABLE, "its other end went away");
	if (lost)
		engine->config.on_lost(engine->config.arg, &why);
	else
		engine->config.on_back(engine->config.arg, &can);
}

static int fake_open(const struct engine_config *config, struct engine **ret, struct err *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	engine->state_dir = strdup(config->state_dir ? config->state_dir : "");
	engine->loop = config->loop;
	if (!engine->state_dir ||
	    loop_timer_new(engine->loop, fake_announce, engine, &engine->ready_timer) < 0) {
		engine_free(engine);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	engine->streams = config->streams;
	for (int op = 0; op < FAKE_OP_COUNT; op++)
		engine->steps[op] = 1;
	engine->images = true;
	fake_reopen(engine, config);
	*ret = fake_opened_last = engine;
	return 0;
}

static void fake_close(struct engine *engine)
{
	engine->closed = true;
	loop_timer_free(TAKE_PTR(engine->ready_timer));
	if (fake_opened_last == engine)
		fake_opened_last = NULL;
	engine->open_calls++; /* our own reference: the last one frees it */
	for (int op = 0; op < FAKE_OP_COUNT; op++)
		fake_release(engine, (enum fake_op)op);
	while (engine->sandboxes)
		fake_sandbox_free(engine->sandboxes);
	fake_forget_temporary(engine);
	if (--engine->open_calls == 0)
		engine_free(engine);
}

static int fake_create(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
		       void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_CREATE, spec->id, arg, err);

	if (!call)
		return -1;
	call->limits = spec->limits;
	call->image = spec->image;
	memcpy(call->snapshot_id, spec->snapshot_id, sizeof(call->snapshot_id));
	call->temporary = spec->last_use;
	call->memory = spec->memory;
	call->fn.made = done;
	return fake_call_start(call, err);
}

static int fake_attach(struct engine *engine, const char *id, engine_made_fn done, void *arg,
		       struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_ATTACH, id, arg, err);

	if (!call)
		return -1;
	call->fn.made = done;
	return fake_call_start(call, err);
}

static int fake_dial(struct engine *engine, const char *id, engine_dialed_fn done, void *arg,
		     struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_DIAL, id, arg, err);

	if (!call)
		return -1;
	call->fn.dialed = done;
	return fake_call_start(call, err);
}

static int fake_destroy(struct engine *engine, const char *id, engine_done_fn done, void *arg,
			struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_DESTROY, id, arg, err);

	if (!call)
		return -1;
	call->fn.done = done;
	return fake_call_start(call, err);
}

static int fake_resize(struct engine *engine, const char *id, const struct engine_limits *limits,
		       engine_done_fn done, void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_RESIZE, id, arg, err);

	if (!call)
		return -1;
	call->limits = *limits;
	call->fn.done = done;
	return fake_call_start(call, err);
}

static int fake_pause(struct engine *engine, const char *id, bool paused, engine_done_fn done,
		      void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_PAUSE, id, arg, err);

	if (!call)
		return -1;
	call->paused = paused;
	call->fn.done = done;
	return fake_call_start(call, err);
}

static int fake_stat(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		     struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_STAT, id, arg, err);

	if (!call)
		return -1;
	call->fn.stat = done;
	return fake_call_start(call, err);
}

static int fake_list(struct engine *engine, engine_list_fn each, void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_LIST, "", arg, err);

	if (!call)
		return -1;
	call->fn.each = each;
	return fake_call_start(call, err);
}

static int fake_snapshot_list(struct engine *engine, engine_entry_fn each, void *arg,
			      struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_SNAPSHOT_LIST, "", arg, err);

	if (!call)
		return -1;
	call->fn.entry = each;
	return fake_call_start(call, err);
}

static int fake_snapshot(struct engine *engine, const char *id, const char *snapshot_id,
			 unsigned flags, engine_snapshot_fn done, void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_SNAPSHOT, id, arg, err);

	if (!call)
		return -1;
	call->fn.snapshot = done;
	call->temporary = flags & ENGINE_SNAPSHOT_TEMPORARY;
	call->memory = flags & ENGINE_SNAPSHOT_MEMORY;
	return name_snapshot(call, snapshot_id, err) < 0 ? -1 : fake_call_start(call, err);
}

static int fake_snapshot_delete(struct engine *engine, const char *snapshot_id, engine_done_fn done,
				void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_SNAPSHOT_DELETE, "", arg, err);

	if (!call)
		return -1;
	call->fn.done = done;
	return name_snapshot(call, snapshot_id, err) < 0 ? -1 : fake_call_start(call, err);
}

static const struct engine_freeze freeze = { .set = fake_pause };
static const struct engine_resize resize = { .set = fake_resize };
static const struct engine_snapshot snapshot = { .take = fake_snapshot,
						 .remove = fake_snapshot_delete,
						 .list = fake_snapshot_list };

const struct engine_driver engine_fake = {
	.name = "fake",
	.label = "in-memory test double: runs nothing",
	.warning = "The fake engine runs nothing: it is for cay's own tests.",
	.open = fake_open,
	.close = fake_close,
	.create = fake_create,
	.attach = fake_attach,
	.dial = fake_dial,
	.destroy = fake_destroy,
	.stat = fake_stat,
	.list = fake_list,
	.freeze = &freeze,
	.resize = &resize,
	.snapshot = &snapshot,
	.image = &fake_image,
};
