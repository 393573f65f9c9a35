/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics and logs of a sandbox. */
#include <stdio.h>

#include "base/time.h"
#include "face/e2b/call.h"
#include "service/event/bus.h"

#define MEBI (1024 * 1024LL)
#define LOGS_MAX PAGE_LIMIT_MAX

/* ---- metrics ---- */

static void write_figures(const struct sandbox *sandbox, const struct sandbox_sample *sample,
			  struct json_writer *w, const char *key)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	json_begin_object(w, key);
	json_put_time(w, "timestamp", sample->at_ms);
	json_put_int(w, "timestampUnix", sample->at_ms / 1000);
	json_put_int(w, "cpuCount", sandbox_cpus(sandbox));
	/* Of all processors of the sandbox together, as envd's cpu_used_pct. */
	json_put_real(w, "cpuUsedPct",
		      sample->has_cpu ? sample->cpu_percent / MAX(sandbox_cpus(sandbox), 1) : 0);
	json_put_int(w, "memUsed", (int64_t)sample->memory_bytes);
	json_put_int(w, "memTotal", view.memory_mb * MEBI);
	json_put_int(w, "memCache", 0);
	json_put_int(w, "diskUsed", (int64_t)sample->disk_bytes);
	json_put_int(w, "diskTotal", view.disk_size_mb * MEBI);
	json_end_object(w);
}

static void write_history(const struct sandbox *sandbox, int64_t from_ms, int64_t to_ms,
			  struct json_writer *w)
{
	struct sandbox_sample sample;
	uint32_t at = 0;

	while (sandbox_history_next(sandbox, &at, &sample))
		if (sample.at_ms >= from_ms && sample.at_ms <= to_ms)
			write_figures(sandbox, &sample, w, NULL);
}

static void write_last(const struct sandbox *sandbox, struct json_writer *w)
{
	struct sandbox_sample sample;
	uint32_t at = 0;
	bool any = false;

	while (sandbox_history_next(sandbox, &at, &sample))
		any = true;
	if (any)
		write_figures(sandbox, &sample, w, sandbox_id(sandbox));
}

static int64_t query_ms(struct e2b_call *call, const char *name, int64_t fallback)
{
	struct str value = { NULL, 0 };
	uint64_t sec;

	if (http_req_query(call->req, name, &value) <= 0 ||
	    str_to_u64(value, INT64_MAX / 1000 - 1, &sec) < 0)
		return fallback;
	return (int64_t)sec * 1000;
}

static void answer_history(struct e2b_call *call, const struct sandbox *sandbox)
{
	struct json_writer w = e2b_answer_begin(call->e2b);

	json_begin_array(&w, NULL);
	/* The bounds have whole seconds: the last second is included. */
	write_history(sandbox, query_ms(call, "start", 0),
		      query_ms(call, "end", INT64_MAX - 1000) + 999, &w);
	json_end_array(&w);
	e2b_answer_send(call, 200, &w);
}

static void on_metrics(void *arg, const struct sandbox_metrics *metrics, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct sandbox *sandbox = sandbox_get(pending->e2b->service, pending->sandbox);
	struct err gone;

	(void)metrics; /* it is the newest sample of the history */
	if (!e2b_pending_end(pending))
		return;
	if (!err && !sandbox) {
		(void)err_set(&gone, ERR_SANDBOX_NOT_FOUND, "the sandbox ended");
		err = &gone;
	}
	if (err)
		e2b_answer_error(call, err);
	else
		answer_history(call, sandbox);
}

void e2b_metrics_of_one(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct e2b_pending *pending;
	struct err err;

	if (!sandbox)
		return;
	if (sandbox_state(sandbox) != SANDBOX_RUNNING) {
		answer_history(call, sandbox);
		return;
	}
	pending = e2b_pending_new(call);
	if (!pending)
		return;
	pending->sandbox = sandbox_handle(sandbox);
	e2b_pending_begun(pending, sandbox_metrics(sandbox, on_metrics, pending, &err), &err);
}

/* Only the last sample of each sandbox: a list must not start measurements. */
void e2b_metrics_of_many(struct e2b_call *call)
{
	bool ok = true;
	struct str ids = call_query(call, "sandbox_ids", &ok), one, rest;
	struct json_writer w;

	if (!ok)
		return;
	w = e2b_answer_begin(call->e2b);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "sandboxes");
	while (ids.n) {
		const struct sandbox *sandbox;
		struct err err;

		if (!str_cut(ids, ',', &one, &rest)) {
			one = ids;
			rest = (struct str){ "", 0 };
		}
		ids = rest;
		sandbox = sandbox_find(call->e2b->service, call->key, one, &err);
		if (sandbox)
			write_last(sandbox, &w);
	}
	json_end_object(&w);
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

/* ---- logs: the events of the sandbox ---- */

struct log_query {
	int64_t after_ms, limit;
	bool old;
};

static enum bus_answer on_event(void *arg, const struct event *event)
{
	struct e2b_pending *pending = arg;
	const struct log_query *q = pending->data;
	char line[256];

	if (event->ms < q->after_ms)
		return BUS_MORE;
	json_begin_object(&pending->w, NULL);
	json_put_time(&pending->w, "timestamp", event->ms);
	(void)snprintf(line, sizeof(line), "%s", event->type);
	if (q->old) {
		json_put_text(&pending->w, "line", line);
	} else {
		json_put_text(&pending->w, "level", "info");
		json_put_text(&pending->w, "message", line);
		json_begin_object(&pending->w, "fields");
		json_put_str(&pending->w, "data", event->data);
		json_end_object(&pending->w);
	}
	json_end_object(&pending->w);
	return ++pending->count >= q->limit ? BUS_END : BUS_MORE;
}

static enum bus_answer on_gap(void *arg, const struct bus_gap *gap)
{
	(void)arg;
	(void)gap;
	return BUS_MORE;
}

static void on_end(void *arg, bool more)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	bool old = ((struct log_query *)pending->data)->old;
	struct buf text = pending->list;
	struct json_writer w = pending->w;
	struct http_req *req;

	(void)more;
	buf_init(&pending->list, 1);
	free(pending->data);
	req = e2b_pending_end(pending);
	w.out = &text;
	json_end_array(&w);
	if (old) {
		json_begin_array(&w, "logEntries");
		json_end_array(&w);
	}
	json_end_object(&w);
	if (req)
		e2b_answer_send(call, 200, &w);
	buf_done(&text);
}

void e2b_logs_read(struct e2b_call *call)
{
	static const struct bus_hooks hooks = { .on_event = on_event,
						.on_gap = on_gap,
						.on_end = on_end };
	struct bus_filter filter = { .types = EVENT_ALL };
	struct log_query *q;
	struct e2b_pending *pending;
	struct bus_reader *reader;
	bool alive, ok = true;
	struct str cursor = call_query(call, "cursor", &ok), limit = call_query(call, "limit", &ok);
	int64_t number = 0, most = LOGS_MAX;
	struct err err;

	if (!ok)
		return;
	if (page_cursor_parse(cursor, &number) < 0 || page_limit_parse(limit, &most) < 0) {
		e2b_answer_status(call, 400, "cursor or limit is not a number in its range");
		return;
	}
	if (bus_find_sandbox(call->e2b->service, call->key, call->args[0], filter.sandbox_id,
			     &alive, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	q = calloc(1, sizeof(*q));
	pending = q ? e2b_pending_new(call) : NULL;
	if (!pending) {
		free(q);
		return;
	}
	*q = (struct log_query){ number, most, call->route->arg == 1 };
	pending->data = q;
	json_begin_object(&pending->w, NULL);
	json_begin_array(&pending->w, "logs");
	if (bus_read(call->e2b->service, &(struct bus_ask){ &filter, 0, false }, &hooks, pending,
		     &reader, &err) < 0) {
		free(q);
		e2b_pending_begun(pending, -1, &err);
	}
}
