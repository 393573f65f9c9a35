/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait for the link of a sandbox: after the daemon's start, while a broken link is
 * restored, and while a paused sandbox is being resumed. Each sandbox has one queue. A call leaves
 * it exactly once: ready, ended, not resumed, timed out, or cancelled.
 */
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/copy/transition_internal.h"
#include "service/secret/secret_internal.h"
#include "service/sandbox/sandbox_private.h"
#include "service/network/trust_internal.h"

#define READY_WAITS_MAX 4096 /* calls that wait for a link, on this host; more are refused */

/* Owner: its sandbox's list, until it is answered or cancelled. */
struct sandbox_wait {
	struct sandbox *sandbox;
	struct sandbox_wait *prev, *next;
	int64_t until_ms; /* monotonic */
	bool wake;	  /* the call may resume a paused sandbox */
	sandbox_ready_fn fn;
	void *arg;
};

static void wait_free(struct sandbox_wait *wait)
{
	struct sandbox *sandbox = wait->sandbox;

	if (wait->prev)
		wait->prev->next = wait->next;
	else
		sandbox->waits = wait->next;
	if (wait->next)
		wait->next->prev = wait->prev;
	sandbox->service->sandboxes->wait_count--;
	free(wait);
}

static void answer(struct sandbox_wait *wait, const struct err *err)
{
	sandbox_ready_fn fn = wait->fn;
	void *arg = wait->arg;

	wait_free(wait);
	fn(arg, err);
}

static int is_paused(const struct sandbox *sandbox, struct err *err)
{
	return err_set(err, ERR_WRONG_STATE, "sandbox %s is paused (%s): resume it first%s",
		       sandbox->id, pause_kind_names[sandbox_pause_kind(sandbox)],
		       sandbox->attrs.auto_resume
			       ? "; calls that only read do not resume it"
			       : "; with auto_resume, calls that change something resume it");
}

bool sandbox_up(const struct sandbox *sandbox)
{
	return phase_up(sandbox->phase);
}

int sandbox_check_running(const struct sandbox *sandbox, struct err *err)
{
	if (sandbox_up(sandbox))
		return 0;
	if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		return is_paused(sandbox, err);
	return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s%s%s", sandbox->id,
		       sandbox_state_names[sandbox_state(sandbox)], sandbox->reason ? ": " : "",
		       sandbox->reason ? sandbox_reason_name(sandbox->reason) : "");
}

/* The sandbox is still up, but is being paused. */
static bool leaving(const struct sandbox *sandbox)
{
	return sandbox_transition(sandbox) == TRANSITION_PAUSE ||
	       sandbox_transition(sandbox) == TRANSITION_HIBERNATE;
}

bool sandbox_ready(const struct sandbox *sandbox)
{
	return sandbox_up(sandbox) && sandbox->link && link_ready(sandbox->link) &&
	       !leaving(sandbox);
}

static int too_late(const struct sandbox *sandbox, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "the connection to sandbox %s is being restored",
		       sandbox->id);
}

/* Whether the call may wait. Starts a resume if the call permits it. */
static int may_wait(struct sandbox *sandbox, bool wake, struct err *err)
{
	bool waking = sandbox_transition(sandbox) == TRANSITION_RESUME ||
		      sandbox_transition(sandbox) == TRANSITION_RESTORE;

	wake = wake && sandbox->attrs.auto_resume;
	if (leaving(sandbox) && !wake)
		return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s", sandbox->id,
			       transition_name(sandbox_transition(sandbox)));
	if (waking || leaving(sandbox) || sandbox_up(sandbox))
		return 0;
	if (sandbox_state(sandbox) != SANDBOX_PAUSED || !wake)
		return sandbox_check_running(sandbox, err);
	if (sandbox_transition(sandbox)) /* a snapshot is being taken: resumed afterwards */
		return 0;
	if (sandbox_resume(sandbox, 0, NULL, NULL, err) >= 0)
		return 0;
	err->code = ERR_UNAVAILABLE;
	return -1;
}

int sandbox_when_ready(struct sandbox *sandbox, bool wake, sandbox_ready_fn fn, void *arg,
		       struct sandbox_wait **ret_wait, struct err *err)
{
	struct service *service = sandbox->service;
	struct sandbox_wait *wait;

	if (sandbox_ready(sandbox) && trust_due(sandbox))
		trust_install(sandbox);
	if (sandbox_ready(sandbox) && !trust_due(sandbox))
		return 1;
	if (may_wait(sandbox, wake, err) < 0)
		return -1;
	if (service->sandboxes->wait_count >= READY_WAITS_MAX)
		return too_late(sandbox, err);
	wait = calloc(1, sizeof(*wait));
	if (!wait)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	wait->sandbox = sandbox;
	wait->until_ms = time_boot_ms() + service->config.ready_wait_ms;
	wait->fn = fn;
	wait->arg = arg;
	wait->wake = wake && sandbox->attrs.auto_resume;
	wait->next = sandbox->waits;
	if (wait->next)
		wait->next->prev = wait;
	sandbox->waits = wait;
	service->sandboxes->wait_count++;
	*ret_wait = wait;
	return 0;
}

void sandbox_wait_cancel(struct sandbox_wait *wait)
{
	wait_free(wait);
}

/* A callback may end the sandbox, so it is looked up again after each. */
void ready_there(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;

	if (sandbox->waits && sandbox_ready(sandbox) && trust_due(sandbox))
		trust_install(sandbox);
	while ((sandbox = sandbox_get(service, handle)) && sandbox->waits &&
	       sandbox_ready(sandbox) && !trust_due(sandbox))
		answer(sandbox->waits, NULL);
}

void ready_ended(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;
	struct err err;

	(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended: %s",
		      sandbox->reason ? sandbox_reason_name(sandbox->reason)
				      : sandbox_state_names[sandbox_state(sandbox)]);
	while ((sandbox = sandbox_get(service, handle)) && sandbox->waits)
		answer(sandbox->waits, &err);
}

static void answer_all(struct sandbox *sandbox, const struct err *err)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;

	while ((sandbox = sandbox_get(service, handle)) && sandbox->waits)
		answer(sandbox->waits, err);
}

void ready_failed(struct sandbox *sandbox, const struct err *why)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, "sandbox %s could not be resumed: %s", sandbox->id,
		      why->message);
	answer_all(sandbox, &err);
}

/* The sandbox is paused now. Calls that may resume it do so; the others get an error. */
void ready_paused(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;
	struct err err;

	while (sandbox && sandbox_state(sandbox) == SANDBOX_PAUSED &&
	       !sandbox_transition(sandbox) && sandbox->waits) {
		struct sandbox_wait *wait = sandbox->waits;

		while (wait && wait->wake)
			wait = wait->next;
		if (wait) {
			(void)is_paused(sandbox, &err);
			answer(wait, &err);
		} else if (sandbox_resume(sandbox, 0, NULL, NULL, &err) < 0) {
			ready_failed(sandbox, &err);
			return;
		}
		sandbox = sandbox_get(service, handle);
	}
}

/* One wait of this sandbox that has timed out. The newest are first, so the oldest is the last.
 * Calls that wait for the installation of the certificate do not time out here, because the
 * installation has a limit of its own. */
static struct sandbox_wait *find_late(const struct sandbox *sandbox, int64_t now_ms)
{
	struct sandbox_wait *wait = sandbox->waits;

	if (sandbox_ready(sandbox) && sandbox->trust == TRUST_INSTALLING)
		return NULL;
	while (wait && wait->next)
		wait = wait->next;
	return wait && wait->until_ms <= now_ms ? wait : NULL;
}

void ready_tick(struct service *service)
{
	int64_t now_ms = time_boot_ms();
	struct sandbox_wait *wait;
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while (service->sandboxes->wait_count && (sandbox = sandbox_next(service, &cursor))) {
		slot_handle handle = sandbox->handle;
		struct err err;

		(void)too_late(sandbox, &err);
		while ((sandbox = sandbox_get(service, handle)) &&
		       (wait = find_late(sandbox, now_ms)))
			answer(wait, &err);
	}
}

/* The service closes. The faces have already dropped the waiting callers. */
void ready_drop(struct sandbox *sandbox)
{
	while (sandbox->waits)
		wait_free(sandbox->waits);
}
