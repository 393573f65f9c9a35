/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which events are kept: at most events_keep of the host, for events_keep_days. When there are too
 * many, the tenants with the most events lose their oldest ones, until all of them have the same
 * number. A tenant with less than its share (events_keep divided by the number of tenants)
 * therefore loses none, whatever the others do.
 */
#include <errno.h>

#include "base/log.h"
#include "service/account/auth_internal.h"
#include "service/event/bus_private.h"
#include "service/event/event_private.h"
#include "service/steady_internal.h"

#define TRIM_BATCH 1000 /* per tick, of those that are too old */
#define TRIM_TICKS 60

struct share {
	char tenant[AUTH_KEY_ID_SIZE];
	int64_t count;
};

/* At most one per event, so events_keep and a sixteenth more. */
struct shares {
	struct share *list;
	size_t count, room;
};

static int on_share(void *arg, const char *tenant, int64_t count)
{
	struct shares *shares = arg;
	struct share *list = shares->list;

	if (shares->count == shares->room) {
		shares->room = shares->room ? 2 * shares->room : 64;
		list = reallocarray(list, shares->room, sizeof(*list));
		if (!list)
			return -ENOMEM;
		shares->list = list;
	}
	list[shares->count] = (struct share){ .count = count };
	if (str_copy(list[shares->count].tenant, sizeof(list->tenant), str_of(tenant)) < 0)
		return -EUCLEAN;
	shares->count++;
	return 0;
}

static int64_t kept_at(const struct shares *shares, int64_t level)
{
	int64_t kept = 0;

	for (size_t i = 0; i < shares->count; i++)
		kept += MIN(shares->list[i].count, level);
	return kept;
}

/* The highest number of events that each tenant may keep so that all together keep at most this. */
static int64_t fair_level(const struct shares *shares, int64_t keep)
{
	int64_t low = 0, high = keep;

	while (low < high) {
		int64_t middle = (low + high + 1) / 2;

		if (kept_at(shares, middle) <= keep)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static int trim_tenant(struct bus *bus, const struct share *share, int64_t over)
{
	struct store *store = bus->service->store;
	int64_t upto = 0;
	int r = store_event_nth(store, share->tenant, over, &upto);

	if (r < 0 || !upto)
		return r;
	bus_trim_readers(bus, share->tenant, upto);
	r = store_event_trim(store, share->tenant, upto);
	if (r == 0)
		bus->share_trimmed_id = MAX(bus->share_trimmed_id, upto);
	return r;
}

static int trim_shares(struct bus *bus, const struct shares *shares)
{
	int64_t keep = bus->service->config.events_keep, level = fair_level(shares, keep);
	int64_t rest = keep - kept_at(shares, level); /* less than one for each */
	struct store *store = bus->service->store;
	int r = store_begin(store);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < shares->count; i++) {
		int64_t over = shares->list[i].count - level;

		if (over > 0 && rest > 0) {
			rest--;
			over--;
		}
		if (over > 0)
			r = trim_tenant(bus, &shares->list[i], over);
	}
	return store_end(store, r);
}

static void count_again(struct bus *bus)
{
	int64_t first = 0, last = 0;

	if (store_event_range(bus->service->store, &first, &last, &bus->count) < 0)
		log_warn("the stored events cannot be counted");
}

void bus_trim_count(struct bus *bus)
{
	int64_t keep = bus->service->config.events_keep;
	struct shares shares = { .list = NULL };
	int r;

	if (bus->count - keep <= keep / 16) /* some at a time */
		return;
	r = store_event_shares(bus->service->store, on_share, &shares);
	if (r == 0)
		r = trim_shares(bus, &shares);
	if (r < 0)
		log_warn("old events stay: %s", strerror(-r));
	free(shares.list);
	count_again(bus);
}

void bus_tick(struct service *service)
{
	struct bus *bus = service->events->bus;
	int64_t before_ms =
		steady_cutoff_ms(service, (int64_t)service->config.events_keep_days * STORE_DAY_MS);
	int64_t upto = 0;

	if (service->upkeep.ticks % TRIM_TICKS != 1 || !bus->count)
		return;
	if (store_event_older(service->store, before_ms, TRIM_BATCH, &upto) < 0 || !upto)
		return;
	bus_trim_readers(bus, NULL, upto);
	if (store_event_trim(service->store, NULL, upto) < 0) {
		log_warn("old events stay");
		return;
	}
	bus->trimmed_id = MAX(bus->trimmed_id, upto);
	count_again(bus);
}
