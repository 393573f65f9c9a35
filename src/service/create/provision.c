/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates a sandbox. The intent is on disk before the engine is called. It is closed in the
 * transaction that makes the row running. If the daemon dies in between, the next start finds the
 * unfinished sandbox and removes it.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/account/idempotency_internal.h"
#include "service/copy/transition_internal.h"
#include "service/pool/pool_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/template/template_internal.h"
#include "service/copy/snapshot_internal.h"

static int save_begun(struct sandbox *sandbox, struct creation *creation)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = sandbox_save(sandbox);
	if (r == 0)
		r = store_intent_put(service->store, sandbox->row, STORE_INTENT_CREATE,
				     sandbox->created_ms);
	if (r == 0 && creation && creation->idem)
		r = idempotency_record(service, creation->idem, sandbox->id);
	return store_end(service->store, r);
}

static void forget_begun(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r == 0)
		r = store_sandbox_delete(service->store, sandbox->row);
	if (r == 0)
		r = store_intent_delete(service->store, sandbox->row);
	r = store_end(service->store, r);
	if (r < 0)
		log_warn("sandbox %s: the row could not be deleted and stays until the next start: "
			 "%s",
			 sandbox->id, strerror(-r));
}

/* Ends an engine call. Returns the sandbox, or NULL if the creation is over: the service was closed
 * (the next start sweeps it), or the sandbox was destroyed meanwhile (it is swept now). */
static struct sandbox *create_answered(struct op *op)
{
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox)
		return NULL;
	sandbox->engine_op = NULL;
	if (sandbox_state(sandbox) != SANDBOX_DESTROYED)
		return sandbox;
	destroy_sweep(sandbox);
	return NULL;
}

/* The engine has accepted a call and will complete it. */
static void create_asked(struct sandbox *sandbox, struct op *op, enum sandbox_phase phase)
{
	sandbox->engine_op = op;
	sandbox_set_phase(sandbox, phase, REASON_NONE);
}

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	struct sandbox *sandbox = create_answered(arg);
	struct err link_err;

	if (!sandbox) {
		if (!err)
			engine_made_close(made);
		return;
	}
	if (err) {
		if (err->code == ERR_TEMPLATE_NOT_FOUND)
			sandbox->template->image_of =
				NULL; /* the image was removed meanwhile: ask again */
		create_failed(sandbox, err);
		return;
	}
	sandbox_set_phase(sandbox, PHASE_CONNECTING, REASON_NONE);
	if (attach_link(sandbox, made, &link_err) < 0)
		create_failed(sandbox, &link_err);
}

void create_limits(const struct sandbox *sandbox, struct engine_limits *ret)
{
	*ret = (struct engine_limits){ .cpu_milli = sandbox->attrs.cpu_milli,
				       .memory_mb = sandbox->attrs.memory_mb,
				       .disk_size_mb = sandbox->attrs.disk_size_mb,
				       .pids_max = sandbox->service->config.pids_max };
}

void create_spec(const struct sandbox *sandbox, struct engine_spec *ret)
{
	*ret = (struct engine_spec){ .id = "" };
	create_limits(sandbox, &ret->limits);
	memcpy(ret->id, sandbox->id, sizeof(sandbox->id));
	template_image(sandbox->template, &ret->image);
	ret->link = sandbox->pooled ? sandbox->pool_network : egress_link(sandbox);
	if (sandbox->from)
		memcpy(ret->snapshot_id, sandbox->from->id, sizeof(sandbox->from->id));
	ret->last_use = sandbox->from && sandbox->from->last_use;
	ret->memory = sandbox_wakes_memory(sandbox);
}

static int ask_create(struct sandbox *sandbox, struct err *err)
{
	struct engine_spec spec;
	struct op *op = op_new(sandbox->service, sandbox->handle, err);

	create_spec(sandbox, &spec);
	if (op && instance_create(&sandbox->engine->instance, &spec, on_made, op, err) == 0) {
		create_asked(sandbox, op, PHASE_CREATING);
		return 0;
	}
	if (op)
		(void)op_end(op);
	return -1;
}

/* ---- the image ---- */

static void on_prepared(void *arg, const struct err *error)
{
	struct sandbox *sandbox = create_answered(arg);
	struct err err;

	if (!sandbox)
		return;
	if (error) {
		create_failed(sandbox, error);
		return;
	}
	sandbox->template->image_of = sandbox->engine;
	if (ask_create(sandbox, &err) < 0)
		create_failed(sandbox, &err);
}

static void on_image_step(void *arg, const struct engine_progress *progress)
{
	const struct sandbox *sandbox = op_sandbox(arg);

	if (sandbox)
		log_info("preparing image %s: %s", sandbox->template->name, progress->step);
}

static void prepare_image(struct sandbox *sandbox)
{
	struct engine_image_watch watch = { .log_fd = -1,
					    .on_progress = on_image_step,
					    .done = on_prepared };
	struct engine_image_ref image;
	struct err err;
	struct op *op = op_new(sandbox->service, sandbox->handle, &err);

	template_image(sandbox->template, &image);
	if (op) {
		watch.arg = op;
		if (instance_image_prepare(&sandbox->engine->instance, &image, &watch, &err) == 0) {
			create_asked(sandbox, op, PHASE_PREPARING);
			return;
		}
		(void)op_end(op);
	}
	create_failed(sandbox, &err);
}

static void on_have(void *arg, bool have, const struct err *err)
{
	struct op *op = arg;

	if (err || have) {
		on_prepared(op, err);
	} else {
		struct sandbox *sandbox = create_answered(op);

		if (sandbox)
			prepare_image(sandbox);
	}
}

/* The engine is asked once per version whether it has or can prepare the image. A snapshot has its
 * own files. */
static bool image_is_known(const struct sandbox *sandbox)
{
	return sandbox->from || sandbox->template->image_of == sandbox->engine ||
	       !instance_can(&sandbox->engine->instance, CAN_IMAGE);
}

static int ask_image(struct sandbox *sandbox, struct err *err)
{
	struct engine_image_ref image;
	struct op *op = op_new(sandbox->service, sandbox->handle, err);

	template_image(sandbox->template, &image);
	if (op && instance_image_have(&sandbox->engine->instance, &image, on_have, op, err) == 0) {
		create_asked(sandbox, op, PHASE_PREPARING);
		return 0;
	}
	if (op)
		(void)op_end(op);
	return -1;
}

int create_begin(struct sandbox *sandbox, struct creation *creation, struct err *err)
{
	int r = save_begun(sandbox, creation);

	service_wrote(sandbox->service);
	if (r < 0)
		return service_unrecorded(err, r, "the sandbox could not be recorded");
	r = image_is_known(sandbox) ? ask_create(sandbox, err) : ask_image(sandbox, err);
	if (r < 0)
		forget_begun(sandbox);
	return r;
}

static int save_running(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = sandbox_save(sandbox);
	/*
	 * A sandbox is unfinished until all sandboxes of its call exist. The batch closes their
	 * intents together.
	 */
	if (r == 0 && !(sandbox->creation && sandbox->creation->together))
		r = store_intent_delete(service->store, sandbox->row);
	return store_end(service->store, r);
}

void create_ready(struct sandbox *sandbox)
{
	const struct creation *creation = sandbox->creation;

	if (sandbox_wakes_memory(sandbox)) /* otherwise no process runs in it yet */
		sandbox->running = RUNNING_UNKNOWN;
	sandbox->without_memory = false;
	if (sandbox->pooled) {
		pool_made(sandbox);
		return;
	}
	sandbox->boot_us = creation ? time_mono_us() - creation->started_us : 0;
	if (initialize_due(sandbox))
		initialize_start(sandbox);
	else
		create_finish(sandbox);
}

void create_finish(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	struct creation *creation = sandbox->creation;
	struct err err;
	int r;

	sandbox_set_phase(sandbox, PHASE_RUNNING, REASON_NONE);
	clock_start(sandbox);
	snapshot_unuse(TAKE_PTR(sandbox->from));
	r = save_running(sandbox);
	service_wrote(service);
	if (r < 0) {
		(void)service_unrecorded(&err, r, "the sandbox could not be recorded");
		create_failed(sandbox, &err);
		return;
	}
	sandbox->creation = NULL;
	if (creation)
		creation_answer(creation, sandbox, NULL);
}

void create_failed(struct sandbox *sandbox, const struct err *err)
{
	create_failed_as(sandbox, err, err->message);
}

void create_failed_as(struct sandbox *sandbox, const struct err *err, const char *last_error)
{
	struct creation *creation = sandbox->creation;
	struct err copy = *err;

	log_warn("sandbox %s was not created: %s", sandbox->id, copy.message);
	sandbox->creation = NULL;
	if (sandbox->pooled)
		pool_fill_failed(sandbox, &copy);
	sandbox_set_error(sandbox, last_error);
	if (!sandbox->pooled && sandbox->attrs.retain_on_failure && destroy_retain(sandbox) == 0)
		(void)err_set(&copy, err->code, "%.270s (kept as sandbox %s)", err->message,
			      sandbox->id);
	else
		destroy_unborn(sandbox, REASON_BOOT_FAILED);
	if (creation)
		creation_answer(creation, NULL, &copy);
}
