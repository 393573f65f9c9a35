/* SPDX-License-Identifier: Apache-2.0 */
/* Changes to a living sandbox, and its metrics. */
#include <errno.h>

#include "base/time.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/create/limits_internal.h"
#include "service/pairs.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"
#include "service/account/usage_internal.h"

static int alive(const struct sandbox *sandbox, struct err *err)
{
	if (sandbox_lives(sandbox))
		return 0;
	return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s", sandbox->id,
		       sandbox_state_names[sandbox_state(sandbox)]);
}

/* A sandbox that is kept after a failed initializer can be inspected, too. */
static int up(const struct sandbox *sandbox, struct err *err)
{
	return sandbox->phase == PHASE_RETAINED ? 0 : alive(sandbox, err);
}

static int rename_to(struct sandbox *sandbox, struct str name, char **ret_old, struct err *err)
{
	struct sandbox_attrs *attrs = &sandbox->attrs;
	char *copy = NULL;

	if (name.n) {
		copy = strndup(name.p, name.n);
		if (!copy)
			return err_set(err, ERR_UNAVAILABLE, "out of memory");
		if (attrs->name && strcmp(attrs->name, copy) == 0) {
			free(copy);
			return 0;
		}
		if (sandbox_name_reserve(sandbox->service, attrs->owner, copy, sandbox, err) < 0) {
			free(copy);
			return -1;
		}
	}
	sandbox_name_release(sandbox->service, attrs->owner, attrs->name);
	*ret_old = attrs->name;
	attrs->name = copy;
	return 0;
}

static int save(struct sandbox *sandbox, struct err *err)
{
	int r = sandbox_save(sandbox);

	service_wrote(sandbox->service);
	expiry_arm(sandbox->service, clock_idle_due_ms(sandbox));
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the change could not be saved");
	return 0;
}

/* Applied last, so that no later step can fail and require it to be undone. */
static int patch_network(struct sandbox *sandbox, struct egress_policy *policy,
			 sandbox_changed_fn done, void *arg, struct err *err)
{
	struct egress_policy *old = sandbox->attrs.network;

	sandbox->attrs.network = policy;
	if (save(sandbox, err) < 0) {
		sandbox->attrs.network = old;
		egress_policy_free(policy);
		return -1;
	}
	return egress_apply(sandbox, old, done, arg, err);
}

static void set_times(struct sandbox *sandbox, const struct sandbox_patch *patch)
{
	struct sandbox_attrs *attrs = &sandbox->attrs;

	if (patch->has_always_on)
		attrs->always_on = patch->always_on;
	if (patch->has_timeout)
		attrs->timeout_sec = (uint32_t)patch->timeout_sec;
	if (patch->has_always_on || patch->has_timeout)
		clock_extend(sandbox);
	if (patch->has_on_timeout)
		attrs->on_timeout = (uint8_t)patch->on_timeout;
	if (patch->has_auto_resume)
		attrs->auto_resume = patch->auto_resume;
	if (patch->has_idle_timeout) {
		attrs->idle_timeout_sec = (uint32_t)patch->idle_timeout_sec;
		sandbox->active_ms = time_boot_ms();
		sandbox->idle_left_ms = 0;
	}
}

int sandbox_patch(struct sandbox *sandbox, const struct sandbox_patch *patch,
		  sandbox_changed_fn done, void *arg, struct err *err)
{
	struct egress_policy *network = NULL;
	struct sandbox_attrs *attrs = &sandbox->attrs;
	struct pairs metadata = { NULL, 0, 0 };
	struct grants_holder holder = { .owner = attrs->owner,
					.workspace = attrs->external_workspace_id,
					.sandbox_id = sandbox->id,
					.old = attrs->grants };
	struct grants *grants = NULL;
	char *old_name = NULL;

	if (alive(sandbox, err) < 0 ||
	    (patch->has_on_timeout &&
	     create_check_end(sandbox->engine, patch->on_timeout, err) < 0) ||
	    limits_check_name(patch->name, err) < 0 ||
	    limits_check_time(sandbox->service, "timeout_sec", patch->timeout_sec, err) < 0 ||
	    limits_check_time(sandbox->service, "idle_timeout_sec", patch->idle_timeout_sec, err) <
		    0)
		return -1;
	if (patch->has_secrets &&
	    grants_make(sandbox->service, &patch->secrets, &holder, &grants, err) < 0)
		return -1;
	if (egress_wanted(&patch->network) &&
	    (egress_policy_make(sandbox->attrs.network, &patch->network, &network, err) < 0 ||
	     egress_check_engine(sandbox->engine, network, err) < 0)) {
		egress_policy_free(network);
		grants_free(grants);
		return -1;
	}
	if ((patch->has_metadata &&
	     pairs_make(&metadata, &patch->metadata, &pairs_metadata, err) < 0) ||
	    (patch->has_name && rename_to(sandbox, patch->name, &old_name, err) < 0)) {
		pairs_done(&metadata);
		egress_policy_free(network);
		grants_free(grants);
		return -1;
	}
	free(old_name);
	if (patch->has_secrets) {
		grants_free(attrs->grants);
		attrs->grants = grants;
	}
	if (patch->has_metadata) {
		pairs_done(&attrs->metadata);
		attrs->metadata = metadata;
	}
	set_times(sandbox, patch);
	if (network)
		return patch_network(sandbox, network, done, arg, err);
	return save(sandbox, err) < 0 ? -1 : 1;
}

int sandbox_extend(struct sandbox *sandbox, int64_t timeout_sec, struct err *err)
{
	if (up(sandbox, err) < 0 ||
	    limits_check_time(sandbox->service, "timeout_sec", timeout_sec, err) < 0)
		return -1;
	if (timeout_sec > 0)
		sandbox->attrs.timeout_sec = (uint32_t)timeout_sec;
	if (sandbox->phase ==
	    PHASE_RETAINED) /* even an always-on sandbox expires if its creation failed */
		clock_set(sandbox, (int64_t)sandbox->attrs.timeout_sec * 1000);
	else
		clock_extend(sandbox);
	return save(sandbox, err);
}

struct measuring {
	struct op op;
	sandbox_metrics_fn done;
	void *arg;
};

static void on_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct measuring *measuring = arg;
	sandbox_metrics_fn done = measuring->done;
	void *done_arg = measuring->arg;
	struct sandbox_metrics metrics = { 0 };
	struct sandbox *sandbox = op_sandbox(&measuring->op);
	struct service *service = op_end(&measuring->op);

	if (!service)
		return;
	if (err) {
		done(done_arg, NULL, err);
		return;
	}
	metrics = (struct sandbox_metrics){ .memory_bytes = stat->memory_bytes,
					    .memory_peak_bytes = stat->memory_peak_bytes,
					    .memory_limit_bytes = stat->memory_limit_bytes,
					    .cpu_us = stat->cpu_us,
					    .pids = stat->pids,
					    .disk_bytes = stat->disk_bytes,
					    .disk_limit_bytes = stat->disk_limit_bytes,
					    .oom_kills = stat->oom_kills,
					    .sent_bytes = stat->sent_bytes,
					    .received_bytes = stat->received_bytes,
					    .has_stall = stat->has_stall };
	if (sandbox) {
		metrics.cpu_percent = history_cpu_percent(sandbox, stat);
		history_first(sandbox, stat);
	}
	memcpy(metrics.stall, stat->stall, sizeof(metrics.stall));
	/* If the engine does not report limits, the requested ones apply. */
	if (sandbox && !metrics.memory_limit_bytes)
		metrics.memory_limit_bytes = (uint64_t)sandbox->attrs.memory_mb << 20;
	if (sandbox && !metrics.disk_limit_bytes)
		metrics.disk_limit_bytes = (uint64_t)sandbox->attrs.disk_size_mb << 20;
	done(done_arg, &metrics, NULL);
}

int sandbox_metrics(struct sandbox *sandbox, sandbox_metrics_fn done, void *arg, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct measuring *measuring;

	if (up(sandbox, err) < 0)
		return -1;
	measuring = OP_NEW(struct measuring, sandbox->service, sandbox->handle, err);
	if (!measuring)
		return -1;
	measuring->done = done;
	measuring->arg = arg;
	history_asked(sandbox);
	if (instance_stat(&engine->instance, sandbox->id, on_stat, measuring, err) < 0) {
		(void)op_end(&measuring->op);
		return -1;
	}
	return 0;
}
