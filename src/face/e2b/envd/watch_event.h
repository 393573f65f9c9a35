/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: events of a watch in E2B's form, each with its entry if requested. */
#ifndef CAY_FACE_E2B_ENVD_WATCH_EVENT_H
#define CAY_FACE_E2B_ENVD_WATCH_EVENT_H

#include "face/e2b/envd/envd.h"

#define WATCH_QUEUE_MAX 1000 /* events that wait for entries; beyond it they are sent without */

/* Owner: the watch it belongs to. Events are sent in order. */
struct watch_writer {
	struct e2b *e2b;
	slot_handle sandbox;
	char *path;   /* the watched directory with its slash; heap */
	bool entries; /* look up what was created or written */
	bool root;    /* the engine has users: the lookup runs as root */
	struct note *first, *last;
	size_t count;
	slot_handle run; /* the lookup in progress; 0: none */
	/* w is positioned where the members of the event go. */
	struct json_writer (*begin)(void *arg);
	void (*end)(void *arg, struct json_writer *w);
	void *arg;
};

int watch_writer_init(struct watch_writer *writer, const struct e2b_call *call, struct str path,
		      bool entries) _must_check_;
void watch_writer_done(struct watch_writer *writer);
struct files_event;
void watch_writer_take(struct watch_writer *writer, const struct files_event *event);

#endif
