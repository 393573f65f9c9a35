/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/account/account_internal.h"
#include "service/account/auth_internal.h"
#include "service/copy/copy_internal.h"
#include "service/copy/snapshot.h"
#include "service/event/events_internal.h"
#include "service/event/webhook.h"
#include "service/files/files_internal.h"
#include "service/network/egress_internal.h"
#include "service/network/network_internal.h"
#include "service/pairing_internal.h"
#include "service/pool/pool_internal.h"
#include "service/run/process.h"
#include "service/run/run_internal.h"
#include "service/run/window.h"
#include "service/sandbox/destroy_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secrets_internal.h"
#include "service/state_disk_internal.h"
#include "service/steady_internal.h"
#include "service/template/template_internal.h"

#define READY_WAIT_DEFAULT_MS 10000
#define EVENTS_KEEP 10000
#define EVENTS_KEEP_DAYS 7
#define USAGE_KEEP_DAYS 400
#define USAGE_DETAIL_DAYS 8
#define WEBHOOKS_AT_ONCE 16
#define WEBHOOK_TIMEOUT_SEC 10
#define WEBHOOK_ATTEMPTS 10
#define WEBHOOK_RETRY_MS 1000
#define WEBHOOK_DISABLE_SEC 86400

const struct service_config *service_config(const struct service *service)
{
	return &service->config;
}

const struct service_counters *service_counters(const struct service *service)
{
	return &service->upkeep.counters;
}

void service_gauges(const struct service *service, struct service_gauges *ret)
{
	const struct sandbox *sandbox;
	uint32_t cursor = 0;

	*ret = (struct service_gauges){ .sweeping = 0 };
	while ((sandbox = sandbox_next(service, &cursor))) {
		if (sandbox_state(sandbox) == SANDBOX_DESTROYED)
			ret->sweeping++;
		if (!sandbox->pooled)
			ret->by_state[sandbox_state(sandbox)]++;
	}
	ret->streams = quota_streams(service);
	if (service->engine_count) {
		const struct engine_storage *storage = &service->engines[0].storage;

		ret->storage_capacity_bytes = storage->capacity_bytes;
		ret->storage_used_bytes = storage->used_bytes;
		ret->storage_promised_bytes = storage->promised_bytes;
	}
	ret->state_capacity_bytes = service->upkeep.disk.capacity_bytes;
	ret->state_free_bytes = service->upkeep.disk.free_bytes;
	pool_gauges(service, ret);
}

int64_t service_next_seq(struct service *service)
{
	return service->upkeep.last_seq = MAX(time_real_ms() * 1000, service->upkeep.last_seq + 1);
}

void service_saw_seq(struct service *service, int64_t seq)
{
	service->upkeep.last_seq = MAX(service->upkeep.last_seq, seq);
}

int service_unrecorded(struct err *err, int r, const char *what)
{
	if (r == -ENOSPC)
		return err_set(err, ERR_CAPACITY_EXCEEDED,
			       "%s: the disk of the state directory is full", what);
	return err_set_errno(err, ERR_INTERNAL, r, "%s", what);
}

/* ---- upkeep ---- */

static void checkpoint_work(void *arg)
{
	struct service *service = arg;

	(void)!store_checkpoint(service->store);
}

static void checkpoint_done(void *arg)
{
	struct service *service = arg;

	service->upkeep.checkpointing = false;
	store_checkpoint_tail(service->store);
}

void service_wrote(struct service *service)
{
	/* No checkpoint starts while the service closes, because the store is closed next. */
	if (service->upkeep.closing || service->upkeep.checkpointing ||
	    !store_wants_checkpoint(service->store))
		return;
	if (loop_work(service->config.loop, checkpoint_work, checkpoint_done, service) == 0)
		service->upkeep.checkpointing = true;
}

static void on_tick(void *arg)
{
	struct service *service = arg;

	service->upkeep.ticks++;
	steady_tick(service);
	state_disk_tick(service);
	pools_tick(service);
	file_runs_tick(service);
	network_tick(service);
	copies_tick(service);
	sandboxes_tick(service);
	accounts_tick(service);
	events_tick(service);
	engines_tick(service);
	destroy_check_drained(service);
}

/* ---- open and close ---- */

static int open_store(struct service *service, struct err *err)
{
	char path[4096];
	int r;

	if (snprintf(path, sizeof(path), "%s/cay.db", service->config.state_dir) >=
	    (int)sizeof(path))
		return err_set(err, ERR_INTERNAL, "the state directory's name is too long");
	r = store_open(path, &service->store);
	if (r == -ENOTSUP)
		return err_set(err, ERR_INTERNAL,
			       "%s was written by a newer version of cay: start that version",
			       path);
	if (r == -EUCLEAN)
		return err_set(err, ERR_INTERNAL,
			       "%s is damaged. Put a backup of it in its place. Without one, move "
			       "it away, start the daemon and run 'cay recover': sandboxes and "
			       "snapshots are kept until then, keys and settings are lost",
			       path);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot open %s", path) : 0;
}

static int start(struct service *service, struct err *err)
{
	if (open_store(service, err) < 0 || pairing_open(service, err) < 0 ||
	    steady_open(service, err) < 0 || accounts_open(service, err) < 0 ||
	    events_open(service, err) < 0 || sandboxes_open(service, err) < 0)
		return -1;
	if (loop_timer_new(service->config.loop, on_tick, service, &service->upkeep.tick_timer) < 0)
		return err_set(err, ERR_INTERNAL, "out of memory");
	if (engines_open(service, err) < 0)
		return -1;
	/* Snapshots and secrets are loaded first, because sandbox rows refer to them. */
	if (copies_load(service, err) < 0 || secrets_load(service, err) < 0 ||
	    sandboxes_load(service, err) < 0 || network_load(service, err) < 0 ||
	    accounts_load(service, err) < 0 || events_load(service, err) < 0)
		return -1;
	loop_timer_set(service->upkeep.tick_timer, SERVICE_TICK_MS, SERVICE_TICK_MS);
	return 0;
}

static void set_defaults(struct service_config *config)
{
#define USUALLY(member, value)                    \
	do                                        \
		if (!config->member)              \
			config->member = (value); \
	while (0)
	USUALLY(max_cpu_milli, 8000);
	USUALLY(max_memory_mb, 8192);
	USUALLY(max_disk_size_mb, 10240);
	USUALLY(max_timeout_sec, 86400);
	USUALLY(processes_per_sandbox, PROCESSES_PER_SANDBOX);
	USUALLY(max_snapshots_per_key, SNAPSHOTS_PER_KEY);
	USUALLY(windows_per_sandbox, WINDOWS_PER_SANDBOX);
	USUALLY(streams_per_key, STREAMS_PER_KEY);
	USUALLY(output_ring_bytes, OUTPUT_RING_BYTES);
	USUALLY(output_keep_sec, OUTPUT_KEEP_SEC);
	USUALLY(ready_wait_ms, READY_WAIT_DEFAULT_MS);
	USUALLY(events_keep, EVENTS_KEEP);
	USUALLY(events_keep_days, EVENTS_KEEP_DAYS);
	USUALLY(usage_keep_days, USAGE_KEEP_DAYS);
	USUALLY(usage_detail_days, USAGE_DETAIL_DAYS);
	USUALLY(webhooks_per_key, WEBHOOKS_PER_KEY);
	USUALLY(webhooks_at_once, WEBHOOKS_AT_ONCE);
	USUALLY(webhook_timeout_sec, WEBHOOK_TIMEOUT_SEC);
	USUALLY(webhook_attempts, WEBHOOK_ATTEMPTS);
	USUALLY(webhook_retry_ms, WEBHOOK_RETRY_MS);
	USUALLY(webhook_disable_sec, WEBHOOK_DISABLE_SEC);
#undef USUALLY
}

/* Allocates all themes at once, so that service_close() never meets a missing one. */
static int make_themes(struct service *service)
{
	service->sandboxes = sandboxes_new();
	service->runs = runs_new();
	service->file_runs = file_runs_new();
	service->network = network_new();
	service->copies = copies_new();
	service->accounts = accounts_new();
	service->secrets = secrets_new();
	service->events = events_new();
	service->templates = templates_new();
	service->pools = pools_new();
	return service->sandboxes && service->runs && service->file_runs && service->network &&
			       service->copies && service->accounts && service->secrets &&
			       service->events && service->templates && service->pools
		       ? 0
		       : -ENOMEM;
}

/* For a failed make_themes(): the themes are still empty. */
static void free_themes(struct service *service)
{
	free(service->sandboxes);
	free(service->runs);
	free(service->file_runs);
	free(service->network);
	free(service->copies);
	free(service->accounts);
	free(service->secrets);
	free(service->events);
	free(service->templates);
	free(service->pools);
}

int service_open(const struct service_config *config, struct service **ret, struct err *err)
{
	struct service *service = calloc(1, sizeof(*service));

	if (!service || make_themes(service) < 0) {
		if (service)
			free_themes(service);
		free(service);
		return err_set(err, ERR_INTERNAL, "out of memory");
	}
	service->config = *config;
	set_defaults(&service->config);
	if (start(service, err) < 0) {
		service_close(service);
		return -1;
	}
	*ret = service;
	return 0;
}

static void close_themes(struct service *service)
{
	copies_close(service);
	events_close(service);
	pools_close(service);
	engines_close(service);
	templates_close(service);
	accounts_close(service);
	secrets_close(service);
	sandboxes_close(service);
	network_close(service);
	runs_close(service);
	file_runs_close(service);
}

void service_close(struct service *service)
{
	if (!service)
		return;
	/* A checkpoint in progress uses the store on another thread. */
	while (service->upkeep.checkpointing)
		loop_turn(service->config.loop, 10);
	service->upkeep.closing = true;
	pools_stop(service);
	runs_stop(service);
	file_runs_stop(service);
	network_stop(service);
	copies_stop(service);
	sandboxes_stop(service);
	op_list_abandon(&service->upkeep.ops);
	sandboxes_drop(service);
	close_themes(service);
	loop_timer_free(service->upkeep.tick_timer);
	steady_save(service);
	store_close(service->store);
	free(service);
}
