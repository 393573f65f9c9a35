/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: webhook.c keeps the table, webhook_send.c delivers. */
#ifndef CAY_SERVICE_EVENT_WEBHOOK_PRIVATE_H
#define CAY_SERVICE_EVENT_WEBHOOK_PRIVATE_H

#include "base/buf.h"
#include "base/value/poster.h"
#include "service/event/bus.h"
#include "service/service_internal.h"
#include "service/event/webhook.h"

#define WEBHOOK_BODY_MAX (64 * 1024)
#define WEBHOOK_ERROR_MAX 160

/* An attempt out of turn. Owner: its hook, until its end. */
struct webhook_try {
	struct webhook *hook;
	uint64_t post;
	int64_t started_us;
	int64_t event; /* of a dead one; 0: a test */
	webhook_done_fn done;
	void *arg;
};

/* Owner: service->events->webhooks. */
struct webhook {
	struct webhook *prev, *next; /* by seq */
	struct service *service;
	char id[WEBHOOK_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	int64_t seq, created_ms, failing_ms, missed, cursor;
	char *url, *secret, *events;   /* heap */
	char *description, *workspace; /* heap or NULL */
	char *disabled_reason;	       /* heap or NULL */
	uint32_t types;
	bool enabled;

	struct bus_reader *reader;
	struct loop_timer *timer; /* the next attempt, or a reader that has to be opened again */
	/* The event in hand; 0: none. */
	int64_t event;
	const char *type;
	struct buf body;
	uint32_t attempts;
	uint64_t post; /* under way; 0: none */
	int64_t next_ms, tried_ms, delivered_ms;
	int status;
	char error[WEBHOOK_ERROR_MAX];
	struct webhook *next_waiting; /* for one of the posts at once */
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
void webhook_start(struct webhook *hook); /* when it is enabled */
void webhook_stop(struct webhook *hook);  /* what was begun is forgotten and told again */
/* webhook.c */
int webhook_save(const struct webhook *hook) _must_check_;
int webhook_load(struct service *service, struct err *err) _must_check_;
void webhook_tick(struct service *service);
void webhook_done_all(struct service *service);

#endif
