/* SPDX-License-Identifier: Apache-2.0 */
/* Writes secrets, quotas, usage, webhooks and events as REST objects. */
#include "face/rest/write.h"
#include "service/account/auth.h"
#include "service/account/usage.h"
#include "service/event/bus.h"
#include "service/event/webhook.h"
#include "service/secret/secret.h"

void secret_write_hosts(const char *hosts, struct json_writer *w, const char *key)
{
	struct str rest = str_of(hosts), host;
	bool more = rest.n > 0;

	json_begin_array(w, key);
	while (more) {
		more = str_cut(rest, ',', &host, &rest);
		json_put_str(w, NULL, more ? host : rest);
	}
	json_end_array(w);
}

void secret_write(const struct secret *secret, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_text(w, "id", secret->id);
	json_put_text(w, "name", secret->name);
	json_put_text(w, "scope", secret_scope_names[secret->scope]);
	json_put_text(w, "external_workspace_id",
		      secret->scope == SECRET_WORKSPACE ? secret->scope_id : NULL);
	json_put_text(w, "sandbox_id", secret->scope == SECRET_SANDBOX ? secret->scope_id : NULL);
	secret_write_hosts(secret->hosts, w, "hosts");
	json_put_int(w, "version", secret->version);
	json_put_bool(w, "scrubbed", secret->scrubbed);
	json_put_int(w, "sandboxes", secret->grants);
	json_put_text(w, "key_id", secret->owner);
	json_put_time(w, "created_at", secret->created_ms);
	json_put_time(w, "updated_at", secret->updated_ms);
	json_end_object(w);
}

void quota_write(const struct service *service, const struct key *key, struct json_writer *w,
		 const char *name)
{
	json_begin_object(w, name);
	for (int i = 0; i < QUOTA_COUNT; i++) {
		struct quota_figures figures;

		quota_figures(service, key, i, &figures);
		json_begin_object(w, figures.name);
		if (figures.limit < 0)
			json_put_null(w, "limit");
		else
			json_put_int(w, "limit", figures.limit);
		if (figures.has_used)
			json_put_milli(w, "used", figures.used_milli);
		json_end_object(w);
	}
	json_end_object(w);
}

void usage_write(const struct usage_sum *sum, struct json_writer *w)
{
	json_put_real(w, "running_seconds", (double)sum->running_ms / 1000);
	json_put_real(w, "vcpu_seconds", sum->vcpu_ms / 1000);
	json_put_real(w, "memory_gib_seconds", sum->memory_mb_ms / 1000 / 1024);
	json_put_real(w, "paused_seconds", (double)sum->paused_ms / 1000);
	json_put_real(w, "paused_storage_gib_seconds",
		      sum->storage_byte_ms / 1000 / (1024.0 * 1024 * 1024));
}

static void write_event_names(struct str rest, struct json_writer *w)
{
	struct str name;

	json_begin_array(w, "events");
	while (str_cut(rest, ',', &name, &rest))
		json_put_str(w, NULL, name);
	if (rest.n)
		json_put_str(w, NULL, rest);
	json_end_array(w);
}

void webhook_write(const struct webhook *hook, struct json_writer *w, const char *key,
		   bool with_secret)
{
	struct webhook_view view;

	webhook_view(hook, &view);
	json_begin_object(w, key);
	json_put_text(w, "id", view.id);
	json_put_text(w, "url", view.url);
	write_event_names(str_of(view.events), w);
	json_put_text(w, "external_workspace_id", view.external_workspace_id);
	json_put_text(w, "description", view.description);
	if (with_secret)
		json_put_text(w, "secret", view.secret);
	json_put_bool(w, "enabled", view.enabled);
	json_put_text(w, "disabled_reason", view.disabled_reason);
	json_put_text(w, "key_id", view.owner);
	json_put_time(w, "created_at", view.created_ms);
	json_put_int(w, "cursor", view.cursor);
	json_put_int(w, "attempts", view.attempts);
	json_put_int(w, "last_status", view.last_status);
	json_put_text(w, "last_error", view.last_error);
	json_put_time(w, "last_delivery_at", view.delivered_ms);
	json_put_time(w, "next_attempt_at", view.next_ms);
	json_put_time(w, "failing_since", view.failing_ms);
	json_put_int(w, "dead", view.dead);
	json_put_int(w, "missed_events", view.missed);
	json_end_object(w);
}

void event_write(const struct event *event, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_int(w, "id", event->id);
	json_put_text(w, "type", event->type);
	json_put_time(w, "at", event->ms);
	json_put_text(w, "sandbox_id", event->sandbox_id[0] ? event->sandbox_id : NULL);
	json_put_text(w, "external_workspace_id", event->external_workspace_id);
	json_put_raw(w, "data", event->data);
	json_end_object(w);
}
