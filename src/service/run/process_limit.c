/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether one more process may run in a sandbox. Only the agent knows how many do: a
 * process without a follow ends unnoticed. The sandbox therefore keeps an upper bound. The agent is
 * asked if the bound is reached, if nothing is known (after a restart), or if a name must be free.
 * All other starts cost nothing.
 */
#include "service/run/process_internal.h"

/* Owner: the list call of the link, which completes once. */
struct admission {
	struct op op;
	uint32_t running;
	uint32_t admissions; /* when the agent was asked */
	bool taken;
	char name[PROCESS_NAME_MAX + 1];
	admit_fn fn;
	void *arg;
};

static uint32_t limit(const struct sandbox *sandbox)
{
	return sandbox->service->config.processes_per_sandbox;
}

static int full(const struct sandbox *sandbox, struct err *err)
{
	return err_set(err, ERR_QUOTA_EXCEEDED,
		       "sandbox %s runs %u processes, its limit (processes_per_sandbox)",
		       sandbox->id, limit(sandbox));
}

static int decide(struct admission *a, struct sandbox *sandbox, struct err *err)
{
	/* Frames keep their order: only those admitted since then are not in the list. */
	uint32_t newer = sandbox->admissions - a->admissions;

	if (a->taken)
		return err_set(err, ERR_CONFLICT, "name: a process named '%s' is running", a->name);
	sandbox->running = (uint16_t)MIN(a->running + newer, RUNNING_UNKNOWN - 1);
	return sandbox->running >= limit(sandbox) ? full(sandbox, err) : 0;
}

static void take(struct sandbox *sandbox)
{
	sandbox->running++;
	sandbox->admissions++;
}

static void on_list(void *arg, const struct link_process_info *info, const struct err *error)
{
	struct admission *a = arg;
	struct sandbox *sandbox;
	struct err err;

	if (info) {
		bool runs = info->status.end == LINK_END_NONE;

		a->running += runs && !info->window;
		if (runs && !info->window && a->name[0] && strcmp(a->name, info->name) == 0)
			a->taken = true;
		return;
	}
	sandbox = op_sandbox(&a->op);
	(void)op_unlink(&a->op);
	if (!sandbox ||
	    !(sandbox_ready(sandbox) || (sandbox->phase == PHASE_INITIALIZING && sandbox->link))) {
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended");
		a->fn(a->arg, NULL, &err);
	} else if (error) {
		a->fn(a->arg, NULL, error);
	} else if (decide(a, sandbox, &err) < 0) {
		a->fn(a->arg, NULL, &err);
	} else {
		take(sandbox);
		a->fn(a->arg, sandbox, NULL);
	}
	free(a);
}

int admit_process(struct sandbox *sandbox, const char *name, admit_fn fn, void *arg,
		  struct err *err)
{
	struct admission *a;

	if (!name && sandbox->running != RUNNING_UNKNOWN && sandbox->running < limit(sandbox)) {
		take(sandbox);
		return 1;
	}
	a = OP_NEW(struct admission, sandbox->service, sandbox->handle, err);
	if (!a)
		return -1;
	a->fn = fn;
	a->arg = arg;
	a->admissions = sandbox->admissions;
	if (name)
		(void)!str_copy(a->name, sizeof(a->name), str_of(name));
	if (link_list(sandbox->link, 0, on_list, a, err) == 0)
		return 0;
	(void)op_end(&a->op);
	return -1;
}

void admit_ended(struct sandbox *sandbox)
{
	if (sandbox->running && sandbox->running != RUNNING_UNKNOWN)
		sandbox->running--;
}
