/* SPDX-License-Identifier: Apache-2.0 */
/* Information about a sandbox besides the sandbox object: environment, denials, metrics. */
#include "face/rest/call.h"
#include "service/template/template.h"

/* The template's variables, overridden by the sandbox's own. */
void sandboxes_env(struct rest_call *call)
{
	const struct sandbox *sandbox = answer_find(call);
	struct sandbox_view view;
	const char *record;
	struct json_writer w;
	uint32_t at = 0;
	char name[257];

	if (!sandbox)
		return;
	sandbox_view(sandbox, &view);
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "env");
	for (int own = 1; own >= 0; own--) {
		const struct pairs *pairs = own ? view.env : &view.template->env;

		for (at = 0; pairs_next(pairs, &at, &record);) {
			struct str k, v;

			if (!str_cut(str_of(record), '=', &k, &v) ||
			    str_copy(name, sizeof(name), k) < 0 || (!own && pairs_get(view.env, k)))
				continue;
			json_put_str(&w, name, v);
		}
	}
	json_end_object(&w);
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}

static void write_pressure(const struct sandbox_metrics *m, struct json_writer *w)
{
	static const char *const names[STALL_COUNT] = {
		[STALL_CPU] = "cpu",
		[STALL_MEMORY] = "memory",
		[STALL_IO] = "io",
	};

	if (!m->has_stall) {
		json_put_null(w, "pressure");
		return;
	}
	json_begin_object(w, "pressure");
	for (size_t i = 0; i < STALL_COUNT; i++) {
		json_begin_object(w, names[i]);
		json_put_milli(w, "some_percent", (int64_t)m->stall[i].some_percent * 10);
		json_put_int(w, "some_us", (int64_t)m->stall[i].some_us);
		json_put_milli(w, "full_percent", (int64_t)m->stall[i].full_percent * 10);
		json_put_int(w, "full_us", (int64_t)m->stall[i].full_us);
		json_end_object(w);
	}
	json_end_object(w);
}

static void on_metrics(void *arg, const struct sandbox_metrics *m, const struct err *err)
{
	struct rest_pending *pending = arg;
	const struct sandbox *sandbox = sandbox_get(pending->rest->service, pending->sandbox);
	struct reply reply;

	if (!reply_begin(pending, err, &reply))
		return;
	json_put_int(&reply.w, "cpu_us", (int64_t)m->cpu_us);
	json_put_int(&reply.w, "memory_bytes", (int64_t)m->memory_bytes);
	json_put_int(&reply.w, "memory_peak_bytes", (int64_t)m->memory_peak_bytes);
	json_put_int(&reply.w, "memory_limit_bytes", (int64_t)m->memory_limit_bytes);
	json_put_int(&reply.w, "pids", (int64_t)m->pids);
	json_put_int(&reply.w, "disk_bytes", (int64_t)m->disk_bytes);
	json_put_int(&reply.w, "disk_limit_bytes", (int64_t)m->disk_limit_bytes);
	json_put_int(&reply.w, "oom_kills", (int64_t)m->oom_kills);
	json_put_int(&reply.w, "network_sent_bytes", (int64_t)m->sent_bytes);
	json_put_int(&reply.w, "network_received_bytes", (int64_t)m->received_bytes);
	write_pressure(m, &reply.w);
	sandbox_write_history(sandbox, &reply.w, "history");
	reply_send(&reply);
}

void sandboxes_metrics(struct rest_call *call)
{
	struct sandbox *sandbox = answer_find(call);
	struct rest_pending *pending;
	struct err err = { .code = ERR_UNAVAILABLE };

	if (!sandbox)
		return;
	pending = pending_new(call);
	if (pending)
		pending->sandbox = sandbox_handle(sandbox);
	if (pending && sandbox_metrics(sandbox, on_metrics, pending, &err) == 0)
		return;
	if (pending)
		(void)pending_end(pending);
	answer_error(call->rest, call->req, &err);
}

void sandboxes_denials(struct rest_call *call)
{
	const struct sandbox *sandbox = answer_find(call);
	struct json_writer w;

	if (!sandbox)
		return;
	w = page_begin(call);
	egress_write_denials(sandbox, &w);
	page_send(call, &w, NULL);
}
