/* SPDX-License-Identifier: Apache-2.0 */
#include "service/event/webhook.h"

#include "face/rest/call.h"

#define AT(member) offsetof(struct webhook_spec, member)
#define EVENTS_MAX 32

#define OPTIONAL_FIELDS                                                                     \
	{ .name = "events",                                                                 \
	  .type = FIELD_STRINGS,                                                            \
	  .offset = AT(events),                                                             \
	  .sent = FIELD_SENT(AT(has_events)),                                               \
	  .max = EVENTS_MAX,                                                                \
	  .doc = "names, or the part before the dot (sandbox, process.ended); none: all" }, \
		{ .name = "external_workspace_id",                                          \
		  .type = FIELD_STR,                                                        \
		  .offset = AT(external_workspace_id),                                      \
		  .sent = FIELD_SENT(AT(has_workspace)),                                    \
		  .max = SANDBOX_WORKSPACE_MAX,                                             \
		  .doc = "only events of this workspace" },                                 \
		{ .name = "description",                                                    \
		  .type = FIELD_STR,                                                        \
		  .offset = AT(description),                                                \
		  .sent = FIELD_SENT(AT(has_description)),                                  \
		  .max = WEBHOOK_DESCRIPTION_MAX },                                         \
	{                                                                                   \
		.name = "secret", .type = FIELD_STR, .offset = AT(secret),                  \
		.sent = FIELD_SENT(AT(has_secret)), .min = WEBHOOK_SECRET_MIN,              \
		.max = WEBHOOK_SECRET_MAX,                                                  \
		.doc = "signs the deliveries; if absent, one is generated and shown once"   \
	}

const struct field webhook_create_fields[] = { { .name = "url",
						 .type = FIELD_STR,
						 .offset = AT(url),
						 .sent = FIELD_SENT(AT(has_url)),
						 .min = WEBHOOK_URL_MIN,
						 .max = WEBHOOK_URL_MAX,
						 .required = true,
						 .doc = "http:// or https://" },
					       OPTIONAL_FIELDS,
					       { .name = "enabled",
						 .type = FIELD_BOOL,
						 .offset = AT(enabled),
						 .sent = FIELD_SENT(AT(has_enabled)),
						 .fallback = true },
					       { .type = FIELD_END } };
const struct field webhook_patch_fields[] = { { .name = "url",
						.type = FIELD_STR,
						.offset = AT(url),
						.sent = FIELD_SENT(AT(has_url)),
						.min = WEBHOOK_URL_MIN,
						.max = WEBHOOK_URL_MAX },
					      OPTIONAL_FIELDS,
					      { .name = "enabled",
						.type = FIELD_BOOL,
						.offset = AT(enabled),
						.sent = FIELD_SENT(AT(has_enabled)) },
					      { .type = FIELD_END } };
#undef AT

static const char *const state_names[] = { "all", "dead", "pending", NULL };
struct delivery_query {
	int64_t limit, cursor;
	int state;
};
#define AT(member) offsetof(struct delivery_query, member)
const struct field delivery_query[] = {
	{ .name = "state", .type = FIELD_ENUM, .names = state_names, .offset = AT(state) },
	{ .name = "limit",
	  .type = FIELD_INT,
	  .offset = AT(limit),
	  .min = 1,
	  .max = PAGE_LIMIT_MAX,
	  .fallback = PAGE_LIMIT },
	{ .name = "cursor", .type = FIELD_INT, .offset = AT(cursor), .max = INT64_MAX },
	{ .type = FIELD_END }
};
#undef AT

static struct webhook *find(struct rest_call *call)
{
	struct err err;
	struct webhook *hook = webhook_find(call->rest->service, call->key, call->args[0], &err);

	if (!hook)
		answer_error(call->rest, call->req, &err);
	return hook;
}

static void answer_hook(struct rest_call *call, const struct webhook *hook)
{
	struct json_writer w = answer_begin(call->rest);

	webhook_write(hook, &w, NULL, false);
	answer_send(call->rest, call->req, 200, &w);
}

void webhooks_create(struct rest_call *call)
{
	struct webhook_spec spec = { .enabled = true };
	struct idempotency *idem;
	struct webhook *hook;
	struct json_writer w;
	struct err err;

	if (once_open(call, &idem) != 0)
		return;
	if (field_decode(webhook_create_fields, call->doc, "", call->req->arena, &spec, &err) < 0 ||
	    webhook_create(call->rest->service, call->key, &spec, &hook, &err) < 0) {
		once_fail(call, idem, &err);
		return;
	}
	w = answer_begin(call->rest);
	webhook_write(hook, &w, NULL, true);
	if (once_answer(call, idem, 201, &w) < 0)
		(void)!webhook_remove(hook, &err);
}

void webhooks_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	int64_t limit = 100, cursor = INT64_MAX, last;
	const struct webhook *hook;
	struct json_writer w;
	char next[PAGE_NUMBER_SIZE];

	if (page_after_number(call, &limit, &cursor) < 0)
		return;
	w = page_begin(call);
	while (limit-- > 0 && (hook = webhook_list_next(service, call->key, &cursor)))
		webhook_write(hook, &w, NULL, false);
	last = cursor;
	page_send(call, &w,
		  limit < 0 && webhook_list_next(service, call->key, &cursor)
			  ? page_number(next, last)
			  : NULL);
}

void webhooks_get(struct rest_call *call)
{
	const struct webhook *hook = find(call);

	if (hook)
		answer_hook(call, hook);
}

void webhooks_patch(struct rest_call *call)
{
	struct webhook_spec spec = { .enabled = false };
	struct webhook *hook = find(call);
	struct err err;

	if (!hook)
		return;
	if (field_decode(webhook_patch_fields, call->doc, "", call->req->arena, &spec, &err) < 0 ||
	    webhook_change(hook, &spec, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_hook(call, hook);
}

void webhooks_delete(struct rest_call *call)
{
	struct webhook *hook = find(call);
	struct err err;

	if (!hook)
		return;
	if (webhook_remove(hook, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}

/* ---- deliveries on request ---- */

static void on_tried(void *arg, const struct webhook_result *result, const struct err *err)
{
	struct reply reply;

	if (!reply_begin(arg, err, &reply))
		return;
	json_put_bool(&reply.w, "delivered", result->error == NULL);
	json_put_int(&reply.w, "status", result->status);
	json_put_text(&reply.w, "error", result->error);
	json_put_real(&reply.w, "duration_ms", (double)result->duration_us / 1000);
	reply_send(&reply);
}

void webhooks_test(struct rest_call *call)
{
	struct webhook *hook = find(call);
	struct rest_pending *pending = hook ? pending_for(call) : NULL;
	struct err err;

	if (pending)
		answer_later(pending, webhook_test(hook, on_tried, pending, &err), &err);
}

void webhooks_redeliver(struct rest_call *call)
{
	struct webhook *hook = find(call);
	struct rest_pending *pending;
	uint64_t event = 0;
	struct err err;

	if (!hook)
		return;
	if (str_to_u64(call->args[1], INT64_MAX, &event) < 0 || event == 0) {
		(void)err_set(&err, ERR_DELIVERY_NOT_FOUND, "no such delivery");
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (pending)
		answer_later(pending,
			     webhook_redeliver(hook, (int64_t)event, on_tried, pending, &err),
			     &err);
}

struct listing_state {
	struct json_writer *w;
	int64_t left, last;
	bool more;
};

static void on_delivery(void *arg, const struct webhook_delivery *d)
{
	struct listing_state *state = arg;

	if (state->left-- <= 0) {
		state->more = true;
		return;
	}
	state->last = d->event;
	json_begin_object(state->w, NULL);
	json_put_int(state->w, "event_id", d->event);
	json_put_text(state->w, "type", d->type);
	json_put_text(state->w, "state", d->state);
	json_put_int(state->w, "attempts", d->attempts);
	json_put_time(state->w, "last_attempt_at", d->ms);
	json_put_time(state->w, "next_attempt_at", d->next_ms);
	json_put_int(state->w, "status", d->status);
	json_put_text(state->w, "error", d->error);
	json_end_object(state->w);
}

void webhooks_deliveries(struct rest_call *call)
{
	struct delivery_query query = { .state = 0 };
	struct webhook *hook = find(call);
	struct listing_state state = { .more = false };
	struct webhook_page page;
	struct json_writer w;
	struct err err;
	char next[PAGE_NUMBER_SIZE];

	if (!hook)
		return;
	if (query_decode(call->req, delivery_query, &query, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = page_begin(call);
	state.w = &w;
	state.left = query.limit;
	page = (struct webhook_page){ .dead = query.state != 2,
				      .pending = query.state != 1,
				      .after = query.cursor,
				      .limit = query.limit + 1 };
	if (webhook_deliveries(hook, &page, on_delivery, &state, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	page_send(call, &w, state.more ? page_number(next, state.last) : NULL);
}
