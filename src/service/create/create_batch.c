/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates several sandboxes in one call. Quota is reserved for all of them first, in order; then
 * they are created a few at a time. Creation is atomic: if the daemon dies before the last sandbox
 * is ready, all of them are removed, because the client has received no reply.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "service/range_internal.h"
#include "service/create/create_internal.h"
#include "service/account/idempotency_internal.h"
#include "service/sandbox/initializer.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/copy/snapshot_internal.h"

#define BATCH_PARALLEL 8 /* sandboxes of one call that are created concurrently */

/* Owner: its batch. */
struct item {
	struct batch *batch;
	struct creation *creation; /* not yet started */
	struct err err;
};

/* Owner: the list of batches (sandbox_batches()) until the last sandbox is ready or has failed. */
struct batch {
	struct op op;
	struct snapshot *from; /* counted as a user of it; NULL: none */
	struct idempotency *idem;
	const struct batch_hooks *hooks;
	void *arg;
	uint32_t count, begun, ended;
	bool starting;	      /* inside start_some() */
	slot_handle *members; /* 0: not created */
	struct item items[];
};

static void batch_free(struct batch *b)
{
	(void)op_unlink(&b->op);
	for (uint32_t i = 0; i < b->count; i++)
		creation_free(b->items[i].creation);
	snapshot_unuse(b->from);
	free(b->members);
	free(b);
}

/* ---- completion, also of forks ---- */

static int keep(struct service *service, const slot_handle *members, uint32_t count,
		struct idempotency *idem, struct str answer)
{
	int r = store_begin(service->store);

	for (uint32_t i = 0; r == 0 && i < count; i++) {
		const struct sandbox *sandbox =
			members[i] ? sandbox_get(service, members[i]) : NULL;

		/* A sandbox that is already in a transition, or ending, has another intent. */
		if (sandbox && sandbox->phase == PHASE_RUNNING)
			r = store_intent_delete(service->store, sandbox->row);
	}
	if (r == 0 && idem)
		r = idempotency_settle(service, idem, 201, answer);
	r = store_end(service->store, r);
	if (r < 0 && idem)
		idempotency_unsettle(idem);
	service_wrote(service);
	return r;
}

static void undo(struct service *service, const slot_handle *members, uint32_t count)
{
	struct err err;

	for (uint32_t i = 0; i < count; i++) {
		struct sandbox *sandbox = members[i] ? sandbox_get(service, members[i]) : NULL;

		if (sandbox && sandbox_destroy(sandbox, REASON_BOOT_FAILED, &err) < 0)
			log_error("sandbox %s: %s", sandbox->id, err.message);
	}
}

int batch_keep(struct service *service, const slot_handle *members, uint32_t count,
	       struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
	       struct err *err)
{
	struct str answer = { "", 0 };
	int r = idem ? hooks->seal(arg, &answer) : 0;

	if (r == 0)
		r = keep(service, members, count, idem, answer);
	if (r == 0)
		return 0;
	undo(service, members, count);
	return service_unrecorded(err, r, "the sandboxes could not be recorded");
}

/* ---- creating the sandboxes ---- */

static struct sandbox *member(struct batch *b, uint32_t index)
{
	struct sandbox *sandbox =
		b->members[index] ? sandbox_get(b->op.service, b->members[index]) : NULL;

	if (sandbox && sandbox_state(sandbox) != SANDBOX_DESTROYED)
		return sandbox;
	if (b->members[index])
		(void)err_set(&b->items[index].err, ERR_SANDBOX_GONE,
			      "the sandbox has already ended");
	return NULL;
}

static void finish(struct batch *b)
{
	uint32_t made = 0;
	struct err err;
	int r = -1;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct sandbox *sandbox = member(b, i);

		made += sandbox != NULL;
		b->hooks->item(b->arg, i, sandbox, sandbox ? NULL : &b->items[i].err);
	}
	if (made)
		r = batch_keep(b->op.service, b->members, b->count, b->idem, b->hooks, b->arg,
			       &err);
	else
		err = b->items[0].err;
	b->hooks->done(b->arg, r < 0 ? &err : NULL);
	batch_free(b);
}

static void note(struct item *item, const struct sandbox *sandbox, const struct err *err)
{
	struct batch *b = item->batch;

	if (sandbox)
		b->members[item - b->items] = sandbox->handle;
	else
		item->err = *err;
	b->ended++;
}

static void start_some(struct batch *b)
{
	const struct sandbox *now;
	struct err err;

	if (b->starting)
		return;
	b->starting = true;
	while (b->begun < b->count && b->begun - b->ended < BATCH_PARALLEL) {
		struct item *item = &b->items[b->begun++];
		int r;

		if (!item->creation) { /* its quota could not be reserved */
			b->ended++;
			continue;
		}
		r = creation_start(TAKE_PTR(item->creation), &now, &err);
		if (r)
			note(item, r > 0 ? now : NULL, &err);
	}
	b->starting = false;
	if (b->ended == b->count)
		finish(b);
}

static void on_made(void *arg, const struct sandbox *sandbox, const struct err *err)
{
	struct item *item = arg;

	note(item, sandbox, err);
	start_some(item->batch);
}

/* The batch starts on the next iteration of the loop, because the caller's callback must not run
 * inside the call. */
struct turn {
	struct op op;
	struct batch *batch;
};

static void on_turn(void *arg)
{
	struct turn *turn = arg;
	struct batch *b = turn->batch;

	if (op_end(&turn->op))
		start_some(b);
}

/* ---- request ---- */

int batch_name(char **ret, const char *name, uint32_t index, uint32_t count)
{
	int r;

	if (!name)
		return 0;
	r = count == 1 ? asprintf(ret, "%s", name) : asprintf(ret, "%s-%u", name, index + 1);
	if (r >= 0)
		return 0;
	*ret = NULL;
	return -ENOMEM;
}

static struct creation *copy(const struct creation *from, uint32_t index, uint32_t count,
			     struct err *err)
{
	struct creation *to = calloc(1, sizeof(*to));

	if (to) {
		*to = *from;
		if (sandbox_attrs_copy(&to->attrs, &from->attrs) == 0 &&
		    initializers_copy(from->attrs.initializers, &to->attrs.initializers) == 0 &&
		    batch_name(&to->attrs.name, from->attrs.name, index, count) == 0)
			return to;
		sandbox_attrs_done(&to->attrs);
	}
	free(to);
	(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
	return NULL;
}

static void ask_for_room(struct batch *b, const struct creation *like)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct item *item = &b->items[i];

		item->batch = b;
		item->creation = copy(like, i, b->count, &item->err);
		if (!item->creation)
			continue;
		item->creation->done = on_made;
		item->creation->arg = item;
		item->creation->together = true;
		if (creation_take_room(item->creation, &item->err) < 0)
			creation_free(TAKE_PTR(item->creation));
	}
}

static struct batch *batch_new(struct service *service, uint32_t count)
{
	struct batch *b = calloc(1, sizeof(*b) + count * sizeof(b->items[0]));

	if (!b)
		return NULL;
	b->count = count;
	b->members = calloc(count, sizeof(*b->members));
	op_begin(&b->op, sandbox_batches(service), service, 0);
	return b;
}

int sandbox_create_many(struct service *service, struct key *owner, const struct sandbox_spec *spec,
			struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
			struct err *err)
{
	struct creation *like = range_check("count", spec->count, 1, BATCH_MAX, err) == 0
					? creation_new(service, owner, spec, err)
					: NULL;
	struct batch *b = like ? batch_new(service, (uint32_t)spec->count) : NULL;
	struct turn *turn = b && b->members ? OP_NEW(struct turn, service, 0, err) : NULL;

	if (turn && loop_defer(service->config.loop, on_turn, turn) == 0) {
		turn->batch = b;
		b->idem = idem;
		b->hooks = hooks;
		b->arg = arg;
		if (like->from)
			b->from = snapshot_use(like->from);
		ask_for_room(b, like);
		creation_free(like);
		return 0;
	}
	if (turn)
		(void)op_end(&turn->op);
	if (b)
		batch_free(b);
	if (like)
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
	creation_free(like);
	return -1;
}

/* The service closes. The faces have already dropped the waiting requests. */
void batch_stop_all(struct service *service)
{
	struct op *op;

	while ((op = sandbox_batches(service)->first))
		batch_free(CONTAINER_OF(op, struct batch, op));
}
