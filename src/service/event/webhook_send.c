/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivers events. Each webhook delivers one event at a time and continues with the next when that
 * one is answered or given up, so the order is kept. All webhooks share a limited number of
 * concurrent posts; a webhook that finds none free waits in a queue.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/event/bus.h"
#include "service/event/event_internal.h"
#include "service/secret/secret.h"
#include "service/event/webhook_private.h"
#include "service/event/event_private.h"
#include "service/steady_internal.h"

#define RETRY_MAX_MS (5 * 60 * 1000LL)
#define REOPEN_MS 1000
#define SIGNATURE_SIZE (3 + 2 * crypto_auth_hmacsha256_BYTES + 1)

static void attempt(struct webhook *hook);

/* ---- request and result ---- */

/* "v1=" and the HMAC-SHA256 of "TIMESTAMP.BODY". */
static void sign(const struct webhook *hook, const char *timestamp, struct str body,
		 char ret[SIGNATURE_SIZE])
{
	uint8_t mac[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state state;

	(void)crypto_auth_hmacsha256_init(&state, (const uint8_t *)hook->secret,
					  strlen(hook->secret));
	(void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)timestamp, strlen(timestamp));
	(void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)".", 1);
	(void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)body.p, body.n);
	(void)crypto_auth_hmacsha256_final(&state, mac);
	memcpy(ret, "v1=", 3);
	str_hex(ret + 3, mac, sizeof(mac));
	sodium_memzero(&state, sizeof(state));
}

int webhook_post(struct webhook *hook, const struct webhook_message *message, poster_fn done,
		 void *arg, uint64_t *ret)
{
	struct poster *poster = hook->service->config.poster;
	char timestamp[24], id[24], number[12], signature[SIGNATURE_SIZE];
	const struct poster_header headers[] = {
		{ "Cay-Webhook-Id", hook->id },	     { "Cay-Event-Id", id },
		{ "Cay-Event-Type", message->type }, { "Cay-Attempt", number },
		{ "Cay-Timestamp", timestamp },	     { "Cay-Signature", signature },
	};
	struct poster_request request = {
		.url = hook->url,
		.headers = headers,
		.header_count = ARRAY_LEN(headers),
		.body = message->body,
		.timeout_ms = (int64_t)hook->service->config.webhook_timeout_sec * 1000
	};

	(void)snprintf(timestamp, sizeof(timestamp), "%lld", (long long)(time_real_ms() / 1000));
	(void)snprintf(id, sizeof(id), "%lld", (long long)message->event);
	(void)snprintf(number, sizeof(number), "%u", message->attempts);
	sign(hook, timestamp, message->body, signature);
	return poster->post(poster, &request, done, arg, ret);
}

void webhook_explain(char *dst, size_t size, const struct service *service, int status, int error)
{
	if (status >= 300 && status < 400)
		(void)snprintf(dst, size, "answered %d: redirects are not followed", status);
	else if (status)
		(void)snprintf(dst, size, "answered %d", status);
	else if (error == -EPERM)
		(void)snprintf(
			dst, size,
			"its address is private or this host's own (see webhook_allow_private)");
	else if (error == -EHOSTUNREACH)
		(void)snprintf(dst, size, "the host does not exist or cannot be reached");
	else if (error == -ETIMEDOUT)
		(void)snprintf(dst, size, "no answer within %u s",
			       service->config.webhook_timeout_sec);
	else if (error == -EKEYREJECTED)
		(void)snprintf(dst, size,
			       "its certificate is not trusted or belongs to another host");
	else if (error == -EPROTO)
		(void)snprintf(dst, size, "the reply is not HTTP");
	else
		(void)snprintf(dst, size, "%s", strerror(-error));
}

/* ---- delivery ---- */

static void wait_in_line(struct webhook *hook)
{
	struct service *service = hook->service;

	if (hook->waiting)
		return;
	hook->waiting = true;
	hook->next_waiting = NULL;
	if (service->events->hooks_last)
		service->events->hooks_last->next_waiting = hook;
	else
		service->events->hooks_first = hook;
	service->events->hooks_last = hook;
}

static void leave_line(struct webhook *hook)
{
	struct service *service = hook->service;
	struct webhook **at = &service->events->hooks_first, *last = NULL;

	while (*at) {
		if (*at == hook) {
			*at = hook->next_waiting;
		} else {
			last = *at;
			at = &(*at)->next_waiting;
		}
	}
	service->events->hooks_last = last;
	hook->waiting = false;
}

static void next_in_line(struct service *service)
{
	while (service->events->hooks_first &&
	       service->events->hooks_posting < service->config.webhooks_at_once) {
		struct webhook *hook = service->events->hooks_first;

		leave_line(hook);
		attempt(hook);
	}
}

static void let_go(struct webhook *hook)
{
	hook->event = 0;
	hook->attempts = 0;
	hook->next_ms = 0;
	buf_clear(&hook->body);
	if (hook->reader)
		bus_reader_go_on(hook->reader);
}

static void delivered(struct webhook *hook)
{
	hook->cursor = hook->event;
	hook->failing_ms = 0;
	hook->error[0] = '\0';
	hook->delivered_ms = time_real_ms();
	if (store_webhook_set_cursor(hook->service->store, hook->id, hook->cursor, 0,
				     hook->missed) < 0)
		log_warn("webhook %s: the position could not be recorded, so event %lld may be "
			 "sent again",
			 hook->id, (long long)hook->event);
	service_wrote(hook->service);
	let_go(hook);
}

static int bury(struct webhook *hook)
{
	struct store *store = hook->service->store;
	struct store_dead dead = { .hook = hook->id,
				   .event = hook->event,
				   .type = hook->type,
				   .ms = hook->tried_ms,
				   .attempts = hook->attempts,
				   .status = hook->status,
				   .error = hook->error,
				   .body = buf_str(&hook->body) };
	int r = store_begin(store);

	if (r < 0)
		return r;
	r = store_dead_put(store, &dead, WEBHOOK_DEAD_KEEP);
	if (r == 0)
		r = store_webhook_set_cursor(store, hook->id, hook->event, hook->failing_ms,
					     hook->missed);
	return store_end(store, r);
}

/* Doubles with each attempt, with a jitter of a quarter, so that webhooks do not all retry at the
 * same time. */
static int64_t backoff_ms(const struct webhook *hook)
{
	int64_t ms = (int64_t)hook->service->config.webhook_retry_ms
		     << MIN(hook->attempts - 1, 16u);
	uint32_t random;

	ms = MIN(ms, RETRY_MAX_MS);
	rand_bytes(&random, sizeof(random));
	return ms - ms / 4 + (int64_t)(random % (uint32_t)(ms / 2 + 1));
}

static void retry(struct webhook *hook, int64_t delay_ms)
{
	hook->next_ms = time_real_ms() + delay_ms;
	loop_timer_set(hook->timer, delay_ms, 0);
}

static void webhook_disable(struct webhook *hook, const char *reason)
{
	char *copy = strdup(reason);

	log_warn("webhook %s is disabled: %s", hook->id, reason);
	free(hook->disabled_reason);
	hook->disabled_reason = copy;
	hook->enabled = false;
	webhook_stop(hook);
	if (webhook_save(hook) < 0)
		log_error("webhook %s: the disabled state could not be recorded", hook->id);
	event_webhook_disabled(hook->service, hook->id, hook->owner, hook->workspace, hook->url,
			       reason);
}

static void failed(struct webhook *hook)
{
	const struct service_config *config = &hook->service->config;
	int64_t now_ms = steady_now_ms(hook->service);

	if (!hook->failing_ms)
		hook->failing_ms = now_ms;
	if (hook->attempts < config->webhook_attempts) {
		if (now_ms - hook->failing_ms >= (int64_t)config->webhook_disable_sec * 1000)
			webhook_disable(hook, hook->error);
		else
			retry(hook, backoff_ms(hook));
		return;
	}
	log_warn("webhook %s: event %lld is given up after %u attempts: %s", hook->id,
		 (long long)hook->event, hook->attempts, hook->error);
	if (bury(hook) < 0) { /* retry it rather than lose it */
		retry(hook, RETRY_MAX_MS);
		return;
	}
	service_wrote(hook->service);
	hook->cursor = hook->event;
	if (now_ms - hook->failing_ms >= (int64_t)config->webhook_disable_sec * 1000)
		webhook_disable(hook, hook->error);
	else
		let_go(hook);
}

static void on_posted(void *arg, int status, int error)
{
	struct webhook *hook = arg;
	struct service *service = hook->service;

	hook->post = 0;
	service->events->hooks_posting--;
	hook->status = status;
	hook->tried_ms = time_real_ms();
	if (status >= 200 && status < 300) {
		service->upkeep.counters.hooks_delivered++;
		delivered(hook);
	} else {
		service->upkeep.counters.hooks_failed++;
		webhook_explain(hook->error, sizeof(hook->error), service, status, error);
		failed(hook);
	}
	next_in_line(service);
}

static void attempt(struct webhook *hook)
{
	struct service *service = hook->service;
	struct webhook_message message;
	int r;

	if (service->events->hooks_posting >= service->config.webhooks_at_once) {
		wait_in_line(hook);
		return;
	}
	hook->attempts++;
	hook->next_ms = 0;
	message = (struct webhook_message){ hook->event, hook->type, hook->attempts,
					    buf_str(&hook->body) };
	r = webhook_post(hook, &message, on_posted, hook, &hook->post);
	if (r == 0) {
		service->events->hooks_posting++;
		return;
	}
	hook->post = 0;
	hook->status = 0;
	hook->tried_ms = time_real_ms();
	webhook_explain(hook->error, sizeof(hook->error), service, 0, r);
	failed(hook);
}

/* ---- reading events ---- */

static enum bus_answer on_event(void *arg, const struct event *event)
{
	struct webhook *hook = arg;

	buf_clear(&hook->body);
	if (event_encode(event, &hook->body) < 0) {
		log_warn("webhook %s: event %lld is too large", hook->id, (long long)event->id);
		return BUS_MORE;
	}
	hook->event = event->id;
	hook->type = "";
	for (int i = 0; i < EVENT_COUNT; i++)
		if (strcmp(event_names[i], event->type) == 0)
			hook->type = event_names[i];
	hook->attempts = 0;
	loop_timer_set(hook->timer, 0, 0);
	return BUS_WAIT;
}

static enum bus_answer on_gap(void *arg, const struct bus_gap *gap)
{
	struct webhook *hook = arg;

	hook->missed += gap->events;
	log_warn("webhook %s: %lld events were deleted before they could be delivered", hook->id,
		 (long long)gap->events);
	return BUS_MORE;
}

static void on_end(void *arg, bool more)
{
	struct webhook *hook = arg;

	(void)more;
	hook->reader = NULL;
	if (!hook->event)
		loop_timer_set(hook->timer, REOPEN_MS, 0);
}

static void open_reader(struct webhook *hook)
{
	static const struct bus_hooks hooks = { on_event, on_gap, on_end };
	const struct key *owner = auth_by_id(hook->service, hook->owner);
	struct bus_filter filter = { .types = hook->types };
	struct err err;

	if (!owner) {
		webhook_disable(hook, "its key was deleted");
		return;
	}
	if (!key_is_admin(owner))
		memcpy(filter.owner, owner->id, sizeof(filter.owner));
	if (hook->workspace)
		(void)!str_copy(filter.external_workspace_id, sizeof(filter.external_workspace_id),
				str_of(hook->workspace));
	hook->cursor = MIN(hook->cursor, bus_newest(hook->service));
	if (bus_read(hook->service, &(struct bus_ask){ &filter, hook->cursor, true }, &hooks, hook,
		     &hook->reader, &err) < 0) {
		log_warn("webhook %s: %s", hook->id, err.message);
		loop_timer_set(hook->timer, REOPEN_MS, 0);
	}
}

static void on_timer(void *arg)
{
	struct webhook *hook = arg;

	if (!hook->enabled || hook->post || hook->waiting)
		return;
	if (hook->event)
		attempt(hook);
	else if (!hook->reader)
		open_reader(hook);
}

void webhook_start(struct webhook *hook)
{
	if (!hook->enabled || !hook->service->config.poster)
		return;
	if (!hook->timer &&
	    loop_timer_new(hook->service->config.loop, on_timer, hook, &hook->timer) < 0) {
		log_error("webhook %s: out of memory", hook->id);
		return;
	}
	loop_timer_set(hook->timer, 0, 0);
}

void webhook_stop(struct webhook *hook)
{
	struct service *service = hook->service;
	struct poster *poster = service->config.poster;
	struct webhook_try *try_now = TAKE_PTR(hook->try_now);

	if (hook->reader)
		bus_reader_close(TAKE_PTR(hook->reader));
	if (hook->timer)
		loop_timer_clear(hook->timer);
	leave_line(hook);
	if (hook->post) {
		poster->cancel(poster, hook->post);
		hook->post = 0;
		service->events->hooks_posting--;
	}
	if (try_now) {
		struct err err;

		poster->cancel(poster, try_now->post);
		(void)err_set(&err, ERR_CONFLICT, "the webhook was changed in the meantime");
		try_now->done(try_now->arg, NULL, &err);
		free(try_now);
	}
	hook->event = 0;
	hook->attempts = 0;
	hook->next_ms = 0;
	buf_clear(&hook->body);
}
