/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/event: webhook.c has the table, webhook_send.c the deliveries. */
#ifndef CAY_SERVICE_EVENT_WEBHOOK_PRIVATE_H
#define CAY_SERVICE_EVENT_WEBHOOK_PRIVATE_H

#include "base/buf.h"
#include "base/value/poster.h"
#include "service/event/bus.h"
#include "service/service_internal.h"
#include "service/event/webhook.h"

#define WEBHOOK_BODY_MAX (64 * 1024)
#define WEBHOOK_ERROR_MAX 160

/* A manual attempt. Owner: its webhook, until its end. */
struct webhook_try {
	struct webhook *hook;
	uint64_t post;
	int64_t started_us;
	int64_t event; /* of a dead delivery; 0: a test */
	webhook_done_fn done;
	void *arg;
};

/* Owner: service->events->webhooks. */
struct webhook {
	struct webhook *prev, *next; /* by seq */
	struct service *service;
	char id[WEBHOOK_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	int64_t seq, created_ms, missed, cursor;
	int64_t failing_ms;	       /* steady clock: since when; 0: it works */
	char *url, *secret, *events;   /* heap */
	char *description, *workspace; /* heap or NULL */
	char *disabled_reason;	       /* heap or NULL */
	uint32_t types;
	bool enabled;

	struct bus_reader *reader;
	struct loop_timer *timer; /* the next attempt, or reopening the reader */
	/* The event being delivered; 0: none. */
	int64_t event;
	const char *type;
	struct buf body;
	uint32_t attempts;
	uint64_t post; /* in progress; 0: none */
	int64_t next_ms, tried_ms, delivered_ms;
	int status;
	char error[WEBHOOK_ERROR_MAX];
	struct webhook *next_waiting; /* queue for a free delivery */
	bool waiting;
	struct webhook_try *try_now;
};

/* webhook_send.c */
struct webhook_message {
	int64_t event;
	const char *type;
	uint32_t attempts;
	struct str body;
};
int webhook_post(struct webhook *hook, const struct webhook_message *message, poster_fn done,
		 void *arg, uint64_t *ret) _must_check_;
void webhook_explain(char *dst, size_t size, const struct service *service, int status, int error);
void webhook_start(struct webhook *hook); /* if it is enabled */
/* A delivery in progress is abandoned, and repeated after the next start. */
void webhook_stop(struct webhook *hook);
/* webhook.c */
int webhook_save(const struct webhook *hook) _must_check_;
int webhook_load(struct service *service, struct err *err) _must_check_;
void webhook_tick(struct service *service);
void webhook_done_all(struct service *service);

#endif
