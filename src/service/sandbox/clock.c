/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clocks of a sandbox. While it runs, its deadlines are on the boot clock, which neither jumps
 * nor stops; while it is paused, only the remaining times are kept. The wall clock is used for
 * display, and to compute the remaining time after a reboot of the host.
 */
#include "base/time.h"
#include "service/sandbox/destroy_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/sandbox/sandbox_private.h"
#include "service/steady_internal.h"

#define JUMP_MS 1000 /* smaller differences are rounding */

static int64_t timeout_ms(const struct sandbox *sandbox)
{
	return sandbox->attrs.always_on ? 0 : (int64_t)sandbox->attrs.timeout_sec * 1000;
}

static void set_due(struct sandbox *sandbox, int64_t in_ms)
{
	sandbox->end_tries = 0;
	sandbox->due_ms = in_ms ? time_boot_ms() + in_ms : 0;
	sandbox->expires_ms = in_ms ? time_real_ms() + in_ms : 0;
	expiry_arm(sandbox->service, sandbox->due_ms);
}

void clock_set(struct sandbox *sandbox, int64_t in_ms)
{
	set_due(sandbox, MAX(in_ms, 1));
}

void clock_start(struct sandbox *sandbox)
{
	sandbox->started_ms = time_real_ms();
	sandbox->active_ms = time_boot_ms();
	set_due(sandbox, timeout_ms(sandbox));
	expiry_arm(sandbox->service, clock_idle_due_ms(sandbox));
}

void clock_extend(struct sandbox *sandbox)
{
	if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		sandbox->left_ms = timeout_ms(sandbox);
	else
		set_due(sandbox, timeout_ms(sandbox));
}

void clock_stop(struct sandbox *sandbox)
{
	int64_t now_ms = time_boot_ms(), idle_ms = clock_idle_due_ms(sandbox);

	sandbox->left_ms = sandbox->due_ms ? MAX(sandbox->due_ms - now_ms, 0) : 0;
	sandbox->idle_left_ms = idle_ms ? MAX(idle_ms - now_ms, 0) : 0;
	sandbox->due_ms = sandbox->expires_ms = 0;
}

/* A timeout that expired, and thereby paused the sandbox, starts again. Otherwise the sandbox would
 * be paused at once. */
void clock_go(struct sandbox *sandbox)
{
	int64_t idle_ms = (int64_t)sandbox->attrs.idle_timeout_sec * 1000;
	int64_t left_ms = sandbox->left_ms;
	int64_t idle_left_ms = sandbox->idle_left_ms > 0 ? sandbox->idle_left_ms : idle_ms;

	sandbox->thawed_ms = time_boot_ms();
	sandbox->active_ms = sandbox->thawed_ms - MAX(idle_ms - idle_left_ms, 0);
	sandbox->left_ms = sandbox->idle_left_ms = 0;
	set_due(sandbox, sandbox->attrs.always_on || left_ms <= 0 ? timeout_ms(sandbox) : left_ms);
	expiry_arm(sandbox->service, clock_idle_due_ms(sandbox));
}

/* What was left when the host ended. */
static int64_t left_of_boot(const struct service *service, const struct store_sandbox *row)
{
	int64_t now_ms = time_real_ms(), alive_ms = service->sandboxes->alive_ms, boot_ms;
	/* The time is recorded with a delay, so it may be before the sandbox was started. */
	int64_t last_ms = alive_ms ? MIN(MAX(alive_ms, row->started_ms), now_ms) : now_ms;
	bool known = row->clock && row->due_ms && steady_last_boot(service, row->clock, &boot_ms);

	if (known) /* the wall clock may have been set since it was started */
		return MIN(row->due_ms - boot_ms, MAX(row->expires_ms - row->started_ms, 1));
	return row->expires_ms - last_ms;
}

void clock_load(struct sandbox *sandbox, const struct store_sandbox *row)
{
	bool same = row->clock && row->clock[0] && row->due_ms &&
		    strcmp(row->clock, sandbox->service->sandboxes->boot_id) == 0;

	sandbox->expires_ms = row->expires_ms;
	sandbox->left_ms = row->left_ms;
	sandbox->idle_left_ms = row->idle_left_ms;
	sandbox->active_ms = time_boot_ms();
	if (same)
		sandbox->due_ms = row->due_ms;
	else if (row->expires_ms) /* after a reboot: time while the host was down does not count */
		sandbox->due_ms = time_boot_ms() + MAX(left_of_boot(sandbox->service, row), 1);
}

int64_t clock_idle_due_ms(const struct sandbox *sandbox)
{
	if (!sandbox->attrs.idle_timeout_sec || sandbox_state(sandbox) != SANDBOX_RUNNING)
		return 0;
	return sandbox->active_ms + (int64_t)sandbox->attrs.idle_timeout_sec * 1000;
}

/* Converts with a stored difference of the clocks, so that a deadline is always shown as the same
 * time unless the wall clock is set. */
static int64_t as_wall_ms(struct service *service, int64_t due_ms)
{
	int64_t distance_ms = time_real_ms() - time_boot_ms();
	int64_t off_ms = distance_ms - service->sandboxes->wall_distance_ms;

	if (off_ms <= -JUMP_MS || off_ms >= JUMP_MS)
		service->sandboxes->wall_distance_ms = distance_ms;
	return due_ms ? service->sandboxes->wall_distance_ms + due_ms : 0;
}

/* The same value as before, unless the wall clock was set meanwhile. */
int64_t clock_expires_ms(const struct sandbox *sandbox)
{
	int64_t wall_ms = as_wall_ms(sandbox->service, sandbox->due_ms);
	int64_t off_ms = wall_ms - sandbox->expires_ms;

	return off_ms > -JUMP_MS && off_ms < JUMP_MS ? sandbox->expires_ms : wall_ms;
}

int64_t clock_idle_expires_ms(const struct sandbox *sandbox)
{
	return as_wall_ms(sandbox->service, clock_idle_due_ms(sandbox));
}
