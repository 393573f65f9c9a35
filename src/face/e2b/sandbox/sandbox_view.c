/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a sandbox in E2B's form. */
#include "base/time.h"
#include "face/e2b/call.h"
#include "face/kit/json/pairs.h"
#include "service/network/preview.h"
#include "service/template/template.h"

#define NEVER_MS (365LL * 24 * 3600 * 1000)

/* ---- access to ports ---- */

int session_open_ports(struct e2b *e2b, const struct sandbox *made, enum e2b_ports ports,
		       struct err *err)
{
	bool open = (ports & E2B_PORTS_ACCESS) == E2B_PORTS_OPEN;
	struct preview_spec spec = { .port = 0,
				     .visibility = open ? PREVIEW_PUBLIC : PREVIEW_PRIVATE,
				     .host = ports & E2B_PORTS_LOCAL ? PREVIEW_HOST_LOCALHOST
								     : PREVIEW_HOST_PREVIEW };
	struct sandbox *sandbox = sandbox_get(e2b->service, sandbox_handle(made));
	const struct preview *preview;
	struct err ignored;

	if (ports == E2B_PORTS_AS_OURS)
		return 0;
	if (!sandbox)
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox ended");
	if (preview_create(sandbox, &spec, &preview, err) == 0)
		return 0;
	(void)!sandbox_destroy(sandbox, REASON_REQUESTED, &ignored);
	return -1;
}

enum e2b_ports session_ports(const struct sandbox *sandbox)
{
	const struct preview *every = preview_every(sandbox);

	if (!every)
		return E2B_PORTS_AS_OURS;
	return (enum e2b_ports)(
		(every->visibility == PREVIEW_PUBLIC ? E2B_PORTS_OPEN : E2B_PORTS_TOKEN) |
		(every->host == PREVIEW_HOST_LOCALHOST ? E2B_PORTS_LOCAL : 0));
}

/* ---- objects ---- */

static void write_names(const struct sandbox_view *view, struct json_writer *w)
{
	json_put_text(w, "sandboxID", view->id);
	json_put_text(w, "templateID", view->template->name);
	json_put_text(w, "alias", view->template->name);
	json_put_text(w, "clientID", "cay");
	json_put_text(w, "envdVersion", E2B_ENVD_VERSION);
}

static void write_token(const struct sandbox *sandbox, struct json_writer *w)
{
	char token[ACCESS_TOKEN_SIZE];

	access_token(sandbox, token);
	json_put_text(w, "envdAccessToken", token);
}

void sandbox_view_write(const struct e2b *e2b, const struct sandbox *sandbox, struct json_writer *w,
			const char *key)
{
	char token[ACCESS_TOKEN_SIZE];
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	json_begin_object(w, key);
	write_names(&view, w);
	write_token(sandbox, w);
	json_put_text(w, "domain", e2b->config.domain);
	access_traffic_token(sandbox, token);
	json_put_text(w, "trafficAccessToken", token);
	json_end_object(w);
}

/* Clients compute with the end time, so a sandbox without one shows a time in a year. */
static void write_figures(const struct sandbox_view *view, struct json_writer *w)
{
	json_put_int(w, "cpuCount", (view->cpu_milli + 999) / 1000);
	json_put_int(w, "memoryMB", view->memory_mb);
	json_put_int(w, "diskSizeMB", view->disk_size_mb);
	json_put_time(w, "startedAt", view->started_ms ? view->started_ms : view->created_ms);
	json_put_time(w, "endAt", view->expires_ms ? view->expires_ms : time_real_ms() + NEVER_MS);
	json_put_text(w, "state", view->state == SANDBOX_PAUSED ? "paused" : "running");
	pairs_write(view->metadata, w, "metadata");
	json_begin_array(w, "volumeMounts");
	json_end_array(w);
}

void sandbox_view_write_listed(const struct sandbox *sandbox, struct json_writer *w)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	json_begin_object(w, NULL);
	write_names(&view, w);
	write_figures(&view, w);
	json_end_object(w);
}

void sandbox_view_write_detail(const struct e2b_call *call, const struct sandbox *sandbox,
			       struct json_writer *w)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	json_begin_object(w, NULL);
	write_names(&view, w);
	if (key_may(call->key, E2B_ENTER))
		write_token(sandbox, w);
	json_put_text(w, "domain", call->e2b->config.domain);
	write_figures(&view, w);
	json_begin_object(w, "lifecycle");
	json_put_text(w, "onTimeout", view.on_timeout == ON_TIMEOUT_DESTROY ? "kill" : "pause");
	json_put_bool(w, "autoResume", view.auto_resume);
	json_end_object(w);
	network_write(sandbox, w);
	json_end_object(w);
}
