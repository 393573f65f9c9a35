/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a pool: created one at a time and warmed up; then they join the ready list or serve a
 * waiting creation. */
#include "base/log.h"
#include "base/time.h"
#include "engine/link.h"
#include "service/create/create_internal.h"
#include "service/pool/pool_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/template/template.h"
#include "service/network/trust_internal.h"

#define BACKOFF_MIN_MS 500
#define BACKOFF_MAX_MS 60000

void pool_limits(const struct service *service, struct engine_limits *ret)
{
	*ret = (struct engine_limits){ .cpu_milli = MIN(1000, service->config.max_cpu_milli),
				       .memory_mb = MIN(1024, service->config.max_memory_mb),
				       .disk_size_mb = MIN(3072, service->config.max_disk_size_mb),
				       .pids_max = service->config.pids_max };
}

/* A pool member is in no other list than the ready list of its pool. */
bool pool_is_ready(const struct sandbox *member)
{
	return member->pooled && member->pool && (member->prev || member->pool->ready == member);
}

void pool_take_out(struct sandbox *member)
{
	struct pool *pool = member->pool;

	if (!pool_is_ready(member))
		return;
	if (member->prev)
		member->prev->next = member->next;
	else
		pool->ready = member->next;
	if (member->next)
		member->next->prev = member->prev;
	member->prev = member->next = NULL;
	pool->ready_count--;
}

void pool_forget(struct sandbox *member)
{
	struct pool *pool = member->pool;

	if (!member->pooled || !pool)
		return;
	if (pool_is_ready(member))
		pool_take_out(member);
	else if (pool->filling)
		pool->filling--;
	member->pool = NULL;
	pool_arm(pool, POOL_REFILL_DELAY_MS);
}

void pool_drop_member(struct sandbox *member)
{
	struct err err;

	if (sandbox_destroy(member, REASON_REQUESTED, &err) < 0)
		log_error("pool member %s: %s", member->id, err.message);
}

void pool_put(struct sandbox *member)
{
	struct pool *pool = member->pool;
	struct creation *first = pool->waiters;

	if (first) {
		pool_unwait(first);
		pool->service->upkeep.counters.pool_hits++;
		creation_hand_out(first, member);
		return;
	}
	member->prev = NULL;
	member->next = pool->ready;
	if (pool->ready)
		pool->ready->prev = member;
	pool->ready = member;
	pool->ready_count++;
}

void pool_arm(struct pool *pool, int64_t delay_ms)
{
	if (pool->armed || pool->filling || pool->stale ||
	    pool->ready_count >= MAX(pool->target, pool->waiter_count))
		return;
	pool->armed = true;
	loop_timer_set(pool->timer, MAX(delay_ms, pool->backoff_ms), 0);
}

static void fill_one(struct pool *pool)
{
	struct service *service = pool->service;
	struct engine_limits limits;
	struct err err;
	struct sandbox *member = sandbox_new(service, pool->engine, pool->template, NULL, &err);

	if (!member) {
		log_warn("pool of %s: %s", pool->template->name, err.message);
		return;
	}
	pool_limits(service, &limits);
	member->pooled = true;
	member->pool = pool;
	member->pool_network = (uint8_t)pool->network;
	member->created_ms = time_real_ms();
	member->attrs.cpu_milli = limits.cpu_milli;
	member->attrs.memory_mb = limits.memory_mb;
	member->attrs.disk_size_mb = limits.disk_size_mb;
	if (create_begin(member, NULL, &err) < 0) {
		pool_fill_failed(member, &err);
		member->pool = NULL;
		sandbox_drop(member);
		return;
	}
	pool->filling++;
}

void pool_on_refill(void *arg)
{
	struct pool *pool = arg;

	pool->armed = false;
	if (!pool_usable(pool->service, pool->engine) || pool->stale || pool->filling)
		return;
	if (pool->ready_count < MAX(pool->target, pool->waiter_count))
		fill_one(pool);
}

void pool_fill_failed(struct sandbox *member, const struct err *err)
{
	struct pool *pool = member->pool;

	if (!pool)
		return;
	pool->service->upkeep.counters.pool_fill_failures++;
	pool->backoff_ms = MIN(MAX(pool->backoff_ms * 2, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
	log_warn("pool of %s: fill failed, retry in %lld ms: %s", pool->template->name,
		 (long long)pool->backoff_ms, err->message);
}

static void on_warm(void *arg, const struct link_result *result, const struct err *error)
{
	struct sandbox *member = op_end_sandbox(arg);
	struct service *service;
	struct pool *pool;
	int r;

	if (!member || member->phase != PHASE_WARMING || result->status.end == LINK_END_GONE)
		return; /* the loss of the link or the destroy reports the reason */
	service = member->service;
	if (member->pool_network)
		trust_note(member, result, error);
	sandbox_set_phase(member, PHASE_POOLED, REASON_NONE);
	r = store_begin(service->store);
	if (r == 0)
		r = sandbox_save(member);
	if (r == 0)
		r = store_intent_delete(service->store, member->row);
	r = store_end(service->store, r);
	service_wrote(service);
	pool = member->pool;
	if (r < 0 || !pool || pool->stale) {
		pool_drop_member(member);
		return;
	}
	pool->filling--;
	pool->backoff_ms = 0;
	service->upkeep.counters.pool_fills++;
	pool_put(member);
	pool_arm(pool, 1);
}

/* Runs one command in advance. This saves the first caller the page faults of the agent and, with a
 * network, the wait for the installation of the certificate. */
void pool_made(struct sandbox *member)
{
	static const char *const argv[] = { "/bin/true", NULL };
	static const char *const env[] = { NULL };
	struct link_exec exec = { .argv = argv, .env = env, .timeout_ms = 5000 };
	struct err err;
	uint32_t process_id;
	struct op *op = op_new(member->service, member->handle, &err);

	sandbox_set_phase(member, PHASE_WARMING, REASON_NONE);
	if (op && (trust_due(member)
			   ? trust_start(member, on_warm, op, &err)
			   : link_exec(member->link, &exec, on_warm, op, &process_id, &err)) == 0)
		return;
	if (op)
		(void)op_end(op);
	create_failed(member, &err);
}
