/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: composing and recording events. */
#ifndef CAY_SERVICE_EVENT_EVENT_INTERNAL_H
#define CAY_SERVICE_EVENT_EVENT_INTERNAL_H

#include "base/buf.h"
#include "engine/link.h"
#include "service/event/bus.h"
#include "service/run/process.h"
#include "service/service_internal.h"
#include "service/copy/snapshot.h"

struct preview;

/* event.c */
struct event_process {
	uint32_t process_id;
	uint32_t run;	  /* of a window; otherwise 0 */
	const char *kind; /* exec, stream, process, window */
	const char *name; /* or NULL */
};
/* event_codec.c: the data of one event while it is written. */
struct event_draft {
	struct buf *out;
	int error; /* the first error; event_draft_end() returns it */
	bool comma;
};
struct event_draft event_draft(struct buf *out); /* replaces the content of out */
int event_draft_end(struct event_draft *draft, struct str *ret) _must_check_;
void event_put_text(struct event_draft *draft, const char *key, const char *value); /* NULL: null */
void event_put_int(struct event_draft *draft, const char *key, int64_t value);
void event_put_bool(struct event_draft *draft, const char *key, bool value);
void event_put_time(struct event_draft *draft, const char *key, int64_t real_ms); /* <= 0: null */
void event_put_end(struct event_draft *draft, const struct process_status *status);
/* Appends the whole event, as webhooks send it. */
int event_encode(const struct event *event, struct buf *out) _must_check_;

struct event_draft event_begin(const struct sandbox *sandbox);
void event_send(const struct sandbox *sandbox, enum event_type type, struct event_draft *draft);
void event_snapshot_deadline(struct snapshot *snapshot,
			     int64_t now_ms); /* warns once, when the deadline is near */
void event_snapshot(const struct snapshot *snapshot, bool created);
void event_state(const struct sandbox *sandbox, const char *previous);
void event_process_started(const struct sandbox *sandbox, const struct event_process *process);
void event_process_ended(const struct sandbox *sandbox, const struct event_process *process,
			 const struct process_status *status);
void event_process_refused(const struct sandbox *sandbox, const struct event_process *process,
			   const struct err *err);
/* Warns once when a deadline is near; returns when to check again, on the clock of now_ms. */
int64_t event_deadline(const struct sandbox *sandbox, enum sandbox_reason what, int64_t now_ms,
		       int64_t due_ms, uint32_t timeout_sec, int64_t *warned_ms);
void event_port(const struct sandbox *sandbox, const struct link_port *port, bool opened);
void event_preview(const struct sandbox *sandbox, const struct preview *preview, bool made);
struct engine_storage;
/* The storage of an engine is nearly full; only admin keys see this event. */
void event_storage_low(struct service *service, const char *engine,
		       const struct engine_storage *storage);
void event_webhook_disabled(struct service *service, const char *id, const char *owner,
			    const char *workspace, const char *url, const char *reason);

/* bus.c */
int bus_open(struct service *service, struct err *err) _must_check_;
/* Assigns id and time and copies the event; type is one of event_names. */
void bus_emit(struct service *service, const struct event *event);
void bus_flush(struct service *service);
void bus_tick(struct service *service);
void bus_done(struct service *service);
void bus_flush_soon(struct service *service);

#endif
