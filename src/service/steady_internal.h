/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady clock: milliseconds that do not follow a wall clock that is set. Everything that
 * expires and is stored (snapshots, previews and their tokens, idempotency records, failing
 * webhooks) has its deadline on this clock. A new database begins with steady time equal to wall
 * time; from then on it advances with the boot clock, also over restarts of the daemon. While the
 * host is off it advances with the wall clock, never backwards and by at most a day.
 */
#ifndef CAY_SERVICE_STEADY_INTERNAL_H
#define CAY_SERVICE_STEADY_INTERNAL_H

#include "base/err.h"
#include "base/macro.h"

struct service;

int steady_open(struct service *service, struct err *err) _must_check_;
void steady_tick(struct service *service);
void steady_save(struct service *service); /* at the end of the daemon */

int64_t steady_now_ms(const struct service *service);
/* How a point of steady time is shown to clients; 0 stays 0. */
int64_t steady_wall_ms(const struct service *service, int64_t at_ms);
/*
 * Rows that carry the wall clock and are older than this have been kept for keep_ms at least,
 * however often the clock was set meanwhile.
 */
int64_t steady_cutoff_ms(const struct service *service, int64_t keep_ms);
/* How far the wall clock was set forward (or back, if negative) while no daemon ran. */
int64_t steady_set_before_ms(const struct service *service);
/* The boot clock when it was last recorded in an earlier boot; false: that was another boot. */
bool steady_last_boot(const struct service *service, const char *boot_id, int64_t *ret_ms);
/* Looks whether the wall clock was set since the last look, and begins new intervals of usage. */
void steady_look(struct service *service);

#endif
