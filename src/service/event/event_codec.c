/* SPDX-License-Identifier: Apache-2.0 */
/* The stored form of an event's data, and the body of a webhook's request. Both are JSON. */
#include "base/json.h"
#include "service/event/event_internal.h"

static struct json_writer writer_of(const struct event_draft *draft)
{
	return (struct json_writer){
		.out = draft->out, .error = draft->error, .depth = 1, .comma = draft->comma
	};
}

static void keep(struct event_draft *draft, const struct json_writer *w)
{
	draft->error = w->error;
	draft->comma = w->comma;
}

struct event_draft event_draft(struct buf *out)
{
	struct event_draft draft = { .out = out };
	struct json_writer w;

	buf_clear(out);
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	keep(&draft, &w);
	return draft;
}

int event_draft_end(struct event_draft *draft, struct str *ret)
{
	struct json_writer w = writer_of(draft);
	int r;

	json_end_object(&w);
	r = json_writer_end(&w);
	if (r == 0)
		*ret = buf_str(draft->out);
	return r;
}

void event_put_text(struct event_draft *draft, const char *key, const char *value)
{
	struct json_writer w = writer_of(draft);

	json_put_text(&w, key, value);
	keep(draft, &w);
}

void event_put_int(struct event_draft *draft, const char *key, int64_t value)
{
	struct json_writer w = writer_of(draft);

	json_put_int(&w, key, value);
	keep(draft, &w);
}

void event_put_bool(struct event_draft *draft, const char *key, bool value)
{
	struct json_writer w = writer_of(draft);

	json_put_bool(&w, key, value);
	keep(draft, &w);
}

void event_put_time(struct event_draft *draft, const char *key, int64_t real_ms)
{
	struct json_writer w = writer_of(draft);

	json_put_time(&w, key, real_ms);
	keep(draft, &w);
}

static void put_known(struct json_writer *w, const char *key, bool known, uint64_t value)
{
	if (known)
		json_put_int(w, key, (int64_t)MIN(value, (uint64_t)INT64_MAX));
	else
		json_put_null(w, key);
}

void event_put_end(struct event_draft *draft, const struct process_status *status)
{
	struct json_writer w = writer_of(draft);
	bool ended = status->reason != NULL;
	bool gone = ended && strcmp(status->reason, "sandbox_gone") == 0;

	put_known(&w, "exit_code", ended && !gone, (uint64_t)MAX(status->exit_code, 0));
	put_known(&w, "signal", ended && status->signal > 0, (uint64_t)MAX(status->signal, 0));
	json_put_text(&w, "reason", status->reason);
	json_put_real(&w, "duration_ms", (double)status->duration_us / 1000);
	put_known(&w, "stdout_bytes", true, status->out_total);
	put_known(&w, "stderr_bytes", true, status->err_total);
	put_known(&w, "memory_limit_bytes", status->memory_limit_bytes != 0,
		  status->memory_limit_bytes);
	put_known(&w, "memory_peak_bytes", status->memory_peak_bytes != 0,
		  status->memory_peak_bytes);
	json_put_int(&w, "oom_kills", status->oom_kills);
	keep(draft, &w);
}

int event_encode(const struct event *event, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_put_int(&w, "id", event->id);
	json_put_text(&w, "type", event->type);
	json_put_time(&w, "at", event->ms);
	json_put_text(&w, "sandbox_id", event->sandbox_id[0] ? event->sandbox_id : NULL);
	json_put_text(&w, "external_workspace_id", event->external_workspace_id);
	json_put_raw(&w, "data", event->data);
	json_end_object(&w);
	return json_writer_end(&w);
}
