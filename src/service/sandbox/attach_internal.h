/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: the link to a sandbox, and the calls that wait for it. */
#ifndef CAY_SERVICE_SANDBOX_ATTACH_INTERNAL_H
#define CAY_SERVICE_SANDBOX_ATTACH_INTERNAL_H

#include "service/service_internal.h"

/* attach.c: the link of a sandbox */
int attach_link(struct sandbox *sandbox, const struct engine_made *made,
		struct err *err) _must_check_;
void attach_start(struct sandbox *sandbox);
void attach_drop_link(struct sandbox *sandbox);
/* of a sandbox that was being created or resumed */
void attach_said_hello(struct sandbox *sandbox);
void attach_failed(struct sandbox *sandbox, const struct err *why); /* before HELLO */

/*
 * fork_hook.c: 0: attach_said_hello() or attach_failed() is called later. -1: there is no hook to
 * run.
 */
int fork_hook_start(struct sandbox *sandbox) _must_check_;

/* wait_ready.c: calls that wait for the link */
void ready_there(struct sandbox *sandbox); /* the link is ready */
void ready_ended(struct sandbox *sandbox); /* the sandbox ended: it will not become ready */
void ready_paused(struct sandbox *sandbox);
/* the sandbox could not be resumed */
void ready_failed(struct sandbox *sandbox, const struct err *why);
void ready_tick(struct service *service);
void ready_drop(struct sandbox *sandbox);

#endif
