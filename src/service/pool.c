/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready sandboxes per template, so that a create is a pop and a row. Filled one at a time and a
 * little later than the hand-out that made room (the second core is the caller's then), sized by
 * what was asked for lately. A used sandbox never comes back.
 */
#include "base/log.h"
#include "base/time.h"
#include "service/creation_private.h"
#include "service/egress_private.h"
#include "service/pool_private.h"
#include "service/sandbox_private.h"
#include "service/secret_private.h"
#include "service/template.h"

#define REFILL_DELAY_MS 15
#define QUIET_MS 60000 /* without a request: back to the least */
#define BACKOFF_MIN_MS 500
#define BACKOFF_MAX_MS 60000
#define WAITERS_MAX 256 /* per pool; more fall through to cold, or are refused in mode require */

struct pool {
	struct service *service;
	struct service_engine *engine;
	struct template *template;
	enum engine_link network; /* what its members are linked to */
	struct sandbox *ready;	  /* newest first: its pages are warmest */
	uint32_t ready_count;
	uint32_t filling; /* 0 or 1 */
	uint32_t target;
	int64_t asked_ms; /* boot clock of the last request */
	int64_t backoff_ms;
	struct creation *waiters; /* first come, first served */
	uint32_t waiter_count;
	struct loop_timer *timer;
	bool armed;
	bool stale; /* another version of the template is current */
};

static void arm(struct pool *pool, int64_t delay_ms);

void pool_limits(const struct service *service, enum engine_link network, struct engine_limits *ret)
{
	*ret = (struct engine_limits){ .cpu_count = 1,
				       .memory_mb = 1024,
				       .disk_size_mb = 3072,
				       .pids_max = service->config.pids_max,
				       .network = network };
}

static bool is_default(const struct pool *pool)
{
	return pool->network == ENGINE_LINK_NONE &&
	       strcmp(pool->template->name, pool->service->config.default_template) == 0;
}

static bool usable(const struct service *service, const struct service_engine *engine)
{
	return service->config.pool_enabled && !service->closing && engine->engine &&
	       !engine->lost && engine->listed && (engine->capabilities & ENGINE_CAN_POOL);
}

static void unlink_ready(struct sandbox *member)
{
	struct pool *pool = member->pool;

	if (!member->pool_ready)
		return;
	if (member->prev)
		member->prev->next = member->next;
	else
		pool->ready = member->next;
	if (member->next)
		member->next->prev = member->prev;
	member->prev = member->next = NULL;
	member->pool_ready = false;
	pool->ready_count--;
}

void pool_forget(struct sandbox *member)
{
	struct pool *pool = member->pool;

	if (!member->pooled || !pool)
		return;
	if (member->pool_ready)
		unlink_ready(member);
	else if (pool->filling)
		pool->filling--;
	member->pool = NULL;
	arm(pool, REFILL_DELAY_MS);
}

static void drop_member(struct sandbox *member)
{
	struct err err;

	if (sandbox_destroy(member, REASON_REQUESTED, &err) < 0)
		log_error("pool member %s: %s", member->id, err.message);
}

static void drain(struct pool *pool, uint32_t keep)
{
	while (pool->ready_count > keep)
		drop_member(pool->ready);
}

/* The pool's file of waiting creations. */
static void remove_waiter(struct creation *creation)
{
	struct pool *pool = creation->pool;
	struct creation **at = &pool->waiters;

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

void pool_unwait(struct creation *creation)
{
	if (creation->pool)
		remove_waiter(creation);
}

static void on_wait_over(void *arg)
{
	struct creation *creation = arg;
	struct err err;

	remove_waiter(creation);
	if (!creation_require(creation)) {
		creation_cold(creation);
		return;
	}
	(void)err_set(&err, ERR_CAPACITY_EXCEEDED,
		      "no ready sandbox in the pool of '%s' within %lld ms (pool.mode require)",
		      creation->template->name, (long long)creation->wait_ms);
	creation_answer(creation, NULL, &err);
}

static void put_ready(struct sandbox *member)
{
	struct pool *pool = member->pool;
	struct creation *first = pool->waiters;

	if (first) {
		remove_waiter(first);
		pool->service->counters.pool_hits++;
		creation_hand_out(first, member);
		return;
	}
	member->prev = NULL;
	member->next = pool->ready;
	if (pool->ready)
		pool->ready->prev = member;
	pool->ready = member;
	member->pool_ready = true;
	pool->ready_count++;
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
	pool_limits(service, pool->network, &limits);
	member->pooled = true;
	member->pool = pool;
	member->pool_network = (uint8_t)pool->network;
	member->state = SANDBOX_PROVISIONING;
	member->created_ms = time_real_ms();
	member->attrs.cpu_count = limits.cpu_count;
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

static void on_refill(void *arg)
{
	struct pool *pool = arg;

	pool->armed = false;
	if (!usable(pool->service, pool->engine) || pool->stale || pool->filling)
		return;
	if (pool->ready_count < MAX(pool->target, pool->waiter_count))
		fill_one(pool);
}

static void arm(struct pool *pool, int64_t delay_ms)
{
	if (pool->armed || pool->filling || pool->stale ||
	    pool->ready_count >= MAX(pool->target, pool->waiter_count))
		return;
	pool->armed = true;
	loop_timer_set(pool->timer, MAX(delay_ms, pool->backoff_ms), 0);
}

void pool_fill_failed(struct sandbox *member, const struct err *err)
{
	struct pool *pool = member->pool;

	if (!pool)
		return;
	pool->service->counters.pool_fill_failures++;
	pool->backoff_ms = MIN(MAX(pool->backoff_ms * 2, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
	log_warn("pool of %s: fill failed, again in %lld ms: %s", pool->template->name,
		 (long long)pool->backoff_ms, err->message);
}

static void on_warm(void *arg, const struct link_result *result, const struct err *error)
{
	struct call *call = arg;
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);
	struct sandbox *member = service ? sandbox_get(service, handle) : NULL;
	struct pool *pool;
	int r;

	if (!member || member->state != SANDBOX_PROVISIONING || result->status.end == LINK_END_GONE)
		return; /* its link or its destroyer says why */
	if (member->pool_network)
		trust_note(member, result, error);
	sandbox_set_state(member, SANDBOX_RUNNING, REASON_NONE);
	r = store_begin(service->store);
	if (r == 0)
		r = sandbox_save(member);
	if (r == 0)
		r = store_intent_delete(service->store, member->row);
	if (r == 0)
		r = store_commit(service->store);
	else
		store_rollback(service->store);
	service_wrote(service);
	pool = member->pool;
	if (r < 0 || !pool || pool->stale) {
		drop_member(member);
		return;
	}
	pool->filling--;
	pool->backoff_ms = 0;
	service->counters.pool_fills++;
	put_ready(member);
	arm(pool, 1);
}

/* One exec now saves the first caller the page faults of the agent's path, and where there is a
 * network, the wait for the trust store. */
void pool_made(struct sandbox *member)
{
	static const char *const argv[] = { "/bin/true", NULL };
	static const char *const env[] = { NULL };
	struct link_exec exec = { .argv = argv, .env = env, .timeout_ms = 5000 };
	struct err err;
	uint32_t process_id;
	struct call *call = call_new(member->service, member->handle, &err);

	if (call && (trust_due(member) ? trust_start(member, on_warm, call, &err)
				       : link_exec(member->link, &exec, on_warm, call, &process_id,
						   &err)) == 0)
		return;
	if (call)
		(void)call_end(call);
	create_failed(member, &err);
}

static struct pool *pool_find(struct service *service, struct service_engine *engine,
			      const struct template *tpl, enum engine_link network)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools[i];

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
		if (service->pools[i])
			continue;
		pool = calloc(1, sizeof(*pool));
		if (!pool)
			return NULL;
		*pool = (struct pool){
			.service = service, .engine = engine, .template = tpl, .network = network
		};
		pool->asked_ms = time_boot_ms();
		pool->target = service->config.pool_min;
		if (loop_timer_new(service->loop, on_refill, pool, &pool->timer) < 0) {
			free(pool);
			return NULL;
		}
		service->pools[i] = pool;
	}
	return pool;
}

/* Older versions of a template are of no more use. */
static void retire_others(struct pool *pool)
{
	struct service *service = pool->service;

	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *other = service->pools[i];

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

/* One without a network can be given it, which takes a moment, but less than making one. */
static struct sandbox *lend(struct service *service, struct service_engine *engine,
			    struct template *tpl, enum engine_link network)
{
	if (network != ENGINE_LINK_NONE)
		return pool_take(service, engine, tpl, ENGINE_LINK_NONE);
	service->counters.pool_misses++;
	return NULL;
}

struct sandbox *pool_take(struct service *service, struct service_engine *engine,
			  struct template *tpl, enum engine_link network)
{
	struct pool *pool = usable(service, engine) ? ask(service, engine, tpl, network) : NULL;
	struct sandbox *member;

	if (!pool)
		return NULL;
	pool->target = MAX(pool->target, service->config.pool_min);
	member = pool->ready;
	if (!member) {
		pool->target =
			MIN(pool->target + MAX(pool->target / 2, 1u), service->config.pool_max);
		arm(pool, REFILL_DELAY_MS);
		return lend(service, engine, tpl, network);
	}
	unlink_ready(member);
	service->counters.pool_hits++;
	/* Running low is demand too: grow before the first miss. */
	if (pool->ready_count == 0 && pool->target < service->config.pool_max)
		pool->target++;
	arm(pool, REFILL_DELAY_MS);
	return member;
}

int pool_wait(struct service *service, struct creation *creation, struct service_engine *engine,
	      struct template *tpl, enum engine_link network)
{
	struct pool *pool = usable(service, engine) ? ask(service, engine, tpl, network) : NULL;
	struct creation **at;

	if (!pool || pool->waiter_count >= WAITERS_MAX ||
	    loop_timer_new(service->loop, on_wait_over, creation, &creation->timer) < 0)
		return -1;
	loop_timer_set(creation->timer, creation->wait_ms, 0);
	for (at = &pool->waiters; *at; at = &(*at)->next)
		;
	*at = creation;
	creation->pool = pool;
	pool->waiter_count++;
	arm(pool, 0);
	return 0;
}

/* It is being removed: nothing ready may be left of it. */
void pool_drop_template(struct service *service, const char *name)
{
	struct sandbox *member;
	uint32_t cursor = 0;

	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools[i];

		if (pool && strcmp(pool->template->name, name) == 0) {
			pool->stale = true;
			pool->target = 0;
		}
	}
	while ((member = slot_next(&service->sandboxes, &cursor)))
		if (member->pooled && strcmp(member->template->name, name) == 0)
			drop_member(member);
}

/* A member of a former daemon, its agent linked again. Which network one was made for is not known
 * any more: such a one goes. */
void pool_adopt(struct sandbox *member)
{
	struct pool *pool = member->service->config.pool_enabled && !member->service->closing
				    ? pool_open(member->service, member->engine, member->template,
						ENGINE_LINK_NONE)
				    : NULL;

	if (!pool || pool->stale || egress_is_linked(member) ||
	    pool->ready_count >= MAX(pool->target, 1u)) {
		drop_member(member);
		return;
	}
	if (member->pool_ready)
		return;
	member->pool = pool;
	put_ready(member);
}

/* The default template's pool is filled from the start; the others when first asked for. */
void pool_start(struct service *service)
{
	struct service_engine *engine = &service->engines[0];
	struct template *tpl;
	struct pool *pool;
	struct err err;

	if (!usable(service, engine))
		return;
	tpl = template_find(service, str_of(service->config.default_template), &err);
	if (!tpl)
		return; /* not built yet: the tick looks again */
	pool = pool_open(service, engine, tpl, ENGINE_LINK_NONE);
	if (!pool)
		return;
	retire_others(pool);
	arm(pool, REFILL_DELAY_MS);
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
	arm(pool, REFILL_DELAY_MS);
}

void pool_tick(struct service *service)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools[i];

		if (!pool)
			continue;
		tick_one(pool);
		if (pool->target == 0 && !pool->ready_count && !pool->filling &&
		    !pool->waiter_count) {
			service->pools[i] = NULL;
			pool_free(pool);
		}
	}
	if (service->ticks % 2 == 0)
		pool_start(service);
}

void pool_stop(struct service *service)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon is shutting down");
	for (size_t i = 0; i < POOLS_MAX; i++) {
		struct pool *pool = service->pools[i];

		if (!pool)
			continue;
		pool->target = 0;
		while (pool->waiters) {
			struct creation *creation = pool->waiters;

			remove_waiter(creation);
			creation_answer(creation, NULL, &err);
		}
	}
}

void pool_gauges(const struct service *service, struct service_gauges *ret)
{
	for (size_t i = 0; i < POOLS_MAX; i++) {
		const struct pool *pool = service->pools[i];

		if (!pool)
			continue;
		ret->pool_ready += pool->ready_count;
		ret->pool_filling += pool->filling;
		ret->pool_target += pool->target;
	}
}

void pool_done(struct service *service)
{
	for (size_t i = 0; i < POOLS_MAX; i++)
		if (service->pools[i])
			pool_free(service->pools[i]);
}
