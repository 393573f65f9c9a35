/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One timer for all deadlines: timeouts, idle timeouts, dead sandboxes that are kept for
 * inspection, and sweeps to retry. It is armed for the nearest deadline; when it fires, one pass
 * over all sandboxes handles what is due and finds the next deadline. Deadlines are on the boot
 * clock.
 */
#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/destroy_internal.h"
#include "service/event/event_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/sandbox/sandbox_private.h"

/* The loop's clock stops while the host sleeps. The timer fires at least this often to notice that.
 */
#define LOOK_AGAIN_MS 60000
#define WARN_LEAD_MS 30000
#define RETRY_MS 5000
#define HIBERNATE_TRIES 2

static void arm_at(struct service *service, int64_t due_ms)
{
	int64_t now_ms, delay_ms;

	if (due_ms <= 0 ||
	    (service->sandboxes->deadline_ms && due_ms >= service->sandboxes->deadline_ms))
		return;
	service->sandboxes->deadline_ms = due_ms;
	now_ms = time_boot_ms();
	delay_ms = due_ms > now_ms ? due_ms - now_ms : 0;
	loop_timer_set(service->sandboxes->deadline_timer, MIN(delay_ms, LOOK_AGAIN_MS), 0);
}

/* Armed early enough for the warning before the deadline (event_deadline()). */
void expiry_arm(struct service *service, int64_t due_ms)
{
	int64_t left_ms = due_ms - time_boot_ms();

	arm_at(service, left_ms > 0 ? due_ms - MIN(left_ms / 10, WARN_LEAD_MS) : due_ms);
}

static void count(struct sandbox *sandbox, enum sandbox_reason reason)
{
	if (reason == REASON_TIMEOUT)
		sandbox->service->upkeep.counters.timeouts++;
	else if (reason == REASON_IDLE_TIMEOUT)
		sandbox->service->upkeep.counters.idle_timeouts++;
}

static void end(struct sandbox *sandbox, enum sandbox_reason reason)
{
	struct err err;

	if (sandbox_state(sandbox) != SANDBOX_ERROR)
		count(sandbox, reason);
	if (sandbox_destroy(sandbox, reason, &err) < 0) {
		log_error("sandbox %s: %s", sandbox->id, err.message);
		sandbox->due_ms = time_boot_ms() + RETRY_MS;
	}
}

/*
 * A timeout has expired. A pause may fail, or have to wait for another transition; it is then
 * retried. A sandbox that cannot be hibernated, for example because the disk is full, is frozen
 * instead, because its owner asked to keep it.
 */
static int64_t time_is_up(struct sandbox *sandbox, enum sandbox_reason reason)
{
	struct service *service = sandbox->service;
	bool hibernate = sandbox->attrs.on_timeout == ON_TIMEOUT_HIBERNATE;
	slot_handle handle = sandbox->handle;
	struct err err = { .code = ERR_OK };
	int r = -1;

	if (sandbox_state(sandbox) != SANDBOX_RUNNING ||
	    sandbox->attrs.on_timeout == ON_TIMEOUT_DESTROY) {
		end(sandbox, reason);
		return 0;
	}
	if (!sandbox_transition(sandbox)) {
		if (hibernate && sandbox->end_tries++ < HIBERNATE_TRIES)
			r = sandbox_pause(sandbox, PAUSE_HIBERNATE, NULL, NULL, &err);
		if (r < 0)
			r = sandbox_pause(sandbox, PAUSE_FREEZE, NULL, NULL, &err);
		if (r == 0)
			count(sandbox, reason);
		else
			log_warn("sandbox %s: the timeout expired, but the sandbox could not be "
				 "paused: %s",
				 sandbox->id, err.message);
	}
	sandbox = sandbox_get(service, handle);
	return sandbox && sandbox_state(sandbox) == SANDBOX_RUNNING ? time_boot_ms() + RETRY_MS : 0;
}

/* Handles what is due and returns the next deadline of this sandbox; 0: none. The sandbox may be
 * gone afterwards. */
static int64_t look_at(struct sandbox *sandbox, int64_t now_ms)
{
	int64_t idle_ms = clock_idle_due_ms(sandbox), due_ms = 0;

	if (sandbox->sweep_due_ms) {
		if (sandbox->sweep_due_ms > now_ms)
			due_ms = sandbox->sweep_due_ms;
		else
			destroy_sweep(sandbox);
		return due_ms;
	}
	if (sandbox->pooled || sandbox_state(sandbox) == SANDBOX_DESTROYED ||
	    sandbox_state(sandbox) == SANDBOX_PROVISIONING)
		return 0;
	/* A dead sandbox is removed with the reason of its death. */
	if (sandbox->due_ms && sandbox->due_ms <= now_ms)
		return time_is_up(sandbox, sandbox_state(sandbox) == SANDBOX_ERROR
						   ? sandbox->reason
						   : REASON_TIMEOUT);
	due_ms = event_deadline(sandbox, REASON_TIMEOUT, now_ms, sandbox->due_ms,
				sandbox->attrs.timeout_sec, &sandbox->warned_ms);
	if (idle_ms && sandbox->execs)
		idle_ms = now_ms + (int64_t)sandbox->attrs.idle_timeout_sec * 1000;
	if (idle_ms && idle_ms <= now_ms)
		return time_is_up(sandbox, REASON_IDLE_TIMEOUT);
	idle_ms = event_deadline(sandbox, REASON_IDLE_TIMEOUT, now_ms, idle_ms,
				 sandbox->attrs.idle_timeout_sec, &sandbox->idle_warned_ms);
	if (idle_ms && (!due_ms || idle_ms < due_ms))
		due_ms = idle_ms;
	return due_ms;
}

void expiry_on_timer(void *arg)
{
	struct service *service = arg;
	int64_t now_ms = time_boot_ms(), next_ms = 0;
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	service->sandboxes->deadline_ms = 0;
	while ((sandbox = sandbox_next(service, &cursor))) {
		int64_t due_ms = look_at(sandbox, now_ms);

		if (due_ms && (!next_ms || due_ms < next_ms))
			next_ms = due_ms;
	}
	arm_at(service, next_ms);
}
