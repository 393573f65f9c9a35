/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes events to the store and deletes old ones. Pending events are written by the next commit,
 * whatever its purpose. A change and its event are therefore in one transaction if the event is
 * emitted before the commit. Events without a change in the store are written by a timer.
 *
 * Ids are reserved durably in blocks, so that no id is used twice even after a crash. A clean
 * shutdown returns the rest of the block; a crash leaves a gap in the ids. A block is reserved
 * before it is needed, because a transaction that has begun cannot be made durable.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/event/bus.h"
#include "service/event/bus_private.h"
#include "service/event/event_internal.h"
#include "service/account/auth_internal.h"
#include "service/account/usage_internal.h"
#include "service/event/event_private.h"

#define FLUSH_DELAY_MS 20
#define FLUSH_RETRY_MS 1000
#define FLUSH_AT 512  /* this many pending events are written without waiting for the timer */
#define NEWS_MAX 4096 /* if the store cannot be written, the oldest is dropped and counted */
#define IDS_BLOCK 10000
#define IDS_AHEAD 5000 /* more events than can occur before the timer fires */
#define IDS_NAME "event_ids"

static int bus_before_commit(void *arg);
static void bus_after_commit(void *arg);

static void on_flush(void *arg)
{
	struct bus *bus = arg;

	bus->flush_armed = false;
	bus_flush(bus->service);
}

static int load(struct bus *bus)
{
	struct store *store = bus->service->store;
	char text[24] = "";
	uint64_t reserved = 0;
	int64_t first = 0, last = 0;
	int r = store_event_range(store, &first, &last, &bus->count);

	if (r < 0)
		return r;
	r = store_meta_get(store, IDS_NAME, text, sizeof(text));
	if (r < 0)
		return r;
	if (r > 0 && str_to_u64(str_of(text), INT64_MAX / 2, &reserved) < 0)
		return -EUCLEAN;
	bus->last_id = bus->reserved_id = bus->stored_id = MAX(last, (int64_t)reserved);
	bus->told_id = bus->stored_id;
	bus->trimmed_id = first ? first - 1 : bus->stored_id;
	return store_event_trimmed(store, NULL, &bus->share_trimmed_id);
}

int bus_open(struct service *service, struct err *err)
{
	struct bus *bus = calloc(1, sizeof(*bus));
	int r;

	if (!bus)
		return err_set(err, ERR_INTERNAL, "out of memory");
	service->events->bus = bus;
	bus->service = service;
	buf_init(&bus->scratch, 16384);
	r = load(bus);
	if (r == 0)
		r = loop_timer_new(service->config.loop, on_flush, bus, &bus->flush);
	if (r == 0)
		r = loop_timer_new(service->config.loop, bus_on_pump, bus, &bus->pump);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the events");
	store_set_hooks(service->store,
			&(struct store_hooks){ bus_before_commit, bus_after_commit, bus });
	bus_flush(service); /* reserves the first block */
	return 0;
}

static void arm(struct bus *bus, int64_t delay_ms)
{
	if (bus->flush_armed)
		return;
	bus->flush_armed = true;
	loop_timer_set(bus->flush, delay_ms, 0);
}

void bus_flush_soon(struct service *service)
{
	if (service->events->bus)
		arm(service->events->bus, FLUSH_DELAY_MS);
}

static struct bus_news *take_first(struct bus *bus)
{
	struct bus_news *news = bus->first;

	bus->first = news->next;
	if (!bus->first)
		bus->last = NULL;
	bus->news_count--;
	return news;
}

static char *put_text(char **at, const char *text)
{
	size_t n = strlen(text) + 1;
	char *to = *at;

	*at += n;
	return memcpy(to, text, n);
}

static struct bus_news *news_new(const struct event *event, const char *tenant)
{
	const char *workspace = event->external_workspace_id;
	size_t n = strlen(event->sandbox_id) + strlen(event->owner) + strlen(tenant) + 3 +
		   (workspace ? strlen(workspace) + 1 : 0);
	struct bus_news *news = malloc(sizeof(*news) + n + event->data.n);
	char *at;

	if (!news)
		return NULL;
	at = news->bytes;
	*news = (struct bus_news){ .event = { .ms = time_real_ms(), .type = event->type } };
	news->event.sandbox_id = put_text(&at, event->sandbox_id);
	news->event.owner = put_text(&at, event->owner);
	news->tenant = put_text(&at, tenant);
	if (workspace)
		news->event.external_workspace_id = put_text(&at, workspace);
	memcpy(at, event->data.p, event->data.n);
	news->event.data = (struct str){ at, event->data.n };
	return news;
}

void bus_emit(struct service *service, const struct event *event)
{
	struct bus *bus = service->events->bus;
	struct bus_news *news = bus ? news_new(event, key_tenant(service, event->owner)) : NULL;

	if (!news) {
		log_warn("sandbox %s: the event %s is lost", event->sandbox_id, event->type);
		return;
	}
	if (bus->news_count >= NEWS_MAX && !bus->first->written) {
		struct bus_news *oldest = take_first(bus);

		bus_missed(bus, &oldest->event);
		free(oldest);
	}
	news->event.id = ++bus->last_id;
	if (bus->last)
		bus->last->next = news;
	else
		bus->first = news;
	bus->last = news;
	bus->news_count++;
	if (bus->news_count == FLUSH_AT && !bus->failing) {
		bus->flush_armed = false;
		arm(bus, 0);
	} else {
		arm(bus, bus->failing ? FLUSH_RETRY_MS : FLUSH_DELAY_MS);
	}
}

/* ---- to the store ---- */

static int put_reserved(struct bus *bus, int64_t id)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)id);
	return store_meta_put(bus->service->store, IDS_NAME, text);
}

/* Called by the store's hook, inside the transaction of any module. */
static int bus_before_commit(void *arg)
{
	struct bus *bus = arg;
	struct store *store = bus->service->store;
	int r = 0;

	if (bus->last_id > MAX(bus->reserved_id, bus->reserving_id))
		return 0; /* no ids are reserved: the timer does that first */
	for (const struct bus_news *at = bus->first; r == 0 && at; at = at->next) {
		const struct event *event = &at->event;
		struct store_event row = { .id = event->id,
					   .ms = event->ms,
					   .type = event->type,
					   .sandbox_id = event->sandbox_id,
					   .owner = event->owner,
					   .external_workspace_id = event->external_workspace_id,
					   .tenant = at->tenant,
					   .data = event->data };

		if (!at->written)
			r = store_event_put(store, &row);
	}
	return r;
}

static void bus_after_commit(void *arg)
{
	struct bus *bus = arg;

	if (bus->last_id > MAX(bus->reserved_id, bus->reserving_id))
		return;
	for (struct bus_news *at = bus->first; at; at = at->next) {
		bus->count += !at->written;
		at->written = true;
		bus->stored_id = at->event.id;
	}
}

/* Reserves ids if needed. The commit hook writes the events. */
static int write_all(struct bus *bus, int64_t reserved)
{
	struct store *store = bus->service->store;
	/* The reservation must survive a power failure; the events need not. */
	int r = reserved > bus->reserved_id ? store_begin_durable(store) : store_begin(store);

	if (r < 0)
		return r;
	bus->reserving_id = reserved;
	if (reserved > bus->reserved_id)
		r = put_reserved(bus, reserved);
	if (r == 0)
		r = usage_put_all(bus->service);
	r = store_end(store, r);
	bus->reserving_id = 0;
	if (r == 0)
		bus->reserved_id = reserved;
	return r;
}

/* Published events are unlinked first: a reader may cause new ones. */
static void tell_written(struct bus *bus)
{
	struct bus_news *news = bus->first, *last = NULL, *next;
	int64_t before = bus->told_id;

	while (bus->first && bus->first->written)
		last = take_first(bus);
	if (!last)
		return;
	last->next = NULL;
	bus->told_id = last->event.id;
	bus_tell(bus, news, before);
	for (; news; news = next) {
		next = news->next;
		free(news);
	}
	bus_trim_count(bus);
}

void bus_flush(struct service *service)
{
	struct bus *bus = service->events->bus;
	int64_t reserved;
	int r = 0;

	if (!bus)
		return;
	reserved = bus->reserved_id;
	while (reserved < bus->last_id + IDS_AHEAD)
		reserved += IDS_BLOCK;
	if ((bus->last && !bus->last->written) || usage_pending(service) ||
	    reserved > bus->reserved_id)
		r = write_all(bus, reserved);
	service_wrote(service);
	if (r < 0) {
		if (!bus->failing)
			log_error("events cannot be written, will retry: %s", strerror(-r));
		bus->failing = true;
		arm(bus, FLUSH_RETRY_MS);
	} else {
		bus->failing = false;
		usage_clear(service);
	}
	tell_written(bus);
}

void bus_done(struct service *service)
{
	struct bus *bus = service->events->bus;

	if (!bus)
		return;
	bus_readers_done(bus);
	bus_flush(service);
	usage_clear(service);
	store_set_hooks(service->store, NULL);
	if (!bus->first && bus->reserved_id > bus->last_id && put_reserved(bus, bus->last_id) < 0)
		log_debug("reserved event ids could not be returned: the ids have a gap");
	while (bus->first)
		free(take_first(bus));
	loop_timer_free(bus->flush);
	loop_timer_free(bus->pump);
	buf_done(&bus->scratch);
	free(bus);
	service->events->bus = NULL;
}
