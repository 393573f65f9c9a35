/* SPDX-License-Identifier: Apache-2.0 */
/* Writes processes, their ends and code contexts as REST objects. */
#include <stdio.h>

#include "base/time.h"
#include "face/rest/write.h"
#include "service/run/code.h"
#include "service/run/process.h"

static void put_known(struct json_writer *w, const char *key, bool known, uint64_t value)
{
	if (known)
		json_put_int(w, key, (int64_t)MIN(value, (uint64_t)INT64_MAX));
	else
		json_put_null(w, key);
}

static void write_how(const struct process_status *status, struct json_writer *w)
{
	bool ended = status->reason != NULL;
	bool gone = ended && strcmp(status->reason, "sandbox_gone") == 0;

	put_known(w, "exit_code", ended && !gone, (uint64_t)MAX(status->exit_code, 0));
	put_known(w, "signal", ended && status->signal > 0, (uint64_t)MAX(status->signal, 0));
	json_put_text(w, "reason", status->reason);
	json_put_real(w, "duration_ms", (double)status->duration_us / 1000);
}

static void write_memory(const struct process_status *status, struct json_writer *w)
{
	put_known(w, "memory_limit_bytes", status->memory_limit_bytes != 0,
		  status->memory_limit_bytes);
	put_known(w, "memory_peak_bytes", status->memory_peak_bytes != 0,
		  status->memory_peak_bytes);
	json_put_int(w, "oom_kills", status->oom_kills);
}

void process_write_end(const struct process_status *status, struct json_writer *w)
{
	write_how(status, w);
	put_known(w, "stdout_bytes", true, status->out_total);
	put_known(w, "stderr_bytes", true, status->err_total);
	write_memory(status, w);
}

void process_write(const struct process_info *info, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_int(w, "process_id", info->process_id);
	json_put_int(w, "pid", info->pid);
	json_put_text(w, "name", info->name[0] && !info->window ? info->name : NULL);
	json_put_text(w, "command", info->command);
	json_put_text(w, "user", info->user);
	json_put_text(w, "state", info->status.reason ? "exited" : "running");
	json_put_bool(w, "tty", info->tty);
	put_known(w, "cols", info->tty, info->cols);
	put_known(w, "rows", info->tty, info->rows);
	json_put_text(w, "window", info->window ? info->name : NULL);
	json_put_time(w, "started_at", info->started_ms);
	write_how(&info->status, w);
	put_known(w, "stdout_cursor", true, info->status.out_total);
	put_known(w, "stderr_cursor", true, info->status.err_total);
	put_known(w, "stdout_begin", true, info->out_begin);
	put_known(w, "stderr_begin", true, info->err_begin);
	json_put_bool(w, "stdin_open", info->stdin_open);
	write_memory(&info->status, w);
	json_end_object(w);
}

void orphan_write(const struct process_info *info, struct json_writer *w, const char *key)
{
	char id[16];

	(void)snprintf(id, sizeof(id), "pid:%u", info->pid);
	json_begin_object(w, key);
	json_put_text(w, "id", id);
	json_put_int(w, "pid", info->pid);
	json_put_text(w, "command", info->command);
	json_put_text(w, "user", info->user);
	json_put_time(w, "started_at", info->started_ms);
	json_end_object(w);
}

void code_context_write(const struct code_context *context, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_text(w, "id", context->id);
	json_put_text(w, "language", context->language);
	json_put_text(w, "cwd", context->cwd);
	json_put_int(w, "process_id", context->process_id);
	json_put_time(w, "started_at", context->started_ms);
	json_end_object(w);
}
