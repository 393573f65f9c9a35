/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short history of a sandbox's resource use: a sample every ten seconds, while it runs and a
 * client has requested metrics within the last ten minutes. Otherwise nothing is measured or kept.
 */
#include "base/time.h"
#include "service/sandbox/sandbox_private.h"

#define SAMPLES 60
#define SAMPLE_TICKS 10
#define RATE_MIN_US 500000 /* shorter intervals give no useful CPU rate */
#define ASKED_MS (10 * 60 * 1000LL)

struct sample {
	int64_t ms, mono_us;
	uint64_t cpu_us, memory_bytes, pids, disk_bytes;
};

/* Owner: the sandbox. */
struct history {
	int64_t asked_ms; /* boot clock */
	uint32_t next;	  /* number of samples ever written */
	bool asking;
	struct sample samples[SAMPLES];
};

static void add(struct history *history, const struct engine_stat *stat)
{
	history->samples[history->next++ % SAMPLES] =
		(struct sample){ .ms = time_real_ms(),
				 .mono_us = time_mono_us(),
				 .cpu_us = stat->cpu_us,
				 .memory_bytes = stat->memory_bytes,
				 .pids = stat->pids,
				 .disk_bytes = stat->disk_bytes };
}

void history_free(struct sandbox *sandbox)
{
	if (!sandbox->history)
		return;
	free(TAKE_PTR(sandbox->history));
	sandbox->service->sandboxes->history_count--;
}

void history_asked(struct sandbox *sandbox)
{
	if (!sandbox->history) {
		sandbox->history = calloc(1, sizeof(*sandbox->history));
		if (!sandbox->history)
			return; /* current values are returned nevertheless */
		sandbox->service->sandboxes->history_count++;
	}
	sandbox->history->asked_ms = time_boot_ms();
}

/* The first measurement is also the first sample. */
void history_first(struct sandbox *sandbox, const struct engine_stat *stat)
{
	if (sandbox->history && !sandbox->history->next)
		add(sandbox->history, stat);
}

double history_cpu_percent(const struct sandbox *sandbox, const struct engine_stat *stat)
{
	const struct history *history = sandbox->history;
	int64_t now_us = time_mono_us(), us;

	for (uint32_t i = 0; history && i < MIN(history->next, SAMPLES); i++) {
		const struct sample *s = &history->samples[(history->next - 1 - i) % SAMPLES];

		us = now_us - s->mono_us;
		if (us >= RATE_MIN_US && stat->cpu_us >= s->cpu_us)
			return 100.0 * (double)(stat->cpu_us - s->cpu_us) / (double)us;
	}
	us = (time_real_ms() - sandbox->started_ms) * 1000;
	return sandbox->started_ms && us > 0 ? 100.0 * (double)stat->cpu_us / (double)us : 0;
}

static void on_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox || !sandbox->history)
		return;
	sandbox->history->asking = false;
	if (!err && sandbox_state(sandbox) == SANDBOX_RUNNING)
		add(sandbox->history, stat);
}

static void sample(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct op *op;
	struct err err;

	if (sandbox_state(sandbox) != SANDBOX_RUNNING || sandbox->history->asking ||
	    !engine->instance.ready || engine->lost)
		return;
	op = op_new(sandbox->service, sandbox->handle, &err);
	if (!op)
		return;
	sandbox->history->asking = true;
	if (instance_stat(&engine->instance, sandbox->id, on_stat, op, &err) < 0) {
		(void)op_end(op);
		sandbox->history->asking = false;
	}
}

void history_tick(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (!service->sandboxes->history_count || service->upkeep.ticks % SAMPLE_TICKS)
		return;
	while ((sandbox = sandbox_next(service, &cursor))) {
		if (!sandbox->history)
			continue;
		if (time_boot_ms() - sandbox->history->asked_ms > ASKED_MS)
			history_free(sandbox);
		else
			sample(sandbox);
	}
}

bool sandbox_history_next(const struct sandbox *sandbox, uint32_t *at, struct sandbox_sample *ret)
{
	const struct history *history = sandbox->history;
	uint32_t first = history && history->next > SAMPLES ? history->next - SAMPLES : 0;
	const struct sample *s, *before;

	if (!history || first + *at >= history->next)
		return false;
	s = &history->samples[(first + *at) % SAMPLES];
	before = *at ? &history->samples[(first + *at - 1) % SAMPLES] : NULL;
	(*at)++;
	*ret = (struct sandbox_sample){ .at_ms = s->ms,
					.memory_bytes = s->memory_bytes,
					.pids = s->pids,
					.disk_bytes = s->disk_bytes };
	if (before && s->mono_us > before->mono_us && s->cpu_us >= before->cpu_us) {
		ret->has_cpu = true;
		ret->cpu_percent = 100.0 * (double)(s->cpu_us - before->cpu_us) /
				   (double)(s->mono_us - before->mono_us);
	}
	return true;
}
