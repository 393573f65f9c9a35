/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of events. A reader that has caught up is served from memory; others read from the store.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/event/bus_private.h"
#include "service/event/event_internal.h"
#include "service/event/event_private.h"

#define BATCH 128      /* rows per query */
#define BUDGET_US 1000 /* per iteration of the loop, for all readers that are behind */

const char *const event_names[] = {
#define X(sym, name) name,
	EVENT_TABLE(X)
#undef X
		NULL
};

static bool is_or_starts(const char *name, struct str text)
{
	size_t n = strlen(name);

	if (str_is(text, name))
		return true;
	return text.n < n && name[text.n] == '.' && memcmp(name, text.p, text.n) == 0;
}

int bus_types_parse(struct str text, uint32_t *ret, struct err *err)
{
	uint32_t types = 0;
	bool more = true;

	while (more) {
		struct str word = text;
		uint32_t found = 0;

		more = str_cut(text, ',', &word, &text);
		if (!more)
			word = text;
		for (int i = 0; i < EVENT_COUNT; i++)
			if (word.n && is_or_starts(event_names[i], word))
				found |= 1u << i;
		if (!found)
			return err_set(err, ERR_INVALID_REQUEST,
				       "type: unknown event '%.*s'; use sandbox, process, "
				       "snapshot, webhook, or one event of these such as "
				       "sandbox.error",
				       (int)MIN(word.n, 64), word.p);
		types |= found;
	}
	*ret = types;
	return 0;
}

static bool type_matches(uint32_t types, const char *type)
{
	if (types == EVENT_ALL)
		return true;
	for (int i = 0; i < EVENT_COUNT; i++)
		if (strcmp(event_names[i], type) == 0)
			return (types >> i & 1) != 0;
	return false;
}

static bool matches(const struct bus_filter *filter, const struct event *event)
{
	const char *workspace = event->external_workspace_id ? event->external_workspace_id : "";

	return (!filter->owner[0] || strcmp(filter->owner, event->owner) == 0) &&
	       (!filter->sandbox_id[0] || strcmp(filter->sandbox_id, event->sandbox_id) == 0) &&
	       (!filter->external_workspace_id[0] ||
		strcmp(filter->external_workspace_id, workspace) == 0) &&
	       type_matches(filter->types, event->type);
}

static void note(struct bus_reader *reader, enum bus_answer answer)
{
	if (answer == BUS_WAIT)
		reader->waiting = true;
	if (answer == BUS_END)
		reader->ended = reader->more = true;
}

static bool may_tell(const struct bus_reader *reader)
{
	return !reader->waiting && !reader->ended;
}

static void tell_gap(struct bus_reader *reader)
{
	struct bus_gap gap = reader->gap;

	if (!gap.events || !may_tell(reader))
		return;
	reader->gap = (struct bus_gap){ .events = 0 };
	note(reader, reader->hooks.on_gap(reader->arg, &gap));
}

static void tell(struct bus_reader *reader, const struct event *event)
{
	reader->cursor = event->id;
	if (matches(&reader->filter, event))
		note(reader, reader->hooks.on_event(reader->arg, event));
}

static void reader_free(struct bus_reader *reader)
{
	struct bus *bus = reader->bus;

	if (reader->prev)
		reader->prev->next = reader->next;
	else
		bus->readers = reader->next;
	if (reader->next)
		reader->next->prev = reader->prev;
	free(reader);
}

static void end(struct bus_reader *reader)
{
	struct bus_hooks hooks = reader->hooks;
	void *arg = reader->arg;
	bool more = reader->more;

	reader_free(reader);
	hooks.on_end(arg, more);
}

/* ---- readers that have caught up ---- */

void bus_tell(struct bus *bus, const struct bus_news *news, int64_t before)
{
	bool pump = false;

	for (struct bus_reader *reader = bus->readers; reader; reader = reader->next) {
		if (reader->cursor < before || !may_tell(reader) || !reader->live) {
			pump = true;
			continue;
		}
		tell_gap(reader);
		for (const struct bus_news *at = news; at && may_tell(reader); at = at->next)
			if (at->event.id >
			    reader->cursor) /* otherwise it has read it from the store */
				tell(reader, &at->event);
		if (may_tell(reader))
			reader->cursor = MAX(reader->cursor, bus->told_id);
		else
			pump = true;
	}
	if (pump)
		loop_timer_set(bus->pump, 0, 0);
}

void bus_missed(struct bus *bus, const struct event *event)
{
	for (struct bus_reader *reader = bus->readers; reader; reader = reader->next) {
		if (!matches(&reader->filter, event))
			continue;
		reader->gap.exact = reader->gap.events == 0 || reader->gap.exact;
		reader->gap.events++;
		reader->gap.last = event->id;
	}
}

/* ---- readers that are behind ---- */

struct batch {
	struct bus_reader *reader;
	int64_t upto;	    /* counting only, as is tenant */
	const char *tenant; /* NULL: all */
	int64_t rows;
};

static struct event from_row(const struct store_event *row)
{
	return (struct event){ .id = row->id,
			       .ms = row->ms,
			       .type = row->type,
			       .sandbox_id = row->sandbox_id,
			       .owner = row->owner,
			       .external_workspace_id = row->external_workspace_id,
			       .data = row->data };
}

static int on_row(void *arg, const struct store_event *row)
{
	struct batch *batch = arg;
	struct event event = from_row(row);

	tell(batch->reader, &event);
	batch->rows++;
	return may_tell(batch->reader) ? 0 : 1;
}

static void read_on(struct bus_reader *reader)
{
	struct bus *bus = reader->bus;
	struct batch batch = { .reader = reader };
	int r;

	tell_gap(reader);
	if (!may_tell(reader))
		return;
	r = store_event_each(bus->service->store, reader->cursor, BATCH, on_row, &batch);
	if (r < 0) {
		log_warn("events cannot be read: %s", strerror(-r));
		reader->ended = reader->more = true; /* the client may ask again */
	} else if (r == 0 && batch.rows < BATCH) {
		reader->cursor = bus->stored_id;
		reader->ended = !reader->live;
	}
}

static bool has_work(const struct bus_reader *reader)
{
	return may_tell(reader) &&
	       (reader->cursor < reader->bus->stored_id || reader->gap.events || !reader->live);
}

void bus_on_pump(void *arg)
{
	struct bus *bus = arg;
	int64_t until_us = time_mono_us() + BUDGET_US;
	struct bus_reader *next;
	bool left = false;

	for (struct bus_reader *reader = bus->readers; reader; reader = next) {
		next = reader->next;
		while (has_work(reader) && time_mono_us() < until_us)
			read_on(reader);
		left = left || has_work(reader);
		if (reader->ended)
			end(reader);
	}
	if (left)
		loop_timer_set(bus->pump, 1, 0);
}

static int on_trimmed(void *arg, const struct store_event *row)
{
	struct batch *batch = arg;
	struct bus_reader *reader = batch->reader;
	struct event event = from_row(row);

	if (row->id > batch->upto)
		return 1;
	if (batch->tenant && strcmp(batch->tenant, row->tenant) != 0)
		return 0;
	if (matches(&reader->filter, &event)) {
		reader->gap.exact = reader->gap.events == 0 || reader->gap.exact;
		reader->gap.events++;
	}
	return 0;
}

/*
 * Rows up to this id, of one tenant or of all, are about to be deleted. A reader of all tenants
 * does not skip what the others have there, so its position stays.
 */
void bus_trim_readers(struct bus *bus, const char *tenant, int64_t upto)
{
	for (struct bus_reader *reader = bus->readers; reader; reader = reader->next) {
		struct batch batch = { .reader = reader, .upto = upto, .tenant = tenant };
		bool of_all = !reader->filter.owner[0];

		if (reader->cursor >= upto || reader->ended ||
		    (tenant && !of_all && strcmp(reader->tenant, tenant) != 0))
			continue;
		if (store_event_each(bus->service->store, reader->cursor, INT64_MAX, on_trimmed,
				     &batch) < 0)
			log_warn("missed events cannot be counted");
		if (!tenant || !of_all)
			reader->cursor = upto;
		reader->gap.last = MAX(reader->gap.last, reader->cursor);
	}
}

/* ---- open and close ---- */

/* A reader that continues where events have been deleted since: how many at most, and from where.
 */
static void note_trimmed(struct bus_reader *reader, int64_t after)
{
	struct bus *bus = reader->bus;
	bool of_all = !reader->filter.owner[0];
	int64_t lost = bus->share_trimmed_id;

	if (after <= 0)
		return;
	if (!of_all && store_event_trimmed(bus->service->store, reader->tenant, &lost) < 0)
		log_warn("missed events cannot be counted");
	reader->cursor = MAX(after, of_all ? bus->trimmed_id : MAX(bus->trimmed_id, lost));
	lost = MAX(lost, bus->trimmed_id);
	if (after < lost)
		reader->gap = (struct bus_gap){ .events = lost - after, .last = reader->cursor };
}

int bus_read(struct service *service, const struct bus_ask *ask, const struct bus_hooks *hooks,
	     void *arg, struct bus_reader **ret, struct err *err)
{
	struct bus *bus = service->events->bus;
	struct bus_reader *reader;

	bus_flush(service); /* events before this call count as existing ones */
	if (ask->after > bus->stored_id)
		return err_set(err, ERR_INVALID_REQUEST,
			       "after must not be beyond %lld, the id of the last event",
			       (long long)bus->stored_id);
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	reader->bus = bus;
	reader->filter = *ask->filter;
	if (reader->filter.owner[0])
		(void)!str_copy(reader->tenant, sizeof(reader->tenant),
				str_of(key_tenant(service, reader->filter.owner)));
	reader->hooks = *hooks;
	reader->arg = arg;
	reader->live = ask->live;
	reader->cursor = ask->after == BUS_NOW ? bus->stored_id : ask->after;
	note_trimmed(reader, ask->after);
	reader->next = bus->readers;
	if (reader->next)
		reader->next->prev = reader;
	bus->readers = reader;
	loop_timer_set(bus->pump, 0, 0);
	*ret = reader;
	return 0;
}

void bus_reader_go_on(struct bus_reader *reader)
{
	reader->waiting = false;
	loop_timer_set(reader->bus->pump, 0, 0);
}

int64_t bus_reader_at(const struct bus_reader *reader)
{
	return reader->cursor;
}

int64_t bus_newest(const struct service *service)
{
	return service->events->bus->stored_id;
}

void bus_reader_close(struct bus_reader *reader)
{
	reader_free(reader);
}

/* The service closes. Faces have dropped their pointers to readers. */
void bus_readers_done(struct bus *bus)
{
	while (bus->readers)
		reader_free(bus->readers);
}

int bus_find_sandbox(struct service *service, const struct key *key, struct str id,
		     char ret[SANDBOX_ID_LEN + 1], bool *ret_alive, struct err *err)
{
	const struct sandbox *sandbox = sandbox_find(service, key, id, err);
	char text[SANDBOX_ID_LEN + 1];

	if (sandbox) {
		memcpy(ret, sandbox->id, sizeof(sandbox->id));
		*ret_alive = true;
		return 0;
	}
	bus_flush(service);
	if (str_copy(text, sizeof(text), id) < 0 ||
	    store_event_of(service->store, text, key_is_admin(key) ? NULL : key->id) <= 0)
		return -1;
	memcpy(ret, text, sizeof(text));
	*ret_alive = false;
	return 0;
}
