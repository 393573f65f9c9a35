/* SPDX-License-Identifier: Apache-2.0 */
/* Manual attempts: tests, and deliveries that were given up. */
#include "base/log.h"
#include "base/time.h"
#include "service/event/bus.h"
#include "service/event/event_internal.h"
#include "service/event/webhook_private.h"

static void on_tried(void *arg, int status, int error)
{
	struct webhook_try *t = arg;
	struct webhook *hook = t->hook;
	char text[WEBHOOK_ERROR_MAX] = "";
	bool ok = status >= 200 && status < 300;
	struct webhook_result result = { .status = status,
					 .error = ok ? NULL : text,
					 .duration_us = time_mono_us() - t->started_us };

	hook->try_now = NULL;
	if (!ok)
		webhook_explain(text, sizeof(text), hook->service, status, error);
	if (ok && t->event && store_dead_delete(hook->service->store, hook->id, t->event) < 0)
		log_warn("webhook %s: delivery %lld succeeded but could not be removed from the "
			 "list",
			 hook->id, (long long)t->event);
	t->done(t->arg, &result, NULL);
	free(t);
}

static int try_now(struct webhook *hook, int64_t event, const char *type, struct str body,
		   webhook_done_fn done, void *arg, struct err *err)
{
	struct webhook_try *t;
	int r;

	if (!hook->service->config.poster)
		return err_set(err, ERR_UNSUPPORTED, "this daemon sends no webhooks");
	if (hook->try_now)
		return err_set(err, ERR_RATE_LIMITED, "another test or redelivery is in progress");
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*t = (struct webhook_try){
		.hook = hook, .started_us = time_mono_us(), .event = event, .done = done, .arg = arg
	};
	r = webhook_post(hook, &(struct webhook_message){ event, type, 1, body }, on_tried, t,
			 &t->post);
	if (r < 0) {
		free(t);
		return err_set_errno(err, ERR_UNAVAILABLE, r, "the request cannot be sent now");
	}
	hook->try_now = t;
	return 0;
}

int webhook_test(struct webhook *hook, webhook_done_fn done, void *arg, struct err *err)
{
	struct event event = { .ms = time_real_ms(),
			       .type = "webhook.test",
			       .sandbox_id = "",
			       .owner = hook->owner,
			       .external_workspace_id = hook->workspace,
			       .data = STR_LIT("{\"message\":\"This is a test.\"}") };
	struct buf body;
	int r;

	buf_init(&body, WEBHOOK_BODY_MAX);
	r = event_encode(&event, &body);
	if (r < 0)
		(void)err_set_errno(err, ERR_INTERNAL, r, "the event could not be written");
	else
		r = try_now(hook, 0, event.type, buf_str(&body), done, arg, err);
	buf_done(&body);
	return r < 0 ? -1 : 0;
}

struct found {
	struct buf body;
	char type[64];
	int64_t event;
};

static int on_found(void *arg, const struct store_dead *dead)
{
	struct found *found = arg;
	int r = str_copy(found->type, sizeof(found->type), str_of(dead->type));

	found->event = dead->event;
	return r < 0 ? r : buf_append(&found->body, dead->body.p, dead->body.n);
}

int webhook_redeliver(struct webhook *hook, int64_t event, webhook_done_fn done, void *arg,
		      struct err *err)
{
	struct found found = { .event = 0 };
	int r;

	buf_init(&found.body, WEBHOOK_BODY_MAX);
	r = store_dead_each(hook->service->store, hook->id, event - 1, 1, on_found, &found);
	if (r < 0)
		(void)err_set_errno(err, ERR_INTERNAL, r, "the delivery cannot be read");
	else if (found.event != event)
		r = err_set(err, ERR_DELIVERY_NOT_FOUND, "no dead delivery %lld", (long long)event);
	else
		r = try_now(hook, event, found.type, buf_str(&found.body), done, arg, err);
	buf_done(&found.body);
	return r < 0 ? -1 : 0;
}

struct reading {
	webhook_delivery_fn fn;
	void *arg;
};

static int on_dead(void *arg, const struct store_dead *dead)
{
	const struct reading *reading = arg;
	struct webhook_delivery delivery = { .event = dead->event,
					     .type = dead->type,
					     .state = "dead",
					     .attempts = dead->attempts,
					     .ms = dead->ms,
					     .status = (int)dead->status,
					     .error = dead->error };

	reading->fn(reading->arg, &delivery);
	return 0;
}

int webhook_deliveries(struct webhook *hook, const struct webhook_page *page,
		       webhook_delivery_fn fn, void *arg, struct err *err)
{
	struct reading reading = { fn, arg };
	int r = 0;

	if (page->dead)
		r = store_dead_each(hook->service->store, hook->id, page->after, page->limit,
				    on_dead, &reading);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the deliveries cannot be read");
	if (page->pending && hook->event) {
		struct webhook_delivery now = { .event = hook->event,
						.type = hook->type,
						.state = "pending",
						.attempts = hook->attempts,
						.ms = hook->attempts ? hook->tried_ms : 0,
						.next_ms = hook->next_ms,
						.status = hook->status,
						.error = hook->error[0] ? hook->error : NULL };

		fn(arg, &now);
	}
	return 0;
}
