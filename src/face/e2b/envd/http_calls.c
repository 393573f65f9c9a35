/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of envd that are plain HTTP, not Connect procedures. */
#include "base/time.h"
#include "face/e2b/envd/envd.h"
#include "service/template/template.h"

static void answer_envs(struct e2b_call *call)
{
	struct json_writer w = e2b_answer_begin(call->e2b);
	const struct pairs *sources[2];
	struct sandbox_view view;
	const char *record;
	char name[257];

	sandbox_view(call->sandbox, &view);
	sources[0] = view.env;
	sources[1] = &view.template->env;
	json_begin_object(&w, NULL);
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		for (uint32_t at = 0; pairs_next(sources[i], &at, &record);) {
			size_t n = strcspn(record, "=");

			if (str_copy(name, sizeof(name), (struct str){ record, n }) == 0 &&
			    !(i && pairs_get(sources[0], str_of(name))))
				json_put_text(&w, name, record + n + 1);
		}
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

static void on_metrics(void *arg, const struct sandbox_metrics *m, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	int64_t cpus = pending->count;
	struct json_writer w;

	if (!e2b_pending_done(pending, err))
		return;
	w = e2b_answer_begin(call->e2b);
	json_begin_object(&w, NULL);
	json_put_int(&w, "ts", time_real_ms() / 1000);
	json_put_int(&w, "cpu_count", cpus);
	json_put_real(&w, "cpu_used_pct", m->cpu_percent / (double)MAX(cpus, 1));
	json_put_int(&w, "mem_total", (int64_t)m->memory_limit_bytes);
	json_put_int(&w, "mem_used", (int64_t)m->memory_bytes);
	json_put_int(&w, "mem_cache", 0);
	json_put_int(&w, "mem_total_mib", (int64_t)(m->memory_limit_bytes >> 20));
	json_put_int(&w, "mem_used_mib", (int64_t)(m->memory_bytes >> 20));
	json_put_int(&w, "disk_used", (int64_t)m->disk_bytes);
	json_put_int(&w, "disk_total", (int64_t)m->disk_limit_bytes);
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

static void answer_metrics(struct e2b_call *call)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	pending->count = sandbox_cpus(call->sandbox);
	e2b_pending_begun(pending, sandbox_metrics(call->sandbox, on_metrics, pending, &err), &err);
}

static void answer_health(struct e2b_call *call)
{
	const struct sandbox *sandbox = call->sandbox;

	if (sandbox_state(sandbox) == SANDBOX_RUNNING)
		e2b_answer_empty(call, 204);
	else
		e2b_answer_no_sandbox(call, str_of(sandbox_id(sandbox)),
				      "The sandbox is not running");
}

/* A browser's preflight; the request that follows still needs the token. */
void plain_preflight(struct e2b_call *call)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
		{ STR_LIT("Access-Control-Allow-Methods"),
		  STR_LIT("HEAD, GET, POST, PUT, PATCH, DELETE") },
		{ STR_LIT("Access-Control-Allow-Headers"), STR_LIT("*") },
		{ STR_LIT("Access-Control-Max-Age"), STR_LIT("7200") },
	};

	http_reply(call->req, 204, headers, ARRAY_LEN(headers), (struct str){ "", 0 });
}

#define TOKEN 0, ROUTE_TOKEN

static const struct e2b_route plains[] = {
	{ ROUTE(GET, "/health", 0, ROUTE_OPEN), answer_health },
	{ ROUTE(GET, "/files", TOKEN), e2b_files_get },
	{ ROUTE(POST, "/files", TOKEN), e2b_files_post },
	{ ROUTE(GET, "/envs", TOKEN), answer_envs },
	{ ROUTE(GET, "/metrics", TOKEN), answer_metrics },
};

const struct route_table e2b_plain_table = { .face = "envd", ROUTE_ROWS(plains) };
