/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: reconciliation with the engines after a start or a reboot. */
#ifndef CAY_SERVICE_SANDBOX_RECOVER_INTERNAL_H
#define CAY_SERVICE_SANDBOX_RECOVER_INTERNAL_H

#include "service/service_internal.h"
#include "service/copy/snapshot.h"

/* reconcile.c */
int reconcile_load(struct service *service, struct err *err) _must_check_;
void reconcile_start(struct service_engine *engine);

/* recover.c */
void recover_settle(struct sandbox *sandbox, bool seen);
void recover_tick(struct service *service);

/* reboot.c */
int reboot_load(struct service *service, struct err *err) _must_check_;
void reboot_tick(struct service *service);
int reboot_save_alive(struct service *service) _must_check_;
/*
 * Whether this snapshot contains the files that an engine saved of a known sandbox. It is then
 * added to the table.
 */
bool reboot_is_name(const char *id);
bool reboot_listed(struct service_engine *engine, const char *id);
void reboot_keep(struct sandbox *sandbox, struct snapshot *files);

/*
 * When the engines last knew their sandboxes; and whether the host was rebooted since the last
 * start of the daemon, until every engine was queried.
 */
int64_t reboot_alive_ms(const struct service *service);
void reboot_set_alive(struct service *service, int64_t alive_ms);
bool reboot_happened(const struct service *service);

#endif
