/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of ready sandboxes, one per template, so that a create only takes a member and writes a
 * row. A pool creates one member at a time, with a delay after a member was taken, to leave the CPU
 * to the caller. Its size follows recent demand. A used sandbox never returns to a pool.
 */
#include "base/time.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/pool/pool_internal.h"
#include "service/template/template.h"
#include "service/pool/pool_private.h"
#include "service/sandbox/sandbox_internal.h"

#define QUIET_MS 60000	/* without a request, the pool shrinks to its minimum */
#define WAITERS_MAX 256 /* per pool; further ones are created cold, or refused in mode require */

bool pool_usable(const struct service *service, const struct service_engine *engine)
{
	return service->config.pool_enabled && !service->upkeep.closing && engine_usable(engine) &&
	       instance_can(&engine->instance, CAN_POOL);
}

static bool is_default(const struct pool *pool)
{
	return pool->network == ENGINE_LINK_NONE &&
	       strcmp(pool->template->name, pool->service->config.default_template) == 0;
}

static void drain(struct pool *pool, uint32_t keep)
{
	while (pool->ready_count > keep)
		pool_drop_member(pool->ready);
}

/* Removes a creation from the pool's queue. */
void pool_unwait(struct creation *creation)
{
	struct pool *pool = creation->pool;
	struct creation **at;

	if (!pool)
		return;
	at = &pool->waiters;
	while (*at && *at != creation)
		at = &(*at)->next;
	if (*at) {
		*at = creation->next;
		pool->waiter_count--;
	}
	creation->pool = NULL;
	creation->next = NULL;
	loop_timer_free(creation->timer);
	creation->timer = NULL;
}

static void on_wait_over(void *arg)
{
	struct creation *creation = arg;
	struct err err;

	pool_unwait(creation);
	if (!creation_require(creation)) {
		creation_cold(creation);
		return;
	}
	(void)err_set(&err, ERR_CAPACITY_EXCEEDED,
		      "no ready sandbox in the pool of '%s' within %lld ms (pool.mode require)",
		      creation->template->name, (long long)creation->wait_ms);
	creation_answer(creation, NULL, &err);
}

static struct pool *pool_find(struct service *service, struct service_engine *engine,
			      const struct template *tpl, enum engine_link network)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools->list[i];

		if (pool && pool->engine == engine && pool->template == tpl &&
		    pool->network == network)
			return pool;
	}
	return NULL;
}

static void pool_free(struct pool *pool)
{
	loop_timer_free(pool->timer);
	free(pool);
}

static struct pool *pool_open(struct service *service, struct service_engine *engine,
			      struct template *tpl, enum engine_link network)
{
	struct pool *pool = pool_find(service, engine, tpl, network);

	for (size_t i = 0; !pool && i < POOLS_MAX; i++) {
		if (service->pools->list[i])
			continue;
		pool = calloc(1, sizeof(*pool));
		if (!pool)
			return NULL;
		*pool = (struct pool){
			.service = service, .engine = engine, .template = tpl, .network = network
		};
		pool->asked_ms = time_boot_ms();
		pool->target = service->config.pool_min;
		if (loop_timer_new(service->config.loop, pool_on_refill, pool, &pool->timer) < 0) {
			free(pool);
			return NULL;
		}
		service->pools->list[i] = pool;
	}
	return pool;
}

/* Drops pools of older versions of the template. */
static void retire_others(struct pool *pool)
{
	struct service *service = pool->service;

	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *other = service->pools->list[i];

		if (!other || other->template == pool->template || other->engine != pool->engine ||
		    strcmp(other->template->name, pool->template->name) != 0)
			continue;
		other->stale = true;
		other->target = 0;
	}
}

static struct pool *ask(struct service *service, struct service_engine *engine,
			struct template *tpl, enum engine_link network)
{
	struct pool *pool = pool_find(service, engine, tpl, network);

	if (!pool) {
		pool = pool_open(service, engine, tpl, network);
		if (pool)
			retire_others(pool);
	}
	if (pool)
		pool->asked_ms = time_boot_ms();
	return pool;
}

/* Takes a member without a network from another pool. Adding a network takes a moment, but less
 * than a create. */
static struct sandbox *lend(struct service *service, struct service_engine *engine,
			    struct template *tpl, enum engine_link network)
{
	if (network != ENGINE_LINK_NONE)
		return pool_take(service, engine, tpl, ENGINE_LINK_NONE);
	service->upkeep.counters.pool_misses++;
	return NULL;
}

struct sandbox *pool_take(struct service *service, struct service_engine *engine,
			  struct template *tpl, enum engine_link network)
{
	struct pool *pool =
		pool_usable(service, engine) ? ask(service, engine, tpl, network) : NULL;
	struct sandbox *member;

	if (!pool)
		return NULL;
	pool->target = MAX(pool->target, service->config.pool_min);
	member = pool->ready;
	if (!member) {
		pool->target =
			MIN(pool->target + MAX(pool->target / 2, 1u), service->config.pool_max);
		pool_arm(pool, POOL_REFILL_DELAY_MS);
		return lend(service, engine, tpl, network);
	}
	pool_take_out(member);
	service->upkeep.counters.pool_hits++;
	/* Taking the last member also counts as demand, so that the pool grows before it is empty.
	 */
	if (pool->ready_count == 0 && pool->target < service->config.pool_max)
		pool->target++;
	pool_arm(pool, POOL_REFILL_DELAY_MS);
	return member;
}

int pool_wait(struct service *service, struct creation *creation, struct service_engine *engine,
	      struct template *tpl, enum engine_link network)
{
	struct pool *pool =
		pool_usable(service, engine) ? ask(service, engine, tpl, network) : NULL;
	struct creation **at;

	if (!pool || pool->waiter_count >= WAITERS_MAX ||
	    loop_timer_new(service->config.loop, on_wait_over, creation, &creation->timer) < 0)
		return -1;
	loop_timer_set(creation->timer, creation->wait_ms, 0);
	for (at = &pool->waiters; *at; at = &(*at)->next)
		;
	*at = creation;
	creation->pool = pool;
	pool->waiter_count++;
	pool_arm(pool, 0);
	return 0;
}

/* The template is being removed: removes its ready members. */
void pool_drop_template(struct service *service, const char *name)
{
	struct sandbox *member;
	uint32_t cursor = 0;

	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools->list[i];

		if (pool && strcmp(pool->template->name, name) == 0) {
			pool->stale = true;
			pool->target = 0;
		}
	}
	while ((member = sandbox_next(service, &cursor)))
		if (member->pooled && strcmp(member->template->name, name) == 0)
			pool_drop_member(member);
}

/* A member that an earlier daemon created, whose link is ready again. A member with a network is
 * destroyed, because it is not known which kind it was created for. */
void pool_adopt(struct sandbox *member)
{
	struct pool *pool = member->service->config.pool_enabled && !member->service->upkeep.closing
				    ? pool_open(member->service, member->engine, member->template,
						ENGINE_LINK_NONE)
				    : NULL;

	if (!pool || pool->stale || egress_is_linked(member) ||
	    pool->ready_count >= MAX(pool->target, 1u)) {
		pool_drop_member(member);
		return;
	}
	if (pool_is_ready(member))
		return;
	member->pool = pool;
	pool_put(member);
}

/* The pool of the default template is filled from the start; others on their first request. */
void pool_start(struct service *service)
{
	struct service_engine *engine = &service->engines[0];
	struct template *tpl;
	struct pool *pool;
	struct err err;

	if (!pool_usable(service, engine))
		return;
	tpl = template_find(service, str_of(service->config.default_template), &err);
	if (!tpl)
		return; /* the template is not built yet: the tick tries again */
	pool = pool_open(service, engine, tpl, ENGINE_LINK_NONE);
	if (!pool)
		return;
	retire_others(pool);
	pool_arm(pool, POOL_REFILL_DELAY_MS);
}

static void tick_one(struct pool *pool)
{
	struct service *service = pool->service;
	bool quiet = time_boot_ms() - pool->asked_ms > QUIET_MS;

	if (pool->stale)
		pool->target = 0;
	else if (quiet)
		pool->target = is_default(pool) ? service->config.pool_min : 0;
	drain(pool, pool->target);
	pool_arm(pool, POOL_REFILL_DELAY_MS);
}

void pools_tick(struct service *service)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools->list[i];

		if (!pool)
			continue;
		tick_one(pool);
		if (pool->target == 0 && !pool->ready_count && !pool->filling &&
		    !pool->waiter_count) {
			service->pools->list[i] = NULL;
			pool_free(pool);
		}
	}
	if (service->upkeep.ticks % 2 == 0)
		pool_start(service);
}

void pools_stop(struct service *service)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is shutting down");
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools->list[i];

		if (!pool)
			continue;
		pool->target = 0;
		while (pool->waiters) {
			struct creation *creation = pool->waiters;

			pool_unwait(creation);
			creation_answer(creation, NULL, &err);
		}
	}
}

void pool_gauges(const struct service *service, struct service_gauges *ret)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		const struct pool *pool = service->pools->list[i];

		if (!pool)
			continue;
		ret->pool_ready += pool->ready_count;
		ret->pool_filling += pool->filling;
		ret->pool_target += pool->target;
	}
}

void pools_close(struct service *service)
{
	for (size_t i = 0; i < POOLS_MAX; i++)
		if (service->pools->list[i])
			pool_free(service->pools->list[i]);
	free(service->pools);
}

struct pools *pools_new(void)
{
	return calloc(1, sizeof(struct pools));
}
