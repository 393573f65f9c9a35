/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/run_internal.h"
#include "service/run/code_private.h"
#include "service/run/exec_private.h"
#include "service/run/process_internal.h"
#include "service/run/run_private.h"
#include "service/run/window_private.h"

#define EXECS_MAX 65536
#define FOLLOWS_MAX 65536
#define WINDOW_CALLS_MAX 16384
#define CODE_JOBS_MAX 4096

struct runs *runs_new(void)
{
	struct runs *runs = calloc(1, sizeof(*runs));

	if (!runs)
		return NULL;
	slot_init(&runs->execs, EXECS_MAX);
	slot_init(&runs->follows, FOLLOWS_MAX);
	slot_init(&runs->window_calls, WINDOW_CALLS_MAX);
	slot_init(&runs->code_jobs, CODE_JOBS_MAX);
	return runs;
}

void runs_stop(struct service *service)
{
	window_stop_all(service);
	code_stop_all(service);
	exec_stop_all(service);
	follow_stop_all(service);
	exit_watch_stop_all(service);
	start_stop_all(service);
}

void runs_close(struct service *service)
{
	struct runs *runs = service->runs;

	slot_done(&runs->execs);
	slot_done(&runs->follows);
	slot_done(&runs->window_calls);
	slot_done(&runs->code_jobs);
	free(runs);
}
