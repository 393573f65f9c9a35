/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sandboxes and what belongs to one as REST objects. */
#include "face/kit/json/pairs.h"
#include "face/rest/write.h"
#include "service/copy/snapshot.h"
#include "service/network/preview.h"
#include "service/secret/secret.h"
#include "service/template/template.h"

static void write_grants(const struct grants *grants, struct json_writer *w)
{
	json_begin_array(w, "secrets");
	for (size_t i = 0; grants && i < grants->count; i++) {
		const struct grant *g = &grants->list[i];

		if (g->way == GRANT_SCRUB)
			continue;
		json_begin_object(w, NULL);
		json_put_text(w, "name", g->secret->name);
		json_put_text(w, "secret_id", g->secret->id);
		json_put_text(w, "as", grant_way_names[g->way]);
		json_put_text(w, "env", g->env);
		secret_write_hosts(g->hosts, w, "hosts");
		json_put_bool(w, "deleted", g->secret->deleted_ms != 0);
		json_end_object(w);
	}
	json_end_array(w);
}

static void write_rules(const struct egress_rule *rules, uint32_t count, struct json_writer *w,
			const char *key)
{
	json_begin_array(w, key);
	for (uint32_t i = 0; i < count; i++)
		json_put_text(w, NULL, rules[i].text);
	json_end_array(w);
}

static void write_network(const struct egress_policy *policy, struct json_writer *w)
{
	static const struct egress_policy none = { .mode = NETWORK_NONE };

	if (!policy)
		policy = &none;
	json_begin_object(w, "network");
	json_put_text(w, "mode", network_mode_names[policy->mode]);
	write_rules(policy->allow, policy->allow_count, w, "allow");
	write_rules(policy->deny, policy->deny_count, w, "deny");
	json_put_bool(w, "learn", policy->learn);
	json_end_object(w);
}

static void write_pause(const struct sandbox_view *view, struct json_writer *w)
{
	if (view->state != SANDBOX_PAUSED) {
		json_put_null(w, "pause_kind");
		json_put_null(w, "memory_preserved");
		return;
	}
	json_put_text(w, "pause_kind", pause_kind_names[view->pause_kind]);
	json_put_bool(w, "memory_preserved", view->memory_preserved);
}

static void write_sizes(const struct sandbox_view *view, struct json_writer *w)
{
	json_put_milli(w, "cpu_count", view->cpu_milli);
	json_put_int(w, "memory_mb", view->memory_mb);
	json_put_int(w, "disk_size_mb", view->disk_size_mb);
	json_put_text(w, "disk_limit", view->disk_enforced ? "enforced" : "unenforced");
}

static void write_times(const struct sandbox_view *view, struct json_writer *w)
{
	json_put_int(w, "timeout_sec", view->timeout_sec);
	json_put_int(w, "idle_timeout_sec", view->idle_timeout_sec);
	json_put_bool(w, "always_on", view->always_on);
	json_put_text(w, "on_timeout", on_timeout_names[view->on_timeout]);
	json_put_bool(w, "auto_resume", view->auto_resume);
	if (view->started_ms)
		json_put_real(w, "boot_ms", (double)view->boot_us / 1000);
	else
		json_put_null(w, "boot_ms");
	json_put_text(w, "boot_path", sandbox_boot_names[view->boot]);
	json_put_time(w, "created_at", view->created_ms);
	json_put_time(w, "started_at", view->started_ms);
	json_put_time(w, "expires_at", view->expires_ms);
	json_put_time(w, "idle_expires_at", view->idle_expires_ms);
}

void sandbox_write(const struct sandbox *sandbox, struct json_writer *w, const char *key)
{
	struct sandbox_view view;
	char url[PREVIEW_URL_SIZE];
	uint16_t port;

	sandbox_view(sandbox, &view);
	port = view.template->preview_port;
	json_begin_object(w, key);
	json_put_text(w, "id", view.id);
	json_put_text(w, "name", view.name);
	json_put_text(w, "state", sandbox_state_names[view.state]);
	json_put_text(w, "state_reason", sandbox_reason_name(view.reason));
	json_put_text(w, "template_id", view.template->name);
	json_put_text(w, "engine", view.engine);
	write_sizes(&view, w);
	write_times(&view, w);
	pairs_write(view.metadata, w, "metadata");
	write_grants(view.grants, w);
	json_put_text(w, "external_workspace_id", view.external_workspace_id);
	write_network(view.network, w);
	write_pause(&view, w);
	json_begin_object(w, "pool_checkout");
	json_put_bool(w, "hit", view.boot == BOOT_POOL);
	json_put_text(w, "mode", pool_mode_names[view.pool_mode]);
	json_end_object(w);
	json_put_text(w, "preview_url", port && preview_url(sandbox, port, url) ? url : NULL);
	json_put_text(w, "last_error", view.last_error);
	json_end_object(w);
}

void sandbox_write_history(const struct sandbox *sandbox, struct json_writer *w, const char *key)
{
	struct sandbox_sample s;
	uint32_t at = 0;

	json_begin_array(w, key);
	while (sandbox && sandbox_history_next(sandbox, &at, &s)) {
		json_begin_object(w, NULL);
		json_put_time(w, "at", s.at_ms);
		if (s.has_cpu)
			json_put_real(w, "cpu_percent", s.cpu_percent);
		else
			json_put_null(w, "cpu_percent");
		json_put_int(w, "memory_bytes", (int64_t)s.memory_bytes);
		json_put_int(w, "pids", (int64_t)s.pids);
		json_put_int(w, "disk_bytes", (int64_t)s.disk_bytes);
		json_end_object(w);
	}
	json_end_array(w);
}

void snapshot_write(const struct snapshot *s, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_text(w, "id", s->id);
	json_put_text(w, "sandbox_id", s->sandbox_id);
	json_put_text(w, "kind", s->memory ? "full" : "filesystem");
	json_put_bool(w, "memory_preserved", s->memory);
	json_put_text(w, "memory_error", s->memory_error);
	json_put_text(w, "state", s->state == SNAPSHOT_MISSING ? "missing" : "ready");
	json_put_text(w, "template_id", s->template->name);
	json_put_text(w, "engine", snapshot_engine(s));
	json_put_int(w, "size_bytes", (int64_t)s->size_bytes);
	json_put_time(w, "created_at", s->created_ms);
	json_put_time(w, "expires_at", snapshot_expires_ms(s));
	json_put_text(w, "comment", s->comment);
	json_end_object(w);
}

void preview_write(const struct sandbox *sandbox, const struct preview *preview,
		   struct json_writer *w, const char *key)
{
	char url[PREVIEW_URL_SIZE];

	json_begin_object(w, key);
	json_put_text(w, "id", preview->id);
	json_put_text(w, "sandbox_id", sandbox_id(sandbox));
	json_put_int(w, "port", preview->port);
	json_put_text(w, "visibility", preview_visibility_names[preview->visibility]);
	json_put_text(w, "host_header", preview_host_names[preview->host]);
	json_put_text(w, "url",
		      preview->port && preview_url(sandbox, preview->port, url) ? url : NULL);
	json_put_time(w, "created_at", preview->created_ms);
	json_put_time(w, "expires_at", preview_expires_ms(sandbox, preview));
	json_put_int(w, "share_tokens", preview->token_count);
	json_put_int(w, "requests", (int64_t)preview->requests);
	json_put_int(w, "bytes_in", (int64_t)preview->bytes_in);
	json_put_int(w, "bytes_out", (int64_t)preview->bytes_out);
	json_put_int(w, "connections", (int64_t)preview->connections);
	json_put_int(w, "open", preview->open);
	json_end_object(w);
}

static void on_denial(void *arg, const struct egress_denial *denial)
{
	struct json_writer *w = arg;

	json_begin_object(w, NULL);
	json_put_text(w, "host", denial->host);
	if (denial->port)
		json_put_int(w, "port", denial->port);
	else
		json_put_null(w, "port");
	json_put_text(w, "protocol", denial->protocol);
	json_put_text(w, "reason", egress_why_name(denial->why));
	json_put_text(w, "rule", denial->rule);
	json_put_text(w, "suggestion", denial->suggestion);
	json_put_bool(w, "passed", denial->why == EGRESS_LEARNED);
	json_put_int(w, "count", (int64_t)denial->count);
	json_put_time(w, "first_at", denial->first_ms);
	json_put_time(w, "last_at", denial->last_ms);
	json_end_object(w);
}

void egress_write_denials(const struct sandbox *sandbox, struct json_writer *w)
{
	egress_denials_each(sandbox, on_denial, w);
}
