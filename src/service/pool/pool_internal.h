/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: sandboxes that are created in advance. */
#ifndef CAY_SERVICE_POOL_POOL_INTERNAL_H
#define CAY_SERVICE_POOL_POOL_INTERNAL_H

#include "service/service_internal.h"

#define POOL_REFILL_DELAY_MS 15

/* Owner: service->pools->list. */
struct pool {
	struct service *service;
	struct service_engine *engine;
	struct template *template;
	enum engine_link network; /* the network of its members */
	struct sandbox *ready;	  /* newest first, because its pages are most likely cached */
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

/* pool.c */
struct sandbox *pool_take(struct service *service, struct service_engine *engine,
			  struct template *tpl, enum engine_link network);
/* 0: the creation waits for the pool; -1: no pool serves it. */
int pool_wait(struct service *service, struct creation *creation, struct service_engine *engine,
	      struct template *tpl, enum engine_link network) _must_check_;
void pool_unwait(struct creation *creation); /* no-op if it does not wait */
bool pool_usable(const struct service *service, const struct service_engine *engine);
void pool_adopt(struct sandbox *member); /* found after a restart; its link is ready */
void pool_drop_template(struct service *service, const char *name);
void pool_start(struct service *service);
void pool_gauges(const struct service *service, struct service_gauges *ret);

/* pool_member.c */
void pool_limits(const struct service *service, struct engine_limits *ret);
void pool_made(struct sandbox *member); /* its agent sent HELLO: warm it up, then add it */
void pool_fill_failed(struct sandbox *member, const struct err *err);
void pool_forget(struct sandbox *member); /* the member is ending */
void pool_put(struct sandbox *member);	  /* ready: serves a waiting creation or joins the list */
bool pool_is_ready(const struct sandbox *member); /* in the list of its pool */
void pool_take_out(struct sandbox *member); /* removes it from the ready list, if it is there */
void pool_drop_member(struct sandbox *member);
void pool_arm(struct pool *pool,
	      int64_t delay_ms); /* creates a member after the delay, if one is missing */
void pool_on_refill(void *pool);

/* pool.c: called by service.c, in this order. NULL: no memory. */
struct pools *pools_new(void);
void pools_tick(struct service *service); /* every second */
void pools_stop(struct service *service); /* ends operations in progress */
void pools_close(struct service *service);

#endif
