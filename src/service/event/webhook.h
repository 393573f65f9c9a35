/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhooks: events sent to a URL of the user, signed, in order, at least once. A webhook has a
 * position among the stored events and no queue: after a restart it continues after the last event
 * that was answered with 2xx or given up. Faces call these functions; the service owns the
 * webhooks.
 */
#ifndef CAY_SERVICE_EVENT_WEBHOOK_H
#define CAY_SERVICE_EVENT_WEBHOOK_H

#include "service/account/auth.h"
#include "service/texts.h"

struct service;
struct webhook;

#define WEBHOOK_ID_LEN 16
#define WEBHOOK_SECRET_MIN 16
#define WEBHOOK_SECRET_MAX 128
#define WEBHOOK_URL_MIN 8
#define WEBHOOK_URL_MAX 2048
#define WEBHOOK_DESCRIPTION_MAX 256
#define WEBHOOKS_PER_KEY 20
#define WEBHOOKS_MAX 4096
#define WEBHOOK_DEAD_KEEP 1000 /* of one hook; beyond it the oldest are dropped */

/* The fields of POST and PATCH; views live during the call. */
struct webhook_spec {
	struct str url, secret, description, external_workspace_id;
	struct text_list events; /* names of events, or their part before the dot */
	bool enabled;
	bool has_url, has_secret, has_description, has_workspace, has_events, has_enabled;
};
int webhook_create(struct service *service, const struct key *owner,
		   const struct webhook_spec *spec, struct webhook **ret,
		   struct err *err) _must_check_;
/* Sets the given fields; a delivery that waits for another attempt is retried at once. */
int webhook_change(struct webhook *hook, const struct webhook_spec *spec,
		   struct err *err) _must_check_;
int webhook_remove(struct webhook *hook, struct err *err) _must_check_;
/* Webhooks of other owners are not found. NULL with err set. */
struct webhook *webhook_find(struct service *service, const struct key *key, struct str id,
			     struct err *err);
/* Newest first: the next one older than *cursor (INT64_MAX for the start). */
struct webhook *webhook_list_next(struct service *service, const struct key *key, int64_t *cursor);
/*
 * The public properties of a webhook. Texts belong to the webhook; times are wall clock, 0: none.
 */
struct webhook_view {
	const char *id, *url, *owner, *secret;
	const char *events; /* names separated by commas; "": all */
	const char *external_workspace_id, *description, *disabled_reason,
		*last_error; /* or NULL */
	bool enabled;
	int last_status;
	int64_t created_ms, delivered_ms, next_ms, failing_ms;
	int64_t cursor, attempts, dead, missed;
};
void webhook_view(const struct webhook *hook, struct webhook_view *ret);

/* One attempt now. done is called once, never from inside the call. */
struct webhook_result {
	int status; /* HTTP status of the reply; 0: none */
	const char *error;
	int64_t duration_us;
};
typedef void (*webhook_done_fn)(void *arg, const struct webhook_result *result,
				const struct err *err);
int webhook_test(struct webhook *hook, webhook_done_fn done, void *arg,
		 struct err *err) _must_check_;
/* Repeats a delivery that was given up, and removes it from the list if it succeeds. */
int webhook_redeliver(struct webhook *hook, int64_t event, webhook_done_fn done, void *arg,
		      struct err *err) _must_check_;

struct webhook_delivery {
	int64_t event;
	const char *type, *state; /* pending, dead */
	int64_t attempts, ms;
	int64_t next_ms; /* wall clock of the next attempt; 0: none */
	int status;
	const char *error; /* or NULL */
};
typedef void (*webhook_delivery_fn)(void *arg, const struct webhook_delivery *delivery);
/*
 * A page of deliveries: dead ones after the given id, oldest first, at most limit; with pending,
 * followed by the one in progress.
 */
struct webhook_page {
	bool dead, pending; /* which kinds to list */
	int64_t after, limit;
};
int webhook_deliveries(struct webhook *hook, const struct webhook_page *page,
		       webhook_delivery_fn fn, void *arg, struct err *err) _must_check_;

#endif
