/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/service: bus.c writes and expires events, bus_reader.c delivers them, event.c
 * composes them.
 */
#ifndef CAY_SERVICE_EVENT_BUS_PRIVATE_H
#define CAY_SERVICE_EVENT_BUS_PRIVATE_H

#include "service/event/event_internal.h"

/* An event that is not published yet, followed by its texts. In the list, events that are in the
 * store precede the others. */
struct bus_news {
	struct bus_news *next;
	struct event event;
	const char *tenant;
	bool written;
	char bytes[];
};

struct bus_reader {
	struct bus_reader *prev, *next;
	struct bus *bus;
	struct bus_filter filter;
	char tenant[AUTH_KEY_ID_SIZE]; /* of the owner that it is limited to */
	struct bus_hooks hooks;
	void *arg;
	int64_t cursor; /* id of the last event examined */
	struct bus_gap gap;
	bool live;
	bool waiting; /* for bus_reader_go_on() */
	bool ended;   /* on_end has to be called */
	bool more;
};

/* Owner: the service. */
struct bus {
	struct service *service;
	struct bus_news *first,
		*last; /* at most NEWS_MAX; then the oldest is dropped and counted */
	uint32_t news_count;
	int64_t told_id;      /* the newest published event; stored_id may be greater */
	int64_t last_id;      /* the last id assigned */
	int64_t reserving_id; /* reserved_id of the transaction in progress; 0: none */
	int64_t reserved_id;  /* later starts assign only greater ids */
	int64_t stored_id;  /* the newest in the store; if it is empty, less than every later id */
	int64_t trimmed_id; /* no tenant has an event up to this one */
	int64_t share_trimmed_id; /* the newest that a tenant lost by having more than its share */
	int64_t count;		  /* in the store */
	struct loop_timer *flush; /* writes */
	struct loop_timer *pump;  /* readers that are behind */
	struct bus_reader *readers;
	struct buf scratch;
	bool flush_armed;
	bool failing;
};

/* bus_reader.c */
void bus_tell(struct bus *bus, const struct bus_news *news, int64_t before);
void bus_missed(struct bus *bus, const struct event *event); /* by those who would have got it */
void bus_trim_readers(struct bus *bus, const char *tenant, int64_t upto); /* NULL: of all */
void bus_on_pump(void *arg);
void bus_readers_done(struct bus *bus);

/* bus_trim.c */
void bus_trim_count(struct bus *bus);

#endif
