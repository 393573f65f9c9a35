/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: sandboxes made ahead. */
#ifndef CAY_SERVICE_POOL_PRIVATE_H
#define CAY_SERVICE_POOL_PRIVATE_H

#include "service/service_private.h"

/* pool.c */
struct sandbox *pool_take(struct service *service, struct service_engine *engine,
			  struct template *tpl, enum engine_link network);
/* 0: the creation waits in the pool; -1: no pool for this one. */
int pool_wait(struct service *service, struct creation *creation, struct service_engine *engine,
	      struct template *tpl, enum engine_link network) _must_check_;
void pool_unwait(struct creation *creation);
void pool_made(struct sandbox *member); /* its agent said hello: warm up, then ready */
void pool_fill_failed(struct sandbox *member, const struct err *err);
void pool_adopt(struct sandbox *member);  /* found again after a restart, link ready */
void pool_forget(struct sandbox *member); /* dying */
void pool_drop_template(struct service *service, const char *name);
void pool_limits(const struct service *service, enum engine_link network,
		 struct engine_limits *ret);
void pool_start(struct service *service);
void pool_stop(struct service *service);
void pool_tick(struct service *service);
void pool_done(struct service *service); /* after every sandbox has been dropped */
void pool_gauges(const struct service *service, struct service_gauges *ret);

#endif
