/* SPDX-License-Identifier: Apache-2.0 */
/* Creation from a pool: a ready member gets an owner, the requested size and the requested network.
 */
#include "base/time.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/event/event_internal.h"
#include "service/account/idempotency_internal.h"
#include "service/pool/pool_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"
#include "service/account/usage_internal.h"

static void finish_hand_out(struct creation *creation, struct sandbox *member)
{
	struct service *service = creation->service;
	struct idempotency *idem = creation->idem;
	bool due = member->phase == PHASE_HANDOUT_SETUP; /* its initializers still have to run */
	bool open = due || creation->together;
	struct err err;
	int r;

	member->boot_us = time_mono_us() - creation->started_us;
	if (!due)
		clock_start(member);
	event_state(member, NULL); /* before the commit, to be in the same transaction */
	r = store_begin(service->store);
	if (r == 0)
		r = sandbox_save(member);
	if (r == 0 && idem)
		r = idempotency_record(service, idem, member->id);
	if (r == 0 && open)
		r = store_intent_put(service->store, member->row, STORE_INTENT_CREATE,
				     member->created_ms);
	r = store_end(service->store, r);
	service_wrote(service);
	if (r < 0) {
		(void)service_unrecorded(&err, r, "the sandbox could not be recorded");
		member->creation = creation;
		create_failed(member, &err);
		return;
	}
	if (!due)
		sandbox_set_phase(member, PHASE_RUNNING, REASON_NONE);
	if (due) {
		member->creation = creation;
		initialize_start(member);
		return;
	}
	member->creation = NULL;
	usage_changed(member);
	creation_answer(creation, member, NULL);
}

static void on_linked(void *arg, const struct engine_network *network, const struct err *err)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox || !sandbox->creation)
		return; /* it died or was destroyed meanwhile, and the caller got the error */
	if (err) {
		create_failed(sandbox, err);
		return;
	}
	egress_linked(sandbox, network);
	finish_hand_out(sandbox->creation, sandbox);
}

static void start_relink(struct sandbox *sandbox)
{
	struct err err;
	struct op *op = op_new(sandbox->service, sandbox->handle, &err);

	if (op && instance_relink(&sandbox->engine->instance, sandbox->id, egress_link(sandbox),
				  on_linked, op, &err) == 0)
		return;
	if (op)
		(void)op_end(op);
	create_failed(sandbox, &err);
}

static void on_resized(void *arg, const struct err *err)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox || !sandbox->creation)
		return; /* as above */
	if (err)
		create_failed(sandbox, err);
	else if (egress_link(sandbox) != sandbox->pool_network)
		start_relink(sandbox);
	else
		finish_hand_out(sandbox->creation, sandbox);
}

static int start_resize(struct sandbox *sandbox, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct engine_limits limits;
	struct op *op = op_new(sandbox->service, sandbox->handle, err);

	if (!op)
		return -1;
	create_limits(sandbox, &limits);
	if (instance_resize(&engine->instance, sandbox->id, &limits, on_resized, op, err) < 0) {
		(void)op_end(op);
		return -1;
	}
	return 0;
}

void creation_hand_out(struct creation *creation, struct sandbox *member)
{
	struct engine_limits fixed;
	struct err err;

	pool_limits(member->service, &fixed);
	creation_take_attrs(creation, member);
	member->boot = BOOT_POOL;
	member->created_ms = time_real_ms();
	member->creation = creation;
	/* No client sees the sandbox before it leaves the pool. */
	sandbox_set_phase(member, initialize_due(member) ? PHASE_HANDOUT_SETUP : PHASE_HANDOUT,
			  REASON_NONE);
	member->pooled = false;
	member->pool = NULL;
	sandbox_show(member);
	if (member->attrs.cpu_milli != fixed.cpu_milli ||
	    member->attrs.memory_mb != fixed.memory_mb ||
	    member->attrs.disk_size_mb != fixed.disk_size_mb) {
		if (start_resize(member, &err) < 0)
			create_failed(member, &err);
	} else if (egress_link(member) != member->pool_network) {
		start_relink(member);
	} else {
		finish_hand_out(creation, member);
	}
}
