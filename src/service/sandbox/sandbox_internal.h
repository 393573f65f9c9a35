/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: one sandbox: its record, attributes, name and deadlines. */
#ifndef CAY_SERVICE_SANDBOX_SANDBOX_INTERNAL_H
#define CAY_SERVICE_SANDBOX_SANDBOX_INTERNAL_H

#include "service/service_internal.h"

/* sandbox.c */
struct sandbox *sandbox_new(struct service *service, struct service_engine *engine,
			    struct template *tpl, const char *id, struct err *err);
void sandbox_drop(struct sandbox *sandbox); /* removes it from every table, and frees it */
int sandbox_save(struct sandbox *sandbox) _must_check_;
void sandbox_show(struct sandbox *sandbox); /* adds it to the list of visible ones; sets seq */
void sandbox_hide(struct sandbox *sandbox);
void sandbox_set_error(struct sandbox *sandbox, const char *message);
void sandbox_attrs_done(struct sandbox_attrs *attrs);
/* Copies all attributes except the name. On failure `to` is incomplete and must be freed as well.
 */
int sandbox_attrs_copy(struct sandbox_attrs *to, const struct sandbox_attrs *from) _must_check_;
int sandbox_name_reserve(struct service *service, const char *owner, const char *name,
			 struct sandbox *sandbox, struct err *err) _must_check_;
void sandbox_name_release(struct service *service, const char *owner, const char *name);
void sandbox_name_bind(struct service *service, const char *owner, const char *name,
		       struct sandbox *sandbox);
enum sandbox_state sandbox_state_parse(const char *name);
enum sandbox_reason sandbox_reason_parse(const char *name);

/* metrics_history.c */
void history_asked(struct sandbox *sandbox);
void history_first(struct sandbox *sandbox, const struct engine_stat *stat);
/* Its CPU usage since the newest sample that is old enough, or since its start. */
double history_cpu_percent(const struct sandbox *sandbox, const struct engine_stat *stat);
void history_tick(struct service *service);
void history_free(struct sandbox *sandbox);

/* clock.c */
void clock_start(struct sandbox *sandbox);  /* the sandbox is running for the first time */
void clock_stop(struct sandbox *sandbox);   /* before it stops running */
void clock_go(struct sandbox *sandbox);	    /* the sandbox is running again */
void clock_extend(struct sandbox *sandbox); /* restarts the timeout */
void clock_set(struct sandbox *sandbox, int64_t in_ms);
void clock_load(struct sandbox *sandbox, const struct store_sandbox *row);
int64_t clock_idle_due_ms(const struct sandbox *sandbox); /* boot clock; 0: never */
int64_t clock_expires_ms(const struct sandbox *sandbox);  /* this and the next: wall clock */
int64_t clock_idle_expires_ms(const struct sandbox *sandbox);

/* sandboxes.c: called by service.c, in this order. NULL: no memory. */
struct sandboxes *sandboxes_new(void);
int sandboxes_open(struct service *service, struct err *err) _must_check_;
int sandboxes_load(struct service *service, struct err *err) _must_check_;
void sandboxes_tick(struct service *service); /* every second */
void sandboxes_stop(struct service *service); /* ends operations in progress */
void sandboxes_drop(struct service *service); /* frees every sandbox, in memory only */
void sandboxes_close(struct service *service);

/* sandboxes.c: the table, for all themes. */
struct sandbox *sandbox_by_id(const struct service *service, struct str id); /* or NULL */
/* Iterates over all sandboxes, including pool members and ended ones; *cursor 0: the first. */
struct sandbox *sandbox_next(const struct service *service, uint32_t *cursor);
struct sandbox *sandbox_newest(const struct service *service);	/* visible; then sandbox->prev */
struct op_list *sandbox_batches(const struct service *service); /* create_batch.c */

/* The reason for the end of a removed sandbox, for the message of a 404. */
struct tombstone {
	char id[SANDBOX_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	uint8_t reason;
	bool every_port; /* it had a preview of every port */
};
const struct tombstone *sandbox_tombstone(const struct service *service, struct str id);

#endif
