/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a reboot of the host. Nothing that the rows describe is running, and clocks of the previous
 * boot cannot be read. The downtime is not billed: clocks and usage end when the sandboxes were
 * last known to run. An engine that saved the files of a sandbox lists them as the snapshot "r-ID";
 * the sandbox is then hibernated, and one that is always on is resumed.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/account/usage_internal.h"
#include "service/sandbox/sandbox_private.h"

#define BOOT_NAME "boot_id"
#define START_NAME                                                                     \
	"start_id" /* start time of pid 1: a container can be restarted without a boot \
		    */
#define ALIVE_NAME "alive_ms"
#define PREFIX "r-"
#define WAKES_PER_TICK 4 /* limits the disk load of resumes */

/* Whether the container in which the daemon runs was restarted. 0 or -errno. */
static int look_at_container(struct service *service)
{
	char before[TIME_START_ID_SIZE] = "", now[TIME_START_ID_SIZE];
	int r = store_meta_get(service->store, START_NAME, before, sizeof(before));

	time_start_id(now);
	service->sandboxes->rebooted = r > 0 && before[0] && now[0] && strcmp(before, now) != 0;
	service->sandboxes->boot_saved =
		r > 0 &&
		!service->sandboxes->rebooted; /* an older version of the daemon did not store it */
	return MIN(r, 0);
}

/* Sets rebooted and boot_saved. 0 or -errno. */
static int look_at_host(struct service *service)
{
	char before[TIME_BOOT_ID_SIZE] = "";
	int r = store_meta_get(service->store, BOOT_NAME, before, sizeof(before));
	bool known = r > 0 && before[0];

	if (r < 0)
		return r;
	if (!service->sandboxes
		     ->boot_id[0]) { /* unreadable: the stored id is kept for the next start */
		log_warn("the boot id of the host cannot be read: a reboot will not be noticed");
		service->sandboxes->boot_saved = true;
		return 0;
	}
	service->sandboxes->rebooted = known && strcmp(before, service->sandboxes->boot_id) != 0;
	service->sandboxes->boot_saved = known && !service->sandboxes->rebooted;
	return service->sandboxes->boot_saved ? look_at_container(service) : 0;
}

int reboot_load(struct service *service, struct err *err)
{
	char text[24] = "";
	uint64_t alive_ms = 0;
	int r = store_meta_get(service->store, ALIVE_NAME, text, sizeof(text));

	if (r > 0 && str_to_u64(str_of(text), INT64_MAX, &alive_ms) == 0)
		service->sandboxes->alive_ms = MIN((int64_t)alive_ms, time_real_ms());
	if (r >= 0)
		r = look_at_host(service);
	if (service->sandboxes->rebooted)
		log_info("the host was rebooted");
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the last boot") : 0;
}

int reboot_save_alive(struct service *service)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)service->sandboxes->alive_ms);
	return store_meta_put(service->store, ALIVE_NAME, text);
}

/* All engines have been queried, so later starts need not handle this reboot again. */
static void save_boot(struct service *service)
{
	char start[TIME_START_ID_SIZE];

	if (service->sandboxes->boot_saved)
		return;
	time_start_id(start);
	if (store_meta_put(service->store, BOOT_NAME, service->sandboxes->boot_id) < 0 ||
	    store_meta_put(service->store, START_NAME, start) < 0)
		log_warn("the reboot of the host could not be recorded");
	else
		service->sandboxes->boot_saved = true;
	service->sandboxes->rebooted = false;
}

void reboot_tick(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;
	unsigned woken = 0;

	for (size_t i = 0; i < service->engine_count; i++)
		if (service->engines[i].lost || !service->engines[i].listed)
			return;
	save_boot(service);
	while (service->sandboxes->wakes && woken < WAKES_PER_TICK &&
	       (sandbox = sandbox_next(service, &cursor))) {
		struct err err;

		if (!sandbox->wake_due || sandbox_transition(sandbox) ||
		    sandbox->phase == PHASE_HIBERNATED_RESIDUE)
			continue;
		sandbox->wake_due = false;
		service->sandboxes->wakes--;
		if (sandbox_state(sandbox) != SANDBOX_PAUSED)
			continue;
		woken++;
		if (sandbox_resume(sandbox, 0, NULL, NULL, &err) < 0)
			log_warn("sandbox %s is always on, but could not be resumed: %s",
				 sandbox->id, err.message);
	}
}

bool reboot_is_name(const char *id)
{
	return strncmp(id, PREFIX, strlen(PREFIX)) == 0;
}

bool reboot_listed(struct service_engine *engine, const char *id)
{
	struct sandbox *sandbox;

	if (!reboot_is_name(id))
		return false;
	sandbox = sandbox_by_id(engine->service, str_of(id + strlen(PREFIX)));
	if (!sandbox || sandbox->engine != engine || sandbox->pooled || !sandbox_lives(sandbox))
		return false;
	return snapshot_adopt(sandbox, id) == 0;
}

/* Only the files of the sandbox are left: it becomes hibernated. */
void reboot_keep(struct sandbox *sandbox, struct snapshot *files)
{
	bool ran = sandbox_state(sandbox) == SANDBOX_RUNNING;

	log_info("sandbox %s: the host was rebooted, and the files are kept", sandbox->id);
	sandbox_set_error(sandbox, "the host was rebooted: processes ended, and the files are as "
				   "they were last written to disk");
	pause_become_hibernated(sandbox, files);
	if (!ran) { /* it was frozen: it is still paused, but its memory is lost */
		event_state(sandbox, sandbox_state_names[SANDBOX_PAUSED]);
		usage_changed(sandbox);
	}
	if (ran && sandbox->attrs.always_on) {
		sandbox->wake_due = true;
		sandbox->service->sandboxes->wakes++;
	}
	pause_release(sandbox);
}

int64_t reboot_alive_ms(const struct service *service)
{
	return service->sandboxes->alive_ms;
}

void reboot_set_alive(struct service *service, int64_t alive_ms)
{
	service->sandboxes->alive_ms = alive_ms;
}

bool reboot_happened(const struct service *service)
{
	return service->sandboxes->rebooted;
}
