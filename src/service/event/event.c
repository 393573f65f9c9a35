/* SPDX-License-Identifier: Apache-2.0 */
/* Composes the events of the service. They do not contain commands, which may contain secrets. */
#include "base/log.h"
#include "base/time.h"
#include "service/event/bus_private.h"
#include "service/event/event_internal.h"
#include "service/copy/transition_internal.h"
#include "service/network/preview.h"
#include "service/run/process.h"
#include "service/secret/secret.h"
#include "service/copy/snapshot.h"
#include "service/event/event_private.h"
#include "service/sandbox/sandbox_internal.h"

static_assert((int)EVENT_SANDBOX_PROVISIONING == (int)SANDBOX_PROVISIONING &&
		      (int)EVENT_SANDBOX_ERROR == (int)SANDBOX_ERROR,
	      "the events of states are in the order of the states");

#define WARN_MS 30000		  /* before the end; for short timeouts, their last tenth */
#define SNAPSHOT_WARN_MIN_MS 1500 /* snapshots are checked every second */

struct event_draft event_begin(const struct sandbox *sandbox)
{
	return event_draft(&sandbox->service->events->bus->scratch);
}

void event_send(const struct sandbox *sandbox, enum event_type type, struct event_draft *w)
{
	const struct sandbox_attrs *attrs = &sandbox->attrs;
	struct event event = { .type = event_names[type],
			       .sandbox_id = sandbox->id,
			       .owner = attrs->owner,
			       .external_workspace_id = attrs->external_workspace_id };

	if (event_draft_end(w, &event.data) < 0) {
		log_warn("sandbox %s: the event %s is lost", sandbox->id, event.type);
		return;
	}
	bus_emit(sandbox->service, &event);
}

/* If the sandbox is gone, its workspace is not known. */
static void send_snapshot(const struct snapshot *snapshot, const char *type, int64_t remaining_ms)
{
	struct service *service = snapshot->service;
	const struct sandbox *sandbox = sandbox_by_id(service, str_of(snapshot->sandbox_id));
	struct event event = { .type = type,
			       .sandbox_id = snapshot->sandbox_id,
			       .owner = snapshot->owner,
			       .external_workspace_id =
				       sandbox ? sandbox->attrs.external_workspace_id : NULL };
	struct event_draft w;

	if (snapshot->kind != SNAPSHOT_USER || !service->events->bus)
		return;
	w = event_draft(&service->events->bus->scratch);
	event_put_text(&w, "snapshot_id", snapshot->id);
	event_put_int(&w, "size_bytes", (int64_t)snapshot->size_bytes);
	event_put_bool(&w, "memory_preserved", snapshot->memory);
	if (remaining_ms >= 0) {
		event_put_int(&w, "remaining_ms", remaining_ms);
		event_put_time(&w, "expires_at", snapshot_expires_ms(snapshot));
	}
	if (event_draft_end(&w, &event.data) < 0)
		return;
	bus_emit(service, &event);
}

static void write_pause(const struct sandbox *sandbox, struct event_draft *w)
{
	bool kept = sandbox_keeps_memory(sandbox);

	event_put_text(w, "pause_kind", pause_kind_names[sandbox_pause_kind(sandbox)]);
	event_put_bool(w, "memory_preserved", kept);
	if (!kept && sandbox->last_error)
		event_put_text(w, "message", sandbox->last_error);
}

void event_snapshot(const struct snapshot *snapshot, bool created)
{
	send_snapshot(snapshot,
		      event_names[created ? EVENT_SNAPSHOT_CREATED : EVENT_SNAPSHOT_DELETED], -1);
}

void event_snapshot_deadline(struct snapshot *snapshot, int64_t now_ms)
{
	int64_t left_ms = snapshot->expires_ms - now_ms;
	int64_t life_ms = snapshot_expires_ms(snapshot) - snapshot->created_ms;

	if (snapshot->warned || left_ms > MIN(MAX(life_ms / 10, SNAPSHOT_WARN_MIN_MS), WARN_MS))
		return;
	snapshot->warned = true;
	send_snapshot(snapshot, event_names[EVENT_SNAPSHOT_DEADLINE], MAX(left_ms, 0));
}

void event_state(const struct sandbox *sandbox, const char *previous)
{
	struct event_draft w;

	if (sandbox->pooled || !sandbox->service->events->bus)
		return;
	w = event_begin(sandbox);
	event_put_text(&w, "state", sandbox_state_names[sandbox_state(sandbox)]);
	event_put_text(&w, "previous_state", previous);
	event_put_text(&w, "reason", sandbox_reason_name(sandbox->reason));
	event_put_text(&w, "name", sandbox->attrs.name);
	if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		write_pause(sandbox, &w);
	if (sandbox_state(sandbox) == SANDBOX_ERROR || sandbox->reason == REASON_BOOT_FAILED)
		event_put_text(&w, "message", sandbox->last_error);
	event_send(sandbox, (enum event_type)sandbox_state(sandbox), &w);
}

void event_process_started(const struct sandbox *sandbox, const struct event_process *process)
{
	struct event_draft w = event_begin(sandbox);
	char veiled[PROCESS_NAME_MAX + 1];
	const char *name = sandbox_scrub_text(sandbox, process->name, veiled, sizeof(veiled));

	event_put_int(&w, "process_id", process->process_id);
	event_put_text(&w, "kind", process->kind);
	if (process->run) {
		event_put_text(&w, "window", name);
		event_put_int(&w, "run", process->run);
	} else if (name && name[0]) {
		event_put_text(&w, "name", name);
	}
	event_send(sandbox, EVENT_PROCESS_STARTED, &w);
}

/* The memory limit killed it or another process of the sandbox while it ran. */
static void send_oom(const struct sandbox *sandbox, const struct event_process *process,
		     const struct process_status *status)
{
	struct event_draft w = event_begin(sandbox);

	event_put_int(&w, "process_id", process->process_id);
	event_put_text(&w, "kind", process->kind);
	event_put_int(&w, "oom_kills", status->oom_kills);
	event_put_int(&w, "memory_mb", sandbox->attrs.memory_mb);
	event_send(sandbox, EVENT_PROCESS_OOM, &w);
}

void event_process_ended(const struct sandbox *sandbox, const struct event_process *process,
			 const struct process_status *status)
{
	struct event_draft w = event_begin(sandbox);
	char veiled[PROCESS_NAME_MAX + 1];

	event_put_int(&w, "process_id", process->process_id);
	event_put_text(&w, "kind", process->kind);
	if (process->run) {
		event_put_text(&w, "window",
			       sandbox_scrub_text(sandbox, process->name, veiled, sizeof(veiled)));
		event_put_int(&w, "run", process->run);
	}
	event_put_end(&w, status);
	event_send(sandbox, EVENT_PROCESS_ENDED, &w);
	if (status->oom_kills)
		send_oom(sandbox, process, status);
}

/* The start of a process failed. */
void event_process_refused(const struct sandbox *sandbox, const struct event_process *process,
			   const struct err *err)
{
	struct event_draft w = event_begin(sandbox);
	char veiled[ERR_MESSAGE_MAX];

	event_put_int(&w, "process_id", process->process_id);
	event_put_text(&w, "kind", process->kind);
	event_put_text(&w, "reason", "refused");
	event_put_text(
		&w, "message",
		sandbox_scrub_text(sandbox, err ? err->message : NULL, veiled, sizeof(veiled)));
	event_send(sandbox, EVENT_PROCESS_ENDED, &w);
}

void event_webhook_disabled(struct service *service, const char *id, const char *owner,
			    const char *workspace, const char *url, const char *reason)
{
	struct event event = { .type = event_names[EVENT_WEBHOOK_DISABLED],
			       .sandbox_id = "",
			       .owner = owner,
			       .external_workspace_id = workspace };
	struct event_draft w;

	w = event_draft(&service->events->bus->scratch);
	event_put_text(&w, "webhook_id", id);
	event_put_text(&w, "url", url);
	event_put_text(&w, "reason", reason);
	if (event_draft_end(&w, &event.data) < 0)
		return;
	bus_emit(service, &event);
}

void event_storage_low(struct service *service, const char *engine,
		       const struct engine_storage *storage)
{
	struct event event = { .type = event_names[EVENT_STORAGE_LOW],
			       .sandbox_id = "",
			       .owner = "" };
	struct event_draft w;

	w = event_draft(&service->events->bus->scratch);
	/* Without an engine: the disk of the state directory. */
	event_put_text(&w, "disk", engine ? "pool" : "state");
	if (engine)
		event_put_text(&w, "engine", engine);
	event_put_int(&w, "capacity_bytes", (int64_t)storage->capacity_bytes);
	event_put_int(&w, "used_bytes", (int64_t)storage->used_bytes);
	event_put_int(&w, "promised_bytes", (int64_t)storage->promised_bytes);
	if (event_draft_end(&w, &event.data) < 0)
		return;
	bus_emit(service, &event);
}

void event_port(const struct sandbox *sandbox, const struct link_port *port, bool opened)
{
	struct event_draft w = event_begin(sandbox);

	event_put_int(&w, "port", port->port);
	event_put_text(&w, "address", port->address);
	event_put_int(&w, "uid", port->uid);
	event_send(sandbox, opened ? EVENT_PORT_OPENED : EVENT_PORT_CLOSED, &w);
}

void event_preview(const struct sandbox *sandbox, const struct preview *preview, bool made)
{
	struct event_draft w = event_begin(sandbox);

	event_put_text(&w, "preview_id", preview->id);
	event_put_int(&w, "port", preview->port);
	event_put_text(&w, "visibility", preview_visibility_names[preview->visibility]);
	event_put_time(&w, "expires_at", preview_expires_ms(sandbox, preview));
	event_send(sandbox, made ? EVENT_PREVIEW_CREATED : EVENT_PREVIEW_DELETED, &w);
}

static void warn(const struct sandbox *sandbox, enum sandbox_reason what, int64_t left_ms)
{
	struct event_draft w = event_begin(sandbox);

	event_put_text(&w, "reason", sandbox_reason_name(what));
	event_put_int(&w, "remaining_ms", left_ms);
	event_put_time(&w, "expires_at", time_real_ms() + left_ms);
	event_send(sandbox, EVENT_SANDBOX_DEADLINE, &w);
}

int64_t event_deadline(const struct sandbox *sandbox, enum sandbox_reason what, int64_t now_ms,
		       int64_t due_ms, uint32_t timeout_sec, int64_t *warned_ms)
{
	int64_t lead_ms = MIN((int64_t)timeout_sec * 100, WARN_MS);

	if (!due_ms || sandbox_state(sandbox) != SANDBOX_RUNNING || *warned_ms == due_ms)
		return due_ms;
	if (now_ms < due_ms - lead_ms)
		return due_ms - lead_ms;
	*warned_ms = due_ms;
	warn(sandbox, what, due_ms - now_ms);
	return due_ms;
}
