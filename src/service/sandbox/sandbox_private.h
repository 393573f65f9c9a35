/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: one sandbox: its record, its attributes and name, its deadlines. */
#ifndef CAY_SERVICE_SANDBOX_SANDBOX_PRIVATE_H
#define CAY_SERVICE_SANDBOX_SANDBOX_PRIVATE_H

#include "service/service_private.h"

/* sandbox.c */
struct sandbox *sandbox_new(struct service *service, struct service_engine *engine,
			    struct template *tpl, const char *id, struct err *err);
void sandbox_drop(struct sandbox *sandbox); /* out of every table, and freed */
int sandbox_save(struct sandbox *sandbox) _must_check_;
void sandbox_show(struct sandbox *sandbox); /* into the list of visible ones; sets seq */
void sandbox_hide(struct sandbox *sandbox);
void sandbox_set_state(struct sandbox *sandbox, enum sandbox_state state,
		       enum sandbox_reason reason);
void sandbox_set_error(struct sandbox *sandbox, const char *message);
void sandbox_attrs_done(struct sandbox_attrs *attrs);
/* All but the name. On failure to has to be done all the same. */
int sandbox_attrs_copy(struct sandbox_attrs *to, const struct sandbox_attrs *from) _must_check_;
int sandbox_name_reserve(struct service *service, const char *owner, const char *name,
			 struct sandbox *sandbox, struct err *err) _must_check_;
void sandbox_name_release(struct service *service, const char *owner, const char *name);
void sandbox_name_bind(struct service *service, const char *owner, const char *name,
		       struct sandbox *sandbox);
enum sandbox_state sandbox_state_parse(const char *name);
enum sandbox_reason sandbox_reason_parse(const char *name);

/* clock.c */
void clock_start(struct sandbox *sandbox);  /* it runs for the first time */
void clock_stop(struct sandbox *sandbox);   /* while it still counts as running */
void clock_go(struct sandbox *sandbox);	    /* it runs again */
void clock_extend(struct sandbox *sandbox); /* all of its time again */
void clock_set(struct sandbox *sandbox, int64_t in_ms);
void clock_load(struct sandbox *sandbox, const struct store_sandbox *row);
int64_t clock_idle_due_ms(const struct sandbox *sandbox); /* boot clock; 0: never */
int64_t clock_expires_ms(const struct sandbox *sandbox);  /* these two: wall clock */
int64_t clock_idle_expires_ms(const struct sandbox *sandbox);

#endif
