/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of replies, for the OpenAPI document. */
#include "face/rest/openapi/schema.h"
#include "service/network/preview.h"
#include "service/sandbox/sandbox.h"

static const struct field network_members[] = {
	STRING("mode", "none, restricted, full"),
	{ .name = "allow", .type = FIELD_STRINGS, .max = EGRESS_RULES_MAX },
	{ .name = "deny", .type = FIELD_STRINGS, .max = EGRESS_RULES_MAX },
	FLAG("learn", NULL),
	{ .type = FIELD_END }
};
static const struct field checkout_members[] = { FLAG("hit", "it was taken from the pool"),
						 STRING("mode", NULL),
						 { .type = FIELD_END } };

#define SECRET_GRANT_MEMBERS                                                            \
	STRING("name", NULL), STRING("secret_id", NULL), STRING("as", "env or broker"), \
		STRING("env", "the variable"),                                          \
		{ .name = "hosts",                                                      \
		  .type = FIELD_STRINGS,                                                \
		  .doc = "the hosts that may receive a brokered secret" },              \
		FLAG("deleted", "the secret was deleted: new processes do not receive it")
static const struct field grant_members[] = { SECRET_GRANT_MEMBERS, { .type = FIELD_END } };

const struct field sandbox_answer[] = {
	STRING("id", "^[a-z0-9]+$; also the host name inside"),
	MAYBE("name", STR, "unique among the key's sandboxes"),
	{ .name = "state", .type = FIELD_ENUM, .names = sandbox_state_names, .fallback = -1 },
	MAYBE("state_reason", STR,
	      "requested, timeout, idle_timeout, oom, crash, engine_lost, boot_failed"),
	STRING("template_id", NULL),
	STRING("engine", NULL),
	{ .name = "cpu_count", .type = FIELD_MILLI },
	INTEGER("memory_mb", NULL),
	INTEGER("disk_size_mb", NULL),
	STRING("disk_limit", "enforced, or unenforced where the storage has no quotas"),
	INTEGER("timeout_sec", NULL),
	INTEGER("idle_timeout_sec", NULL),
	FLAG("always_on", NULL),
	STRING("on_timeout", "destroy, pause, hibernate"),
	FLAG("auto_resume", NULL),
	MAYBE("boot_ms", REAL, "from the arrival of the request until it is running"),
	{ .name = "boot_path", .type = FIELD_ENUM, .names = sandbox_boot_names, .fallback = -1 },
	{ .name = "created_at", .type = FIELD_TIME },
	MAYBE("started_at", TIME, NULL),
	MAYBE("expires_at", TIME, "null with always_on"),
	MAYBE("idle_expires_at", TIME, "null without idle_timeout_sec"),
	{ .name = "metadata", .type = FIELD_MAP },
	{ .name = "secrets",
	  .type = FIELD_LIST,
	  .fields = grant_members,
	  .doc = "its secrets, without their values" },
	MAYBE("external_workspace_id", STR, NULL),
	{ .name = "network", .type = FIELD_OBJECT, .fields = network_members },
	MAYBE("pause_kind", STR, "freeze, hibernate; null while not paused"),
	MAYBE("memory_preserved", BOOL,
	      "whether processes continue after a resume; null if not paused"),
	{ .name = "pool_checkout", .type = FIELD_OBJECT, .fields = checkout_members },
	MAYBE("preview_url", STR, "the preview of the port that the template exposes"),
	MAYBE("last_error", STR, NULL),
	{ .type = FIELD_END }
};
const struct field sandbox_list_answer[] = { LIST_OF(sandbox_answer), { .type = FIELD_END } };

const struct field preview_answer[] = {
	STRING("id", NULL),
	STRING("sandbox_id", NULL),
	INTEGER("port", NULL),
	{ .name = "visibility",
	  .type = FIELD_ENUM,
	  .names = preview_visibility_names,
	  .fallback = -1 },
	{ .name = "host_header", .type = FIELD_ENUM, .names = preview_host_names, .fallback = -1 },
	MAYBE("url", STR, "http://PORT-ID.<preview_domain>"),
	{ .name = "created_at", .type = FIELD_TIME },
	MAYBE("expires_at", TIME, "null: until the sandbox ends"),
	INTEGER("share_tokens", NULL),
	INTEGER("requests", NULL),
	INTEGER("bytes_in", "of bodies, from visitors"),
	INTEGER("bytes_out", "to visitors"),
	INTEGER("connections", "made to the server inside"),
	INTEGER("open", "current requests and WebSockets"),
	{ .type = FIELD_END }
};
const struct field preview_list_answer[] = { LIST_OF(preview_answer), { .type = FIELD_END } };
const struct field share_answer[] = { STRING("preview_id", NULL),
				      STRING("token", "shown once"),
				      MAYBE("url", STR, "with the token in it"),
				      { .name = "expires_at", .type = FIELD_TIME },
				      { .type = FIELD_END } };
static const struct field port_members[] = { INTEGER("port", NULL),
					     STRING("address", "the address that it listens on"),
					     INTEGER("uid", NULL),
					     MAYBE("pid", INT, "null: not known"),
					     MAYBE("process", STR,
						   "the name of the program; null: unknown"),
					     { .type = FIELD_END } };
const struct field port_list_answer[] = { LIST_OF(port_members), { .type = FIELD_END } };

/* Every error has these members; the error of a part of a reply has no request_id. */
const struct field error_answer[] = { STRING("code", "stable: one of x-codes"),
				      STRING("message", NULL),
				      MAYBE("hint", STR, "what to do next"),
				      { .name = "request_id", .type = FIELD_STR, .optional = true },
				      FLAG("retryable", "the same call may succeed later"),
				      { .name = "field",
					.type = FIELD_STR,
					.optional = true,
					.doc = "the limit that was reached; with limit and used" },
				      { .name = "limit", .type = FIELD_INT, .optional = true },
				      { .name = "used", .type = FIELD_INT, .optional = true },
				      { .type = FIELD_END } };
const struct field failed_answer[] = {
	{ .name = "error", .type = FIELD_OBJECT, .fields = error_answer }, { .type = FIELD_END }
};

const struct field snapshot_answer[] = {
	STRING("id", NULL),
	STRING("sandbox_id", "the sandbox that it was taken of, which may have ended"),
	STRING("kind", "filesystem; full: with memory"),
	FLAG("memory_preserved", "whether it contains processes"),
	MAYBE("memory_error", STR, "why it contains none, if they were requested"),
	STRING("state", "ready; missing: the engine lost it, and it can only be deleted"),
	STRING("template_id", NULL),
	STRING("engine", NULL),
	INTEGER("size_bytes", "bytes of its files, including those shared with other snapshots, "
			      "and of its memory"),
	{ .name = "created_at", .type = FIELD_TIME },
	MAYBE("expires_at", TIME, "when it is deleted"),
	MAYBE("comment", STR, NULL),
	{ .type = FIELD_END }
};
const struct field snapshot_list_answer[] = { LIST_OF(snapshot_answer), { .type = FIELD_END } };
const struct field fork_answer[] = {
	{ .name = "data", .type = FIELD_LIST, .fields = sandbox_answer, .other = failed_answer },
	NEXT_CURSOR,
	{ .type = FIELD_END }
};

const struct field env_answer[] = {
	{ .name = "env", .type = FIELD_MAP, .doc = "the template's and the sandbox's own" },
	{ .type = FIELD_END }
};

static const struct field sample_members[] = {
	{ .name = "at", .type = FIELD_TIME }, MAYBE("cpu_percent", REAL, "of one processor"),
	INTEGER("memory_bytes", NULL),	      INTEGER("pids", NULL),
	INTEGER("disk_bytes", NULL),	      { .type = FIELD_END }
};
static const struct field denial_members[] = {
	STRING("host", "the name that was requested, or the address"),
	MAYBE("port", INT, NULL),
	STRING("protocol", "dns, tls, http, tcp, udp, icmp, other"),
	STRING("reason", "not_allowed, denied, private_address, host_address, no_name, ..."),
	MAYBE("rule", STR, "the entry that decided"),
	MAYBE("suggestion", STR, "the entry for allow that would permit it"),
	FLAG("passed", "it was permitted because of learn"),
	INTEGER("count", NULL),
	{ .name = "first_at", .type = FIELD_TIME },
	{ .name = "last_at", .type = FIELD_TIME },
	{ .type = FIELD_END }
};
const struct field denial_list_answer[] = { LIST_OF(denial_members), { .type = FIELD_END } };

static const struct field stall_members[] = {
	{ .name = "some_percent",
	  .type = FIELD_REAL,
	  .doc = "percentage of the last 10 s in which some task waited" },
	INTEGER("some_us", "the same since the start"),
	{ .name = "full_percent",
	  .type = FIELD_REAL,
	  .doc = "percentage of the last 10 s in which all tasks waited" },
	INTEGER("full_us", "the same since the start"),
	{ .type = FIELD_END }
};
static const struct field pressure_members[] = {
	{ .name = "cpu", .type = FIELD_OBJECT, .fields = stall_members },
	{ .name = "memory", .type = FIELD_OBJECT, .fields = stall_members },
	{ .name = "io", .type = FIELD_OBJECT, .fields = stall_members },
	{ .type = FIELD_END }
};
const struct field metrics_answer[] = {
	INTEGER("cpu_us", "used since the start"),
	INTEGER("memory_bytes", NULL),
	INTEGER("memory_peak_bytes", NULL),
	INTEGER("memory_limit_bytes", NULL),
	INTEGER("pids", NULL),
	INTEGER("disk_bytes", NULL),
	INTEGER("disk_limit_bytes", NULL),
	INTEGER("oom_kills", NULL),
	INTEGER("network_sent_bytes", "out of the sandbox"),
	INTEGER("network_received_bytes", NULL),
	{ .name = "pressure",
	  .type = FIELD_OBJECT,
	  .fields = pressure_members,
	  .nullable = true,
	  .doc = "waiting for resources (PSI); null without "
		 "cgroup v2" },
	{ .name = "history",
	  .type = FIELD_LIST,
	  .fields = sample_members,
	  .doc = "a sample every 10 s since the first request, at most 60" },
	{ .type = FIELD_END }
};

#define KEY_MEMBERS                                                                               \
	STRING("id", NULL), STRING("name", NULL), { .name = "scopes", .type = FIELD_STRINGS },    \
		INTEGER("max_sandboxes", "0: the daemon's default; -1: none. The next likewise"), \
		INTEGER("max_vcpus", NULL), INTEGER("max_memory_mb", NULL),                       \
		INTEGER("max_disk_mb", NULL), INTEGER("max_snapshots", NULL),                     \
		INTEGER("max_creates_per_sec", NULL), INTEGER("sandboxes", "alive now"),          \
		{ .name = "quota",                                                                \
		  .type = FIELD_FREE,                                                             \
		  .doc = "per limit {limit, used}; limit null: none applies" },                   \
		MAYBE("created_by", STR, "the key that created it; null: an admin key"),          \
		{ .name = "created_at", .type = FIELD_TIME },                                     \
		MAYBE("last_used_at", TIME, "since the daemon's start")

const struct field key_answer[] = { KEY_MEMBERS, { .type = FIELD_END } };
const struct field key_made_answer[] = { STRING("key", "the secret; shown only here"),
					 KEY_MEMBERS,
					 { .type = FIELD_END } };
const struct field key_list_answer[] = { LIST_OF(key_answer), { .type = FIELD_END } };

#define WEBHOOK_MEMBERS                                                                        \
	STRING("id", NULL), STRING("url", NULL),                                               \
		{ .name = "events",                                                            \
		  .type = FIELD_STRINGS,                                                       \
		  .doc = "names, or the part before the dot; empty: all" },                    \
		MAYBE("external_workspace_id", STR, "only events of this workspace"),          \
		MAYBE("description", STR, NULL), FLAG("enabled", NULL),                        \
		MAYBE("disabled_reason", STR, "set when the daemon disabled it"),              \
		STRING("key_id", "whose it is"), { .name = "created_at", .type = FIELD_TIME }, \
		INTEGER("cursor", "the last event that was delivered or abandoned"),           \
		INTEGER("attempts", "attempts for the event in progress"),                     \
		INTEGER("last_status", "HTTP status of the last reply; 0: none"),              \
		MAYBE("last_error", STR, NULL), MAYBE("last_delivery_at", TIME, NULL),         \
		MAYBE("next_attempt_at", TIME, NULL), MAYBE("failing_since", TIME, NULL),      \
		INTEGER("dead", "deliveries that were abandoned"),                             \
		INTEGER("missed_events",                                                       \
			"upper bound of the events that were lost while it failed")
const struct field webhook_answer[] = { WEBHOOK_MEMBERS, { .type = FIELD_END } };
const struct field webhook_made_answer[] = { STRING("secret",
						    "signs the deliveries; shown only here"),
					     WEBHOOK_MEMBERS,
					     { .type = FIELD_END } };
const struct field webhook_list_answer[] = { LIST_OF(webhook_answer), { .type = FIELD_END } };
const struct field webhook_result_answer[] = { FLAG("delivered", "answered with 2xx"),
					       INTEGER("status",
						       "HTTP status of the reply; 0: none"),
					       MAYBE("error", STR, NULL),
					       { .name = "duration_ms", .type = FIELD_REAL },
					       { .type = FIELD_END } };
static const struct field delivery_members[] = { INTEGER("event_id", NULL),
						 STRING("type", NULL),
						 STRING("state", "pending, dead"),
						 INTEGER("attempts", NULL),
						 MAYBE("last_attempt_at", TIME, NULL),
						 MAYBE("next_attempt_at", TIME, NULL),
						 INTEGER("status", NULL),
						 MAYBE("error", STR, NULL),
						 { .type = FIELD_END } };
const struct field delivery_list_answer[] = { LIST_OF(delivery_members), { .type = FIELD_END } };

const struct field ticket_answer[] = { STRING("ticket", "send it as ?ticket=; shown only here"),
				       STRING("method", NULL),
				       STRING("path", NULL),
				       { .name = "expires_at", .type = FIELD_TIME },
				       { .type = FIELD_END } };

const struct field secret_answer[] = {
	STRING("id", NULL),
	STRING("name", NULL),
	STRING("scope", "global, workspace, sandbox"),
	MAYBE("external_workspace_id", STR, "of scope workspace"),
	MAYBE("sandbox_id", STR, "of scope sandbox"),
	{ .name = "hosts",
	  .type = FIELD_STRINGS,
	  .doc = "the hosts that may receive it when brokered" },
	INTEGER("version", "1, increased by each rotation"),
	FLAG("scrubbed", "long enough (8 bytes) to be scrubbed from output"),
	INTEGER("sandboxes", "how many sandboxes have it, or had it"),
	STRING("key_id", "whose it is"),
	{ .name = "created_at", .type = FIELD_TIME },
	{ .name = "updated_at", .type = FIELD_TIME },
	{ .type = FIELD_END }
};
const struct field secret_list_answer[] = { LIST_OF(secret_answer), { .type = FIELD_END } };

const struct field template_answer[] = { STRING("id", NULL),
					 STRING("name", NULL),
					 INTEGER("version", NULL),
					 STRING("hash", "of the content"),
					 INTEGER("size_bytes", NULL),
					 INTEGER("files", NULL),
					 MAYBE("created_at", TIME, NULL),
					 MAYBE("workdir", STR, NULL),
					 MAYBE("user", STR, NULL),
					 STRING("shell", NULL),
					 MAYBE("from", STR, "the template it was made from"),
					 MAYBE("preview_port", INT,
					       "public from the start; null: none"),
					 { .name = "env", .type = FIELD_MAP },
					 { .name = "initializers",
					   .type = FIELD_MIXED,
					   .fields = initializer_fields,
					   .doc = "run in each sandbox before it is running" },
					 { .type = FIELD_END } };
const struct field template_list_answer[] = { LIST_OF(template_answer), { .type = FIELD_END } };

const struct field build_answer[] = { STRING("id", NULL),
				      STRING("template_id", NULL),
				      STRING("state", "running, ready, failed"),
				      MAYBE("step", STR, "the current or last step of the build"),
				      { .name = "started_at", .type = FIELD_TIME },
				      MAYBE("finished_at", TIME, NULL),
				      MAYBE("error", STR, NULL),
				      STRING("log", "a piece of at most 64 KiB"),
				      INTEGER("log_cursor", "the offset of the next piece"),
				      { .type = FIELD_END } };
const struct field build_list_answer[] = { LIST_OF(build_answer), { .type = FIELD_END } };

static const struct field engine_members[] = {
	STRING("name", NULL),
	STRING("label", NULL),
	FLAG("default", NULL),
	FLAG("available", NULL),
	MAYBE("unavailable_because", STR, NULL),
	MAYBE("warning", STR, NULL),
	{ .name = "capabilities",
	  .type = FIELD_FREE,
	  .doc = "name to boolean; disk_limit: enforced or unenforced; network: "
		 "transparent, proxied or none" },
	{ .type = FIELD_END }
};
static const struct field pool_members[] = { INTEGER("ready", NULL),
					     INTEGER("filling", NULL),
					     INTEGER("target", NULL),
					     { .type = FIELD_END } };
const struct field options_answer[] = {
	STRING("version", NULL),
	{ .name = "engines", .type = FIELD_LIST, .fields = engine_members },
	{ .name = "limits", .type = FIELD_FREE, .doc = "name to {min, max, default}" },
	{ .name = "defaults", .type = FIELD_FREE },
	{ .name = "pool", .type = FIELD_OBJECT, .fields = pool_members },
	{ .name = "scopes", .type = FIELD_STRINGS },
	{ .name = "warnings", .type = FIELD_STRINGS },
	{ .type = FIELD_END }
};
#define USAGE_MEMBERS                                                     \
	{ .name = "running_seconds", .type = FIELD_REAL },                \
		{ .name = "vcpu_seconds",                                 \
		  .type = FIELD_REAL,                                     \
		  .doc = "running time by cpu_count" },                   \
		{ .name = "memory_gib_seconds",                           \
		  .type = FIELD_REAL,                                     \
		  .doc = "running time by memory_mb" },                   \
		{ .name = "paused_seconds", .type = FIELD_REAL },         \
	{                                                                 \
		.name = "paused_storage_gib_seconds", .type = FIELD_REAL, \
		.doc = "paused time by the bytes of its files"            \
	}
static const struct field usage_members[] = { MAYBE("key_id", STR, NULL),
					      MAYBE("external_workspace_id", STR, NULL),
					      INTEGER("sandboxes", NULL),
					      USAGE_MEMBERS,
					      { .type = FIELD_END } };
static const struct field usage_total[] = { INTEGER("sandboxes", NULL),
					    USAGE_MEMBERS,
					    { .type = FIELD_END } };
const struct field usage_answer[] = {
	MAYBE("from", TIME, NULL),
	{ .name = "to", .type = FIELD_TIME },
	LIST_OF(usage_members),
	{ .name = "total", .type = FIELD_OBJECT, .fields = usage_total },
	{ .type = FIELD_END }
};
const struct field sandbox_usage_answer[] = { STRING("sandbox_id", NULL),
					      MAYBE("from", TIME, NULL),
					      { .name = "to", .type = FIELD_TIME },
					      USAGE_MEMBERS,
					      { .type = FIELD_END } };
const struct field event_answer[] = {
	INTEGER("id", "only grows; pass it as after, or Last-Event-ID, to continue after it"),
	STRING("type",
	       "sandbox.STATE, sandbox.deadline, process.started, process.ended, process.oom, "
	       "snapshot.created, snapshot.deleted, snapshot.deadline, webhook.disabled, "
	       "port.opened, "
	       "port.closed, preview.created, preview.deleted, storage.low"),
	{ .name = "at", .type = FIELD_TIME },
	STRING("sandbox_id", NULL),
	MAYBE("external_workspace_id", STR, NULL),
	{ .name = "data", .type = FIELD_FREE, .doc = "docs/reference/events.md" },
	{ .type = FIELD_END }
};
const struct field event_list_answer[] = { LIST_OF(event_answer), { .type = FIELD_END } };
const struct field status_answer[] = { STRING("status", NULL), { .type = FIELD_END } };
const struct field recover_answer[] = {
	INTEGER("snapshots", "snapshots that are listed again"),
	INTEGER("sandboxes", "running sandboxes that were saved as snapshots and ended"),
	{ .type = FIELD_END }
};
const struct field ready_answer[] = { STRING("status", NULL),
				      STRING("version", NULL),
				      INTEGER("uptime_sec", NULL),
				      { .type = FIELD_END } };
