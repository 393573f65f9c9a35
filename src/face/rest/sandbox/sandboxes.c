/* SPDX-License-Identifier: Apache-2.0 */
#include "service/copy/snapshot.h"
#include "service/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>

#include "base/value/bounds.h"
#include "face/rest/call.h"
#include "service/sandbox/initializer.h"
#include "service/run/process.h"
#include "service/secret/secret.h"
#include "service/template/template.h"

#define AT(member) offsetof(struct sandbox_spec, member)

/* Two bodies have these four fields; base is the offset of the struct egress_want. */
#define NETWORK_FIELDS                                                                             \
	{ .name = "mode",                                                                          \
	  .type = FIELD_ENUM,                                                                      \
	  .names = network_mode_names,                                                             \
	  .offset = AT(network.mode),                                                              \
	  .sent = FIELD_SENT(AT(network.has_mode)),                                                \
	  .doc = "none: loopback only; restricted: the entries of allow; full: all public "        \
		 "hosts" },                                                                        \
		{ .name = "allow",                                                                 \
		  .type = FIELD_STRINGS,                                                           \
		  .max = EGRESS_RULES_MAX,                                                         \
		  .offset = AT(network.allow),                                                     \
		  .sent = FIELD_SENT(AT(network.has_allow)),                                       \
		  .doc = "domain, *.domain, address or CIDR, each with :port or without" },        \
		{ .name = "deny",                                                                  \
		  .type = FIELD_STRINGS,                                                           \
		  .max = EGRESS_RULES_MAX,                                                         \
		  .offset = AT(network.deny),                                                      \
		  .sent = FIELD_SENT(AT(network.has_deny)),                                        \
		  .doc = "the same; takes precedence over allow" },                                \
		{ .name = "learn",                                                                 \
		  .type = FIELD_BOOL,                                                              \
		  .offset = AT(network.learn),                                                     \
		  .sent = FIELD_SENT(AT(network.has_learn)),                                       \
		  .doc = "connections that are refused only because allow does not list them are " \
			 "permitted, and listed in denials" },                                     \
	{                                                                                          \
		.type = FIELD_END                                                                  \
	}

static const struct field network_fields[] = { NETWORK_FIELDS };
static const struct field pool_fields[] = {
	{ .name = "name", .type = FIELD_LATER },
	{ .name = "mode",
	  .type = FIELD_ENUM,
	  .names = pool_mode_names,
	  .offset = AT(pool_mode),
	  .doc = "prefer: a ready sandbox or a new one; require: only a ready one; bypass: a new "
		 "one" },
	{ .name = "wait_ms",
	  .type = FIELD_INT,
	  .offset = AT(pool_wait_ms),
	  .max = SANDBOX_POOL_WAIT_MAX_MS,
	  .doc = "how long to wait for a ready one" },
	{ .type = FIELD_END }
};
const struct field sandbox_create_fields[] = {
	{ .name = "template",
	  .type = FIELD_NAME,
	  .offset = AT(template),
	  .max = TEMPLATE_NAME_MAX,
	  .sent = FIELD_SENT(AT(has_template)),
	  .fallback_text = "base" },
	{ .name = "name",
	  .type = FIELD_NAME,
	  .offset = AT(name),
	  .max = SANDBOX_NAME_MAX,
	  .doc = "unique among this key's sandboxes" },
	{ .name = "cpu_count",
	  .type = FIELD_MILLI,
	  .offset = AT(cpu_milli),
	  .min = BOUNDS_CPU_MILLI_MIN,
	  .limit = FIELD_LIMIT_CPU,
	  .sent = FIELD_SENT(AT(has_cpu)),
	  .fallback = SANDBOX_CPU_MILLI,
	  .doc = "how many CPUs, in steps of 0.001" },
	{ .name = "memory_mb",
	  .type = FIELD_INT,
	  .offset = AT(memory_mb),
	  .min = BOUNDS_MEMORY_MB_MIN,
	  .limit = FIELD_LIMIT_MEMORY,
	  .sent = FIELD_SENT(AT(has_memory)),
	  .fallback = SANDBOX_MEMORY_MB },
	{ .name = "disk_size_mb",
	  .type = FIELD_INT,
	  .offset = AT(disk_size_mb),
	  .min = BOUNDS_DISK_MB_MIN,
	  .limit = FIELD_LIMIT_DISK,
	  .sent = FIELD_SENT(AT(has_disk)),
	  .fallback = SANDBOX_DISK_MB },
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .min = 1,
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .fallback = SANDBOX_TIMEOUT_SEC,
	  .doc = "wall-clock time since the start or the last extend" },
	{ .name = "idle_timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(idle_timeout_sec),
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .doc = "0: none; reset by commands" },
	{ .name = "always_on",
	  .type = FIELD_BOOL,
	  .offset = AT(always_on),
	  .doc = "timeout_sec does not apply; idle_timeout_sec does" },
	{ .name = "on_timeout",
	  .type = FIELD_ENUM,
	  .names = on_timeout_names,
	  .offset = AT(on_timeout),
	  .doc = "what happens when a timeout is reached" },
	{ .name = "auto_resume",
	  .type = FIELD_BOOL,
	  .offset = AT(auto_resume),
	  .doc = "a call that needs the inside resumes a paused sandbox" },
	{ .name = "env", .type = FIELD_MAP, .offset = AT(env) },
	{ .name = "metadata", .type = FIELD_MAP, .offset = AT(metadata) },
	{ .name = "external_workspace_id",
	  .type = FIELD_STR,
	  .offset = AT(external_workspace_id),
	  .min = 1,
	  .max = SANDBOX_WORKSPACE_MAX },
	{ .name = "network", .type = FIELD_OBJECT, .fields = network_fields },
	{ .name = "volumes", .type = FIELD_LATER },
	{ .name = "secrets",
	  .type = FIELD_MIXED,
	  .fields = sandbox_secret_fields,
	  .offset = AT(secrets),
	  .read = grants_decode,
	  .max = SECRETS_PER_SANDBOX,
	  .doc = "names, or objects; a name alone becomes a variable of new processes" },
	{ .name = "engine", .type = FIELD_NAME, .offset = AT(engine), .max = SANDBOX_ENGINE_MAX },
	{ .name = "provider",
	  .type = FIELD_NAME,
	  .offset = AT(engine),
	  .max = SANDBOX_ENGINE_MAX,
	  .doc = "another name for engine" },
	{ .name = "pool", .type = FIELD_OBJECT, .fields = pool_fields },
	{ .name = "snapshot_id",
	  .type = FIELD_STR,
	  .offset = AT(snapshot_id),
	  .min = 1,
	  .max = SNAPSHOT_REF_MAX,
	  .doc = "start with the files of this snapshot, and with its processes if it has them; "
		 "sizes and env are by default those of its sandbox" },
	{ .name = "memory",
	  .type = FIELD_BOOL,
	  .offset = AT(memory),
	  .fallback = true,
	  .doc = "false: start with the files of the snapshot only" },
	{ .name = "count",
	  .type = FIELD_INT,
	  .offset = AT(count),
	  .min = 1,
	  .max = BATCH_MAX,
	  .sent = FIELD_SENT(AT(has_count)),
	  .fallback = 1,
	  .doc = "how many to create; the reply is then a list in which each entry is a sandbox or "
		 "an object with error. With a name, several are called NAME-1, NAME-2 and so on" },
	{ .name = "initializers",
	  .type = FIELD_MIXED,
	  .fields = initializer_fields,
	  .offset = AT(initializers),
	  .read = initializers_decode,
	  .max = INITIALIZERS_MAX,
	  .doc = "commands, or objects, that run one after the other before the sandbox is "
		 "running" },
	{ .name = "retain_on_failure",
	  .type = FIELD_BOOL,
	  .offset = AT(retain_on_failure),
	  .doc = "if the start fails, keep the sandbox in state error, with last_error, for "
		 "timeout_sec; if an initializer failed, it can be used meanwhile" },
	{ .type = FIELD_END }
};
#undef AT

#define AT(member) offsetof(struct sandbox_patch, member)
static const struct field network_patch_fields[] = { NETWORK_FIELDS };
const struct field sandbox_patch_fields[] = {
	{ .name = "name",
	  .type = FIELD_NAME,
	  .offset = AT(name),
	  .max = SANDBOX_NAME_MAX,
	  .sent = FIELD_SENT(AT(has_name)) },
	{ .name = "metadata",
	  .type = FIELD_MAP,
	  .offset = AT(metadata),
	  .sent = FIELD_SENT(AT(has_metadata)) },
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .min = 1,
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .sent = FIELD_SENT(AT(has_timeout)) },
	{ .name = "idle_timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(idle_timeout_sec),
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .sent = FIELD_SENT(AT(has_idle_timeout)) },
	{ .name = "always_on",
	  .type = FIELD_BOOL,
	  .offset = AT(always_on),
	  .sent = FIELD_SENT(AT(has_always_on)) },
	{ .name = "on_timeout",
	  .type = FIELD_ENUM,
	  .names = on_timeout_names,
	  .offset = AT(on_timeout),
	  .sent = FIELD_SENT(AT(has_on_timeout)) },
	{ .name = "auto_resume",
	  .type = FIELD_BOOL,
	  .offset = AT(auto_resume),
	  .sent = FIELD_SENT(AT(has_auto_resume)) },
	{ .name = "secrets",
	  .type = FIELD_MIXED,
	  .fields = sandbox_secret_fields,
	  .offset = AT(secrets),
	  .read = grants_decode,
	  .sent = FIELD_SENT(AT(has_secrets)),
	  .max = SECRETS_PER_SANDBOX,
	  .doc = "replaces all of them, for new processes" },
	{ .name = "network", .type = FIELD_OBJECT, .fields = network_patch_fields },
	{ .type = FIELD_END }
};
#undef AT

struct extend_body {
	int64_t timeout_sec;
};
const struct field sandbox_extend_fields[] = { { .name = "timeout_sec",
						 .type = FIELD_INT,
						 .limit = FIELD_LIMIT_TIMEOUT,
						 .min = 1,
						 .offset =
							 offsetof(struct extend_body, timeout_sec),
						 .doc = "default: the current value" },
					       { .type = FIELD_END } };

static void answer_sandbox(struct rest *rest, struct http_req *req, int status,
			   const struct sandbox *sandbox)
{
	struct json_writer w = answer_begin(rest);

	sandbox_write(sandbox, &w, NULL);
	answer_send(rest, req, status, &w);
}

/* ---- create ---- */

/* req may be NULL; the reply is recorded nevertheless. */
static void finish_create(struct rest *rest, struct http_req *req, struct idempotency *idem,
			  const struct sandbox *sandbox, const struct err *err)
{
	struct json_writer w;

	if (!idem && !req)
		return;
	if (err) {
		idem_answer_error(rest, req, idem, err);
		return;
	}
	w = answer_begin(rest);
	sandbox_write(sandbox, &w, NULL);
	idem_answer(rest, req, idem, 201, &w);
}

static void on_made(void *arg, const struct sandbox *sandbox, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct idempotency *idem = pending->idem;

	finish_create(rest, pending_end(pending), idem, sandbox, err);
}

static void start_create(struct rest_call *call, const struct sandbox_spec *spec,
			 struct idempotency *idem)
{
	struct rest *rest = call->rest;
	const struct sandbox *now = NULL;
	struct rest_pending *pending = pending_new(call);
	struct sandbox_spec with = *spec;
	struct err err;
	int r;

	if (!pending) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		finish_create(rest, call->req, idem, NULL, &err);
		return;
	}
	pending->idem = idem;
	with.idem = idem;
	r = sandbox_create(rest->service, call->key, &with, on_made, pending, &now, &err);
	if (r == 0)
		return;
	(void)pending_end(pending);
	finish_create(rest, call->req, idem, r > 0 ? now : NULL, r > 0 ? NULL : &err);
}

static void start_many(struct rest_call *call, const struct sandbox_spec *spec)
{
	struct rest_pending *pending = many_begin(call);
	struct err err;

	if (pending && sandbox_create_many(call->rest->service, call->key, spec, pending->idem,
					   &batch_hooks, pending, &err) < 0)
		once_refuse(pending, &err);
}

void sandboxes_create(struct rest_call *call)
{
	struct sandbox_spec spec = { .cpu_milli = 0 };
	struct idempotency *idem = NULL;
	struct err err;
	int r;

	if (field_decode(sandbox_create_fields, call->doc, "", call->req->arena, &spec, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	if (spec.has_count) {
		start_many(call, &spec);
		return;
	}
	r = idem_begin(call, call->body, &idem, &err);
	if (r < 0)
		answer_error(call->rest, call->req, &err);
	else if (r == 0)
		start_create(call, &spec, idem);
}

/* ---- one sandbox ---- */

void sandboxes_get(struct rest_call *call)
{
	const struct sandbox *sandbox = answer_find(call);

	if (sandbox)
		answer_sandbox(call->rest, call->req, 200, sandbox);
}

void sandboxes_delete(struct rest_call *call)
{
	struct err err;
	struct sandbox *sandbox =
		sandbox_find_to_end(call->rest->service, call->key, call->args[0], &err);
	struct rest_pending *pending = sandbox ? pending_for(call) : NULL;

	if (!sandbox)
		answer_error(call->rest, call->req, &err);
	if (pending)
		answer_later(pending,
			     sandbox_end(sandbox, REASON_REQUESTED, answer_done, pending, &err),
			     &err);
}

void sandboxes_patch(struct rest_call *call)
{
	struct sandbox_patch patch = { .has_name = false };
	struct sandbox *sandbox = answer_find(call);
	struct rest_pending *pending;
	struct err err;

	if (!sandbox)
		return;
	if (field_decode(sandbox_patch_fields, call->doc, "", call->req->arena, &patch, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (!pending)
		return;
	life_begun(pending, sandbox_patch(sandbox, &patch, life_moved, pending, &err), sandbox,
		   &err);
}

void sandboxes_extend(struct rest_call *call)
{
	struct extend_body body = { 0 };
	struct sandbox *sandbox = answer_find(call);
	struct err err;

	if (!sandbox)
		return;
	if (field_decode(sandbox_extend_fields, call->doc, "", call->req->arena, &body, &err) < 0 ||
	    sandbox_extend(sandbox, body.timeout_sec, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_sandbox(call->rest, call->req, 200, sandbox);
}
