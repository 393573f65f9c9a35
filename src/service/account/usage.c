/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of usage. Each begins and ends with a change of state, is written together with the row
 * that changes (and with the events of that change, bus.c), and is measured on the boot clock. An
 * interval that a crashed daemon left open continues if its sandbox still exists; otherwise it ends
 * at the time when the sandbox was last known to be alive.
 */
#include "service/account/usage.h"

#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/account/usage_internal.h"
#include "service/account/account_private.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/steady_internal.h"

#define ROWS_MAX 16384 /* if the store cannot be written, the oldest is dropped and logged */
#define ALIVE_TICKS 10
#define EXPIRE_TICKS 3600
#define MEASURE_TICKS 10
#define ROLL_ROWS 500 /* per tick */
#define ROLLED_NAME "usage_rolled_ms"
#define MEASURE_MS 90000 /* after a pause, during which the disk size is measured again */

/* One interval that is not yet in the store. It contains its texts. */
struct usage_row {
	struct usage_row *next;
	/* Written with its sandbox's row: the number of rollbacks at that time plus one; 0: not
	 * yet. */
	uint64_t stored;
	struct store_usage usage;
	char sandbox_id[SANDBOX_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	char workspace[];
};

static enum store_usage_kind kind_of(const struct sandbox *sandbox)
{
	if (sandbox->pooled || !sandbox->attrs.owner[0])
		return 0;
	if (sandbox_up(sandbox) || sandbox->phase == PHASE_INITIALIZING)
		return STORE_USAGE_RUNNING;
	return sandbox_state(sandbox) == SANDBOX_PAUSED ? STORE_USAGE_PAUSED : 0;
}

/* ---- to the store ---- */

static void queue(const struct sandbox *sandbox, int64_t to_ms)
{
	struct service *service = sandbox->service;
	const struct sandbox_attrs *attrs = &sandbox->attrs;
	const char *workspace = attrs->external_workspace_id ? attrs->external_workspace_id : "";
	size_t n = strlen(workspace) + 1;
	struct usage_row *row = malloc(sizeof(*row) + n);

	if (!row) {
		log_error("sandbox %s: usage is lost: out of memory", sandbox->id);
		return;
	}
	*row = (struct usage_row){ .usage = { .kind = sandbox->metered,
					      .from_ms = sandbox->metered_ms,
					      .to_ms = to_ms,
					      .cpu_milli = attrs->cpu_milli,
					      .memory_mb = attrs->memory_mb,
					      .disk_bytes = sandbox->metered_disk_bytes } };
	memcpy(row->sandbox_id, sandbox->id, sizeof(row->sandbox_id));
	memcpy(row->owner, attrs->owner, sizeof(row->owner));
	memcpy(row->workspace, workspace, n);
	row->usage.sandbox_id = row->sandbox_id;
	row->usage.owner = row->owner;
	row->usage.external_workspace_id = row->workspace[0] ? row->workspace : NULL;
	if (service->accounts->usage_count >= ROWS_MAX) {
		struct usage_row *oldest = service->accounts->usage_first;

		log_error("sandbox %s: usage is lost: the store cannot be written",
			  oldest->sandbox_id);
		service->accounts->usage_first = oldest->next;
		service->accounts->usage_count--;
		free(oldest);
	}
	if (service->accounts->usage_first)
		service->accounts->usage_last->next = row;
	else
		service->accounts->usage_first = row;
	service->accounts->usage_last = row;
	service->accounts->usage_count++;
	bus_flush_soon(service);
}

/*
 * If a row has to be written again, all later rows are, too, in order: the end of an interval
 * replaces its beginning, never the other way round.
 */
static int put_rows(struct service *service, const char *sandbox_id)
{
	uint64_t now = store_rollbacks(service->store) + 1;
	bool behind = false;
	int r = 0;

	for (struct usage_row *at = service->accounts->usage_first; r == 0 && at; at = at->next) {
		if (sandbox_id && strcmp(at->sandbox_id, sandbox_id) != 0)
			continue;
		behind |= at->stored != now;
		if (!behind)
			continue;
		r = store_usage_put(service->store, &at->usage);
		if (r == 0)
			at->stored = now;
	}
	return r;
}

int usage_put_all(struct service *service)
{
	return put_rows(service, NULL);
}

/* Runs in the transaction that writes the sandbox's row, so that a crash leaves both or neither. */
int usage_put_of(const struct sandbox *sandbox)
{
	return put_rows(sandbox->service, sandbox->id);
}

void usage_clear(struct service *service)
{
	while (service->accounts->usage_first) {
		struct usage_row *row = service->accounts->usage_first;

		service->accounts->usage_first = row->next;
		free(row);
	}
	service->accounts->usage_last = NULL;
	service->accounts->usage_count = 0;
}

/* ---- changes ---- */

static void on_paused_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);
	int64_t before;

	if (!sandbox || sandbox->metered != STORE_USAGE_PAUSED)
		return;
	before = sandbox->metered_disk_bytes;
	/* After a reboot of the host: the snapshot was not measured when it was taken. */
	if (sandbox->from && !sandbox->from->size_bytes && !err && stat->disk_bytes) {
		sandbox->from->size_bytes = stat->disk_bytes;
		if (snapshot_save(sandbox->from) < 0)
			log_warn("snapshot %s: its size could not be recorded", sandbox->from->id);
	}
	if (sandbox->from) /* hibernated: the snapshot is all that it consists of */
		sandbox->metered_disk_bytes = (int64_t)sandbox->from->size_bytes;
	else if (!err)
		sandbox->metered_disk_bytes = (int64_t)stat->disk_bytes;
	if (sandbox->metered_disk_bytes != before)
		queue(sandbox, 0);
}

/* A paused sandbox is charged for the size of its files, and for nothing until that is known. */
static void measure(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct op *op =
		engine->instance.ready ? op_new(sandbox->service, sandbox->handle, &err) : NULL;

	if (op && instance_stat(&engine->instance, sandbox->id, on_paused_stat, op, &err) < 0)
		(void)op_end(op);
}

/* The file system counts recent writes only after write-back. A paused sandbox writes nothing, so
 * the later measurement is valid for the whole interval. */
static void measure_again(struct service *service)
{
	int64_t now_ms = time_boot_ms();
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while ((sandbox = sandbox_next(service, &cursor)))
		if (sandbox->metered == STORE_USAGE_PAUSED && !sandbox->from &&
		    now_ms - sandbox->metered_boot_ms < MEASURE_MS)
			measure(sandbox);
}

/* The wall-clock end of an interval that ends now, independent of changes to the clock meanwhile.
 */
static int64_t end_ms(const struct sandbox *sandbox)
{
	int64_t now_ms = sandbox->metered_ms + time_boot_ms() - sandbox->metered_boot_ms;

	if (sandbox_state(sandbox) == SANDBOX_ERROR && sandbox->proven_ms)
		now_ms = MIN(now_ms, sandbox->proven_ms); /* it was dead when the daemon started */
	else if (sandbox->reason == REASON_ENGINE_LOST)
		now_ms = MIN(now_ms, reboot_alive_ms(sandbox->service));
	return MAX(now_ms, sandbox->metered_ms);
}

void usage_changed(struct sandbox *sandbox)
{
	enum store_usage_kind kind = kind_of(sandbox);

	if (kind == (enum store_usage_kind)sandbox->metered)
		return;
	if (sandbox->metered) {
		queue(sandbox, end_ms(sandbox));
		sandbox->service->accounts->metered_count--;
	}
	sandbox->metered = (uint8_t)kind;
	if (!kind)
		return;
	sandbox->service->accounts->metered_count++;
	sandbox->metered_ms = time_real_ms();
	sandbox->metered_boot_ms = time_boot_ms();
	queue(sandbox, 0);
	if (kind == STORE_USAGE_PAUSED)
		measure(sandbox);
	else
		sandbox->metered_disk_bytes = 0;
}

/*
 * Intervals carry the wall clock. One that is open when that clock is set ends after the time that
 * has passed, and another begins.
 */
void usage_clock_set(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while ((sandbox = sandbox_next(service, &cursor))) {
		if (!sandbox->metered)
			continue;
		queue(sandbox, end_ms(sandbox));
		sandbox->metered_ms = time_real_ms();
		sandbox->metered_boot_ms = time_boot_ms();
		queue(sandbox, 0);
	}
}

/* ---- after a start ---- */

static void go_on(struct sandbox *sandbox, enum store_usage_kind kind, int64_t from_ms)
{
	sandbox->metered = (uint8_t)kind;
	sandbox->metered_ms = from_ms;
	sandbox->metered_boot_ms =
		time_boot_ms() -
		MAX(time_real_ms() - steady_set_before_ms(sandbox->service) - from_ms, 0);
	sandbox->proven_ms = MAX(reboot_alive_ms(sandbox->service), 1);
	sandbox->service->accounts->metered_count++;
}

static int on_open(void *arg, const struct store_usage *usage)
{
	struct service *service = arg;
	struct sandbox *sandbox = sandbox_by_id(service, str_of(usage->sandbox_id));

	if (reboot_happened(service))
		return 0; /* no sandbox ran while the host was off */
	if (sandbox && !sandbox->metered && kind_of(sandbox) == usage->kind) {
		sandbox->metered_disk_bytes = usage->disk_bytes;
		go_on(sandbox, usage->kind, usage->from_ms);
	}
	return 0;
}

struct stale {
	struct service *service;
	char id[SANDBOX_ID_LEN + 1];
};

static int on_stale(void *arg, const struct store_usage *usage)
{
	struct stale *stale = arg;
	struct sandbox *sandbox = sandbox_by_id(stale->service, str_of(usage->sandbox_id));

	if (sandbox && sandbox->metered == usage->kind && sandbox->metered_ms == usage->from_ms)
		return 0;
	return str_copy(stale->id, sizeof(stale->id), str_of(usage->sandbox_id)) < 0 ? 0 : 1;
}

/* Closes intervals of sandboxes that ended or changed state just before the daemon died. */
static int close_stale(struct service *service)
{
	struct stale stale = { .service = service };
	int r;

	while ((r = store_usage_each_open(service->store, on_stale, &stale)) > 0) {
		r = store_usage_close(service->store, stale.id, reboot_alive_ms(service));
		if (r < 0)
			return r;
	}
	return r;
}

/* Opens an interval for sandboxes that have none in the store yet. */
static int open_missing(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;
	int r = 0;

	while (r == 0 && (sandbox = sandbox_next(service, &cursor))) {
		enum store_usage_kind kind = kind_of(sandbox);
		int64_t last_ms = 0;

		if (!kind || sandbox->metered)
			continue;
		if (!reboot_happened(service)) {
			r = store_usage_last(service->store, sandbox->id, &last_ms);
			go_on(sandbox, kind, MAX(last_ms, sandbox->started_ms));
		} else if (sandbox_is_hibernated(sandbox)) {
			go_on(sandbox, kind, time_real_ms());
			sandbox->metered_disk_bytes =
				sandbox->from ? (int64_t)sandbox->from->size_bytes : 0;
		} else {
			continue; /* it is opened when the state of the sandbox is known */
		}
		queue(sandbox, 0);
	}
	return r;
}

/* ---- days ---- */

/* Intervals older than usage_detail_days are summed up per day, a few per tick. */
static void roll(struct service *service)
{
	int64_t keep_ms = (int64_t)service->config.usage_detail_days * STORE_DAY_MS;
	int64_t until_ms = steady_cutoff_ms(service, keep_ms) / STORE_DAY_MS * STORE_DAY_MS;
	char text[24];
	int r;

	if (until_ms <= service->accounts->usage_rolled_ms && !service->accounts->usage_rolling)
		return;
	until_ms = MAX(until_ms, service->accounts->usage_rolled_ms);
	(void)snprintf(text, sizeof(text), "%lld", (long long)until_ms);
	r = store_begin(service->store);
	if (r == 0)
		r = store_meta_put(service->store, ROLLED_NAME, text);
	if (r == 0)
		r = store_usage_roll(service->store, until_ms, ROLL_ROWS);
	service->accounts->usage_rolling = r == ROLL_ROWS;
	r = store_end(service->store, r);
	service_wrote(service);
	if (r < 0)
		log_warn("usage could not be summed up: %s", strerror(-r));
	else
		service->accounts->usage_rolled_ms = until_ms;
}

static int load_rolled(struct service *service)
{
	char text[24] = "";
	uint64_t rolled_ms = 0;
	int r = store_meta_get(service->store, ROLLED_NAME, text, sizeof(text));

	if (r > 0 && str_to_u64(str_of(text), INT64_MAX, &rolled_ms) == 0)
		service->accounts->usage_rolled_ms = (int64_t)rolled_ms;
	service->accounts->usage_rolling =
		true; /* an earlier daemon may have left intervals to sum up */
	return r < 0 ? r : 0;
}

void usage_align(const struct service *service, struct usage_query *query)
{
	if (query->from_ms < service->accounts->usage_rolled_ms)
		query->from_ms -= query->from_ms % STORE_DAY_MS;
	if (query->to_ms < service->accounts->usage_rolled_ms)
		query->to_ms += (STORE_DAY_MS - query->to_ms % STORE_DAY_MS) % STORE_DAY_MS;
}

int usage_load(struct service *service, struct err *err)
{
	int r = load_rolled(service);

	if (r == 0)
		r = store_usage_each_open(service->store, on_open, service);
	if (r == 0)
		r = close_stale(service);
	if (r == 0)
		r = open_missing(service);
	if (r == 0 && steady_set_before_ms(service))
		usage_clock_set(service);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the usage") : 0;
}

void usage_tick(struct service *service)
{
	int64_t keep_ms = (int64_t)service->config.usage_keep_days * 24 * 3600 * 1000;

	for (size_t i = 0; i < service->engine_count; i++)
		if (service->engines[i].lost || !service->engines[i].listed)
			return; /* which sandboxes run is not known yet */
	if (service->upkeep.ticks % MEASURE_TICKS == 5)
		measure_again(service);
	reboot_set_alive(service, time_real_ms());
	if (service->accounts->metered_count && service->upkeep.ticks % ALIVE_TICKS == 0) {
		steady_save(service);
		if (reboot_save_alive(service) < 0)
			log_warn("the time when sandboxes were last alive could not be recorded");
	}
	roll(service);
	if (service->upkeep.ticks % EXPIRE_TICKS == 2 &&
	    store_usage_expire(service->store, steady_cutoff_ms(service, keep_ms)) < 0)
		log_warn("old usage rows could not be deleted");
}

/* ---- queries ---- */

struct reading {
	usage_fn fn;
	void *arg;
};

static int on_sum(void *arg, const struct store_usage_sum *from)
{
	const struct reading *reading = arg;
	struct usage_sum sum = { .owner = from->owner,
				 .external_workspace_id = from->external_workspace_id,
				 .sandboxes = from->sandboxes,
				 .running_ms = from->running_ms,
				 .paused_ms = from->paused_ms,
				 .vcpu_ms = from->vcpu_ms,
				 .memory_mb_ms = from->memory_mb_ms,
				 .storage_byte_ms = from->storage_byte_ms };

	reading->fn(reading->arg, &sum);
	return 0;
}

int usage_read(struct service *service, const struct usage_query *query, usage_fn fn, void *arg,
	       struct err *err)
{
	struct reading reading = { fn, arg };
	char owner[AUTH_KEY_ID_SIZE] = "", workspace[256] = "", id[SANDBOX_ID_LEN + 1] = "";
	struct store_usage_query ask = { .from_ms = query->from_ms,
					 .to_ms = query->to_ms,
					 .owner = query->owner.n ? owner : NULL,
					 .external_workspace_id =
						 query->external_workspace_id.n ? workspace : NULL,
					 .sandbox_id = query->sandbox_id.n ? id : NULL };
	int r;

	if (str_copy(owner, sizeof(owner), query->owner) < 0 ||
	    str_copy(workspace, sizeof(workspace), query->external_workspace_id) < 0 ||
	    str_copy(id, sizeof(id), query->sandbox_id) < 0)
		return 0; /* no sandbox has an id that long */
	steady_look(service);
	ask.now_ms = time_real_ms();
	bus_flush(service);
	r = store_usage_sum(service->store, &ask, on_sum, &reading);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the usage") : 0;
}

uint32_t usage_pending(const struct service *service)
{
	return service->accounts->usage_count;
}
