/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: the link to a sandbox, and the calls that wait for it. */
#ifndef CAY_SERVICE_SANDBOX_ATTACH_INTERNAL_H
#define CAY_SERVICE_SANDBOX_ATTACH_INTERNAL_H

#include "service/service_internal.h"

/* attach.c: the link of a sandbox */
int attach_link(struct sandbox *sandbox, const struct engine_made *made,
		struct err *err) _must_check_;
void attach_start(struct sandbox *sandbox);
void attach_drop_link(struct sandbox *sandbox);
void attach_said_hello(struct sandbox *sandbox); /* one that was being made or resumed */
void attach_failed(struct sandbox *sandbox, const struct err *why); /* before that */

/* fork_hook.c: 0: attach_said_hello() or attach_failed() comes later. -1: there is none to run. */
int fork_hook_start(struct sandbox *sandbox) _must_check_;

/* wait_ready.c: calls that wait for the link */
void ready_there(struct sandbox *sandbox); /* it is there */
void ready_ended(struct sandbox *sandbox); /* it will never be */
void ready_paused(struct sandbox *sandbox);
void ready_failed(struct sandbox *sandbox, const struct err *why); /* it could not be resumed */
void ready_tick(struct service *service);
void ready_drop(struct sandbox *sandbox);

#endif
