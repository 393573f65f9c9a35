/* SPDX-License-Identifier: Apache-2.0 */
/* The table of webhooks: create, change, list, remove, and load after a start. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/event/bus.h"
#include "service/event/event_internal.h"
#include "service/range_internal.h"
#include "service/sandbox/sandbox.h"
#include "service/secret/secret.h"
#include "service/event/webhook.h"
#include "service/event/events_internal.h"
#include "service/event/webhook_private.h"
#include "service/event/event_private.h"
#include "service/steady_internal.h"

#define SECRET_BYTES 32
#define CURSOR_TICKS 60

static void texts_free(struct webhook *hook)
{
	if (hook->secret)
		explicit_bzero(hook->secret, strlen(hook->secret));
	free(hook->secret);
	free(hook->url);
	free(hook->events);
	free(hook->description);
	free(hook->workspace);
	free(hook->disabled_reason);
}

static void webhook_free(struct webhook *hook)
{
	struct service *service = hook->service;

	webhook_stop(hook);
	if (hook->prev)
		hook->prev->next = hook->next;
	else if (service->events->oldest_webhook == hook)
		service->events->oldest_webhook = hook->next;
	if (hook->next)
		hook->next->prev = hook->prev;
	else if (service->events->newest_webhook == hook)
		service->events->newest_webhook = hook->prev;
	(void)map_take(&service->events->webhooks, str_of(hook->id));
	loop_timer_free(hook->timer);
	buf_done(&hook->body);
	texts_free(hook);
	free(hook);
}

int webhook_save(const struct webhook *hook)
{
	struct store_webhook row = { .id = hook->id,
				     .seq = hook->seq,
				     .owner = hook->owner,
				     .url = hook->url,
				     .description = hook->description,
				     .events = hook->events,
				     .external_workspace_id = hook->workspace,
				     .secret = hook->secret,
				     .enabled = hook->enabled,
				     .disabled_reason = hook->disabled_reason,
				     .created_ms = hook->created_ms,
				     .failing_ms = hook->failing_ms,
				     .missed = hook->missed,
				     .cursor = hook->cursor };
	int r = store_begin_durable(hook->service->store);

	if (r < 0)
		return r;
	r = store_webhook_put(hook->service->store, &row);
	r = store_end(hook->service->store, r);
	service_wrote(hook->service);
	return r;
}

/* ---- request ---- */

static int set_text(char **at, struct str text, struct err *err)
{
	char *copy = text.n ? strndup(text.p, text.n) : NULL;

	if (text.n && !copy)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	free(*at);
	*at = copy;
	return 0;
}

static int set_url(struct webhook *hook, struct str url, struct err *err)
{
	struct poster *poster = hook->service->config.poster;

	if (poster->check(poster, url) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "url must be http://HOST[:PORT][/PATH] or https://, without user "
			       "and fragment");
	return set_text(&hook->url, url, err);
}

static int set_secret(struct webhook *hook, struct str secret, struct err *err)
{
	char text[8 + 2 * SECRET_BYTES];
	uint8_t bytes[SECRET_BYTES];
	int r;

	if (secret.n) {
		for (size_t i = 0; i < secret.n; i++)
			if (secret.p[i] <= ' ' || secret.p[i] >= 0x7f)
				return err_set(err, ERR_INVALID_REQUEST,
					       "secret must be visible ASCII characters");
		return set_text(&hook->secret, secret, err);
	}
	rand_bytes(bytes, sizeof(bytes));
	memcpy(text, "whsec_", 6);
	str_hex(text + 6, bytes, sizeof(bytes));
	r = set_text(&hook->secret, str_of(text), err);
	explicit_bzero(bytes, sizeof(bytes));
	explicit_bzero(text, sizeof(text));
	return r;
}

/* An empty or absent list selects all events. */
static int set_events(struct webhook *hook, const struct text_list *names, struct err *err)
{
	struct buf text;
	int r = 0;

	buf_init(&text, 4096);
	for (size_t i = 0; r == 0 && i < names->count; i++) {
		struct str name = names->list[i];

		if (i)
			r = buf_putc(&text, ',');
		if (memchr(name.p, ',', name.n))
			r = -EINVAL;
		if (r == 0)
			r = buf_append(&text, name.p, name.n);
	}
	if (r < 0)
		r = err_set(err, ERR_INVALID_REQUEST, "events: a name is too long or empty");
	else if (buf_len(&text) == 0)
		hook->types = EVENT_ALL;
	else
		r = bus_types_parse(buf_str(&text), &hook->types, err);
	if (r == 0 && buf_len(&text) == 0) {
		free(hook->events);
		hook->events = strdup("");
		r = hook->events ? 0 : err_set(err, ERR_UNAVAILABLE, "out of memory");
	} else if (r == 0) {
		r = set_text(&hook->events, buf_str(&text), err);
	}
	buf_done(&text);
	return r < 0 ? -1 : 0;
}

/* An empty text removes the old value. */
static int check_texts(const struct webhook_spec *spec, struct err *err)
{
	if ((spec->has_url &&
	     range_check_text("url", spec->url, WEBHOOK_URL_MIN, WEBHOOK_URL_MAX, err) < 0) ||
	    range_check_text("description", spec->description, 0, WEBHOOK_DESCRIPTION_MAX, err) <
		    0 ||
	    range_check_text("external_workspace_id", spec->external_workspace_id, 0,
			     SANDBOX_WORKSPACE_MAX, err) < 0)
		return -1;
	return spec->secret.n ? range_check_text("secret", spec->secret, WEBHOOK_SECRET_MIN,
						 WEBHOOK_SECRET_MAX, err)
			      : 0;
}

static int fill(struct webhook *hook, const struct webhook_spec *spec, struct err *err)
{
	if (check_texts(spec, err) < 0 || (spec->has_url && set_url(hook, spec->url, err) < 0) ||
	    (spec->has_events && set_events(hook, &spec->events, err) < 0) ||
	    (spec->has_description && set_text(&hook->description, spec->description, err) < 0) ||
	    (spec->has_workspace &&
	     set_text(&hook->workspace, spec->external_workspace_id, err) < 0) ||
	    (spec->has_secret && set_secret(hook, spec->secret, err) < 0))
		return -1;
	if (spec->has_enabled)
		hook->enabled = spec->enabled;
	return 0;
}

static struct webhook *webhook_new(struct service *service, const char *id, int64_t seq)
{
	struct webhook *hook = calloc(1, sizeof(*hook));

	if (!hook)
		return NULL;
	hook->service = service;
	hook->seq = seq;
	hook->enabled = true;
	buf_init(&hook->body, WEBHOOK_BODY_MAX);
	if (id)
		(void)snprintf(hook->id, sizeof(hook->id), "%s", id);
	else
		rand_label(hook->id, WEBHOOK_ID_LEN);
	hook->prev = service->events->newest_webhook;
	if (hook->prev)
		hook->prev->next = hook;
	else
		service->events->oldest_webhook = hook;
	service->events->newest_webhook = hook;
	if (map_put(&service->events->webhooks, str_of(hook->id), hook) < 0) {
		webhook_free(hook);
		return NULL;
	}
	return hook;
}

static int check_count(const struct service *service, const struct key *owner, struct err *err)
{
	uint32_t most = service->config.webhooks_per_key, count = 0;

	for (const struct webhook *h = service->events->oldest_webhook; h; h = h->next)
		count += strcmp(h->owner, owner->id) == 0;
	if (service->events->webhooks.count >= WEBHOOKS_MAX)
		return err_set(err, ERR_CAPACITY_EXCEEDED, "this host has %d webhooks, the limit",
			       WEBHOOKS_MAX);
	if (count < most)
		return 0;
	(void)err_set(err, ERR_QUOTA_EXCEEDED,
		      "this key has %u webhooks, its limit (webhooks_per_key)", count);
	return err_set_limit(err, "webhooks_per_key", most, count);
}

int webhook_create(struct service *service, const struct key *owner,
		   const struct webhook_spec *spec, struct webhook **ret, struct err *err)
{
	struct webhook_spec all = *spec;
	struct webhook *hook;
	int r = -1;

	if (!service->config.poster)
		return err_set(err, ERR_UNSUPPORTED, "this daemon sends no webhooks");
	if (check_count(service, owner, err) < 0)
		return -1;
	hook = webhook_new(service, NULL, service_next_seq(service));
	if (!hook)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	memcpy(hook->owner, owner->id, sizeof(hook->owner));
	all.has_url = all.has_events = all.has_secret = true;
	hook->created_ms = time_real_ms();
	bus_flush(service);
	hook->cursor = bus_newest(service);
	if (fill(hook, &all, err) == 0) {
		r = webhook_save(hook);
		if (r < 0)
			(void)err_set_errno(err, ERR_INTERNAL, r, "the webhook could not be saved");
	}
	if (r < 0) {
		webhook_free(hook);
		return -1;
	}
	webhook_start(hook);
	*ret = hook;
	return 0;
}

static void swap_text(char **a, char **b)
{
	char *text = *a;

	*a = *b;
	*b = text;
}

static void swap(struct webhook *a, struct webhook *b, const struct webhook_spec *spec)
{
	uint32_t types = a->types;

	if (spec->has_url)
		swap_text(&a->url, &b->url);
	if (spec->has_secret)
		swap_text(&a->secret, &b->secret);
	if (spec->has_description)
		swap_text(&a->description, &b->description);
	if (spec->has_workspace)
		swap_text(&a->workspace, &b->workspace);
	if (spec->has_events) {
		swap_text(&a->events, &b->events);
		a->types = b->types;
		b->types = types;
	}
}

/* Applies all changes or none. */
int webhook_change(struct webhook *hook, const struct webhook_spec *spec, struct err *err)
{
	struct webhook other = { .service = hook->service, .enabled = hook->enabled };
	bool was = hook->enabled;
	int r = fill(&other, spec, err);

	if (r == 0) {
		webhook_stop(hook);
		swap(hook, &other, spec);
		hook->enabled = other.enabled;
		if (hook->enabled && !was) {
			swap_text(&hook->disabled_reason, &other.disabled_reason);
			hook->failing_ms = 0;
		}
		r = webhook_save(hook);
		if (r < 0) {
			swap(hook, &other, spec);
			if (hook->enabled && !was)
				swap_text(&hook->disabled_reason, &other.disabled_reason);
			hook->enabled = was;
			(void)err_set_errno(err, ERR_INTERNAL, r, "the webhook could not be saved");
		}
		webhook_start(hook);
	}
	texts_free(&other);
	return r < 0 ? -1 : 0;
}

int webhook_remove(struct webhook *hook, struct err *err)
{
	struct service *service = hook->service;
	int r = store_begin_durable(service->store);

	if (r == 0)
		r = store_webhook_delete(service->store, hook->id);
	r = store_end(service->store, r);
	service_wrote(service);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the webhook could not be deleted");
	webhook_free(hook);
	return 0;
}

void webhook_key_deleted(struct service *service, const char *owner)
{
	struct webhook *next;
	struct err err;

	for (struct webhook *hook = service->events->oldest_webhook; hook; hook = next) {
		next = hook->next;
		if (strcmp(hook->owner, owner) == 0 && webhook_remove(hook, &err) < 0)
			log_warn("webhook %s: %s", hook->id, err.message);
	}
}

/* ---- lookup ---- */

static bool may_see(const struct webhook *hook, const struct key *key)
{
	return key_is_admin(key) || strcmp(hook->owner, key->id) == 0;
}

struct webhook *webhook_find(struct service *service, const struct key *key, struct str id,
			     struct err *err)
{
	struct webhook *hook = map_get(&service->events->webhooks, id);

	if (hook && may_see(hook, key))
		return hook;
	(void)err_set(err, ERR_WEBHOOK_NOT_FOUND, "no webhook '%.*s'", (int)MIN(id.n, 64), id.p);
	return NULL;
}

struct webhook *webhook_list_next(struct service *service, const struct key *key, int64_t *cursor)
{
	for (struct webhook *hook = service->events->newest_webhook; hook; hook = hook->prev) {
		if (hook->seq >= *cursor || !may_see(hook, key))
			continue;
		*cursor = hook->seq;
		return hook;
	}
	return NULL;
}

/* ---- load and upkeep ---- */

static int on_row(void *arg, const struct store_webhook *row)
{
	struct service *service = arg;
	struct webhook *hook = webhook_new(service, row->id, row->seq);
	struct err err;

	if (!hook)
		return -ENOMEM;
	service_saw_seq(service, row->seq);
	if (str_copy(hook->owner, sizeof(hook->owner), str_of(row->owner)) < 0)
		return -EUCLEAN;
	hook->enabled = row->enabled;
	hook->created_ms = row->created_ms;
	hook->failing_ms = row->failing_ms;
	hook->missed = row->missed;
	hook->cursor = row->cursor;
	hook->types = EVENT_ALL;
	hook->events = strdup(row->events);
	if (!hook->events || set_text(&hook->url, str_of(row->url), &err) < 0 ||
	    set_text(&hook->secret, str_of(row->secret), &err) < 0 ||
	    set_text(&hook->description, str_of(row->description), &err) < 0 ||
	    set_text(&hook->workspace, str_of(row->external_workspace_id), &err) < 0 ||
	    set_text(&hook->disabled_reason, str_of(row->disabled_reason), &err) < 0)
		return -ENOMEM;
	if (hook->events[0] && bus_types_parse(str_of(hook->events), &hook->types, &err) < 0)
		log_warn("webhook %s: %s", hook->id, err.message);
	return 0;
}

int webhook_load(struct service *service, struct err *err)
{
	int r = store_webhook_each(service->store, on_row, service);

	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the webhooks");
	for (struct webhook *hook = service->events->oldest_webhook; hook; hook = hook->next)
		webhook_start(hook);
	return 0;
}

/* Advances a webhook past events that its filter excludes; otherwise their deletion would count as
 * a loss. */
static void skip_to_newest(struct webhook *hook)
{
	int64_t at = hook->reader && !hook->event ? bus_reader_at(hook->reader) : 0;

	if (at <= hook->cursor)
		return;
	hook->cursor = at;
	if (store_webhook_set_cursor(hook->service->store, hook->id, hook->cursor, hook->failing_ms,
				     hook->missed) < 0)
		log_warn("webhook %s: the position could not be recorded", hook->id);
}

void webhook_tick(struct service *service)
{
	if (service->upkeep.ticks % CURSOR_TICKS != 3)
		return;
	for (struct webhook *hook = service->events->oldest_webhook; hook; hook = hook->next)
		skip_to_newest(hook);
}

void webhook_done_all(struct service *service)
{
	while (service->events->oldest_webhook) {
		if (service->store)
			skip_to_newest(service->events->oldest_webhook);
		webhook_free(service->events->oldest_webhook);
	}
	map_done(&service->events->webhooks);
}

void webhook_view(const struct webhook *hook, struct webhook_view *ret)
{
	int64_t dead = 0;

	if (store_dead_count(hook->service->store, hook->id, &dead) < 0)
		log_warn("webhook %s: dead deliveries cannot be counted", hook->id);
	*ret = (struct webhook_view){ .id = hook->id,
				      .url = hook->url,
				      .owner = hook->owner,
				      .secret = hook->secret,
				      .events = hook->events,
				      .external_workspace_id = hook->workspace,
				      .description = hook->description,
				      .disabled_reason = hook->disabled_reason,
				      .last_error = hook->error[0] ? hook->error : NULL,
				      .enabled = hook->enabled,
				      .last_status = hook->status,
				      .created_ms = hook->created_ms,
				      .delivered_ms = hook->delivered_ms,
				      .next_ms = hook->next_ms,
				      .failing_ms = steady_wall_ms(hook->service, hook->failing_ms),
				      .cursor = hook->cursor,
				      .attempts = hook->attempts,
				      .dead = dead,
				      .missed = hook->missed };
}
