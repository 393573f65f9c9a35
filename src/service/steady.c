/* SPDX-License-Identifier: Apache-2.0 */
#include "service/steady_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/account/usage_internal.h"
#include "service/service_internal.h"

#define NAME "steady_clock"
#define SET_MS 1000 /* less is rounding, and the adjustment of a clock that is not set */
#define SAVE_TICKS 600
#define OFF_MAX_MS (24 * 3600 * INT64_C(1000))
/* The longest time for which rows are kept by age, see usage_keep_days. */
#define FORGET_MS (3660 * 24 * 3600 * INT64_C(1000))

/* What the database has: one moment on all clocks. */
struct moment {
	char boot_id[TIME_BOOT_ID_SIZE];
	int64_t boot_ms, wall_ms, steady_ms;
	int64_t low_ms, since_ms; /* of struct steady */
};

static int64_t offset_now_ms(const struct service *service)
{
	return time_real_ms() - steady_now_ms(service);
}

static int put(struct service *service)
{
	const struct steady *steady = &service->upkeep.steady;
	int64_t boot_ms = time_boot_ms(), at_ms = boot_ms + steady->distance_ms;
	char id[TIME_BOOT_ID_SIZE], text[STEADY_TEXT_SIZE];

	time_boot_id(id);
	(void)snprintf(text, sizeof(text),
		       "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		       id[0] ? id : "-", boot_ms, at_ms + steady->offset_ms, at_ms, steady->low_ms,
		       steady->since_ms);
	return store_meta_put(service->store, NAME, text);
}

void steady_save(struct service *service)
{
	if (service->store && service->upkeep.steady.opened && put(service) < 0)
		log_debug("the clocks could not be recorded");
}

static void begin(struct steady *steady)
{
	steady->distance_ms = time_real_ms() - time_boot_ms();
	steady->offset_ms = steady->low_ms = 0;
	steady->since_ms = time_real_ms();
}

static void go_on(struct service *service, const struct moment *last)
{
	struct steady *steady = &service->upkeep.steady;
	int64_t boot_ms = time_boot_ms(), off_ms = time_real_ms() - last->wall_ms;
	char id[TIME_BOOT_ID_SIZE];

	time_boot_id(id);
	if (id[0] && strcmp(id, last->boot_id) == 0 && boot_ms >= last->boot_ms)
		steady->distance_ms = last->steady_ms - last->boot_ms;
	else
		steady->distance_ms = last->steady_ms + MIN(MAX(off_ms, 0), OFF_MAX_MS) - boot_ms;
	steady->offset_ms = last->wall_ms - last->steady_ms;
	steady->low_ms = last->low_ms;
	steady->since_ms = last->since_ms;
	memcpy(steady->last_boot_id, last->boot_id, sizeof(steady->last_boot_id));
	steady->last_boot_ms = last->boot_ms;
	steady->set_before_ms = offset_now_ms(service) - steady->offset_ms;
	if (llabs(steady->set_before_ms) < SET_MS)
		steady->set_before_ms = 0;
}

int steady_open(struct service *service, struct err *err)
{
	struct steady *steady = &service->upkeep.steady;
	char text[STEADY_TEXT_SIZE];
	struct moment last;
	int r = store_meta_get(service->store, NAME, text, sizeof(text));

	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the clocks");
	if (r > 0 && sscanf(text, "%39s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
			    last.boot_id, &last.boot_ms, &last.wall_ms, &last.steady_ms,
			    &last.low_ms, &last.since_ms) == 6)
		go_on(service, &last);
	else
		begin(steady);
	steady->opened = true;
	steady_look(service);
	r = put(service);
	if (r < 0 && r != -ENOSPC) /* a daemon starts on a full disk, too */
		return err_set_errno(err, ERR_INTERNAL, r, "cannot record the clocks");
	return 0;
}

int64_t steady_now_ms(const struct service *service)
{
	return time_boot_ms() + service->upkeep.steady.distance_ms;
}

int64_t steady_wall_ms(const struct service *service, int64_t at_ms)
{
	int64_t offset_ms = offset_now_ms(service), seen_ms = service->upkeep.steady.offset_ms;

	if (!at_ms)
		return 0;
	/* One point in time has one name, unless the clock was set. */
	return at_ms + (llabs(offset_ms - seen_ms) < SET_MS ? seen_ms : offset_ms);
}

int64_t steady_cutoff_ms(const struct service *service, int64_t keep_ms)
{
	const struct steady *steady = &service->upkeep.steady;
	int64_t now_ms = steady_now_ms(service);
	bool held = now_ms - steady->since_ms >= keep_ms;

	return now_ms + (held ? steady->offset_ms : MIN(steady->low_ms, steady->offset_ms)) -
	       keep_ms;
}

int64_t steady_set_before_ms(const struct service *service)
{
	return service->upkeep.steady.set_before_ms;
}

bool steady_last_boot(const struct service *service, const char *boot_id, int64_t *ret_ms)
{
	const struct steady *steady = &service->upkeep.steady;

	*ret_ms = steady->last_boot_ms;
	return steady->last_boot_id[0] && strcmp(steady->last_boot_id, boot_id) == 0;
}

void steady_look(struct service *service)
{
	struct steady *steady = &service->upkeep.steady;
	int64_t offset_ms = offset_now_ms(service), set_ms = offset_ms - steady->offset_ms;
	int64_t now_ms = steady_now_ms(service);

	if (llabs(set_ms) < SET_MS)
		return;
	log_warn("the wall clock was set %s by %lld s; time limits and usage do not follow it",
		 set_ms > 0 ? "forward" : "back", llabs(set_ms) / 1000);
	steady->low_ms = now_ms - steady->since_ms > FORGET_MS
				 ? steady->offset_ms
				 : MIN(steady->low_ms, steady->offset_ms);
	steady->since_ms = now_ms;
	steady->offset_ms = offset_ms;
	usage_clock_set(service);
	steady_save(service);
}

void steady_tick(struct service *service)
{
	steady_look(service);
	if (service->upkeep.ticks % SAVE_TICKS == 0)
		steady_save(service);
}
