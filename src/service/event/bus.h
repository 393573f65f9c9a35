/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of sandboxes, with ids that only grow. Events are written in groups shortly after they
 * occur and are delivered afterwards, so every later reader finds them, too. A reader has a
 * position and no queue: a slow one continues from the store, and learns how many events it missed
 * if they were deleted before it read them. Faces and webhooks are readers.
 */
#ifndef CAY_SERVICE_EVENT_BUS_H
#define CAY_SERVICE_EVENT_BUS_H

#include "service/sandbox/sandbox.h"

/* X(symbol, public name). Events of states are in the order of enum sandbox_state. */
#define EVENT_TABLE(X)                                  \
	X(SANDBOX_PROVISIONING, "sandbox.provisioning") \
	X(SANDBOX_RUNNING, "sandbox.running")           \
	X(SANDBOX_PAUSED, "sandbox.paused")             \
	X(SANDBOX_DESTROYED, "sandbox.destroyed")       \
	X(SANDBOX_ERROR, "sandbox.error")               \
	X(SANDBOX_DEADLINE, "sandbox.deadline")         \
	X(PROCESS_STARTED, "process.started")           \
	X(PROCESS_ENDED, "process.ended")               \
	X(PROCESS_OOM, "process.oom")                   \
	X(SNAPSHOT_CREATED, "snapshot.created")         \
	X(SNAPSHOT_DELETED, "snapshot.deleted")         \
	X(SNAPSHOT_DEADLINE, "snapshot.deadline")       \
	X(WEBHOOK_DISABLED, "webhook.disabled")         \
	X(PORT_OPENED, "port.opened")                   \
	X(PORT_CLOSED, "port.closed")                   \
	X(PREVIEW_CREATED, "preview.created")           \
	X(PREVIEW_DELETED, "preview.deleted")           \
	X(EGRESS_DENIED, "egress.denied")               \
	X(STORAGE_LOW, "storage.low")

enum event_type {
#define X(sym, name) EVENT_##sym,
	EVENT_TABLE(X)
#undef X
		EVENT_COUNT
};
#define EVENT_ALL ((1u << EVENT_COUNT) - 1)
extern const char *const event_names[]; /* NULL-terminated */

/* Views live during the call. */
struct event {
	int64_t id;
	int64_t ms; /* wall clock */
	const char *type;
	const char *sandbox_id;
	const char *owner;
	const char *external_workspace_id; /* or NULL */
	struct str data;		   /* one object as text, in its stored form */
};

/* An empty text matches any value. */
struct bus_filter {
	uint32_t types; /* 1 << enum event_type */
	char owner[AUTH_KEY_ID_SIZE];
	char sandbox_id[SANDBOX_ID_LEN + 1];
	char external_workspace_id[256];
};
/* Parses "process,sandbox.error": names, or their part before the dot. */
int bus_types_parse(struct str text, uint32_t *ret, struct err *err) _must_check_;

struct bus_gap {
	int64_t events; /* missed */
	bool exact;	/* otherwise an upper bound: the filter could not be applied to them */
	int64_t last;	/* id of the last one missed */
};

enum bus_answer {
	BUS_MORE,
	BUS_WAIT, /* the event was accepted; send the next after bus_reader_go_on() */
	BUS_END,  /* stop; on_end is called next */
};
struct bus_hooks {
	enum bus_answer (*on_event)(void *arg, const struct event *event);
	enum bus_answer (*on_gap)(void *arg, const struct bus_gap *gap);
	/* The last call. more: the reader stopped with BUS_END, so there may be more events. */
	void (*on_end)(void *arg, bool more);
};

#define BUS_NOW (-1)

/* Owner: the service, until its end or bus_reader_close(). */
struct bus_reader;
/*
 * after: the id before the first event to read; 0: all stored events; BUS_NOW: only new ones. live:
 * continue with new events; otherwise the reader ends after the newest. No callback runs inside the
 * call.
 */
struct bus_ask {
	const struct bus_filter *filter;
	int64_t after; /* an event's id */
	bool live;
};
int bus_read(struct service *service, const struct bus_ask *ask, const struct bus_hooks *hooks,
	     void *arg, struct bus_reader **ret, struct err *err) _must_check_;
void bus_reader_go_on(struct bus_reader *reader);
void bus_reader_close(struct bus_reader *reader);
int64_t bus_reader_at(const struct bus_reader *reader); /* id of the last event read */
int64_t bus_newest(const struct service *service);	/* id of the last event in the store */

/*
 * Finds the sandbox of a path or query, including a removed one that has events of this key.
 * ret_alive: more events may follow.
 */
int bus_find_sandbox(struct service *service, const struct key *key, struct str id,
		     char ret[SANDBOX_ID_LEN + 1], bool *ret_alive, struct err *err) _must_check_;

#endif
