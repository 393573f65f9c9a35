/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/engine/link*.c: one connection that is carried as a stream. */
#ifndef CAY_ENGINE_LINK_STREAM_H
#define CAY_ENGINE_LINK_STREAM_H

#include "engine/link_state.h"

/* Owner: link->streams. Before it is open there is no socket pair, and dialed waits. */
struct link_stream {
	struct link_node node;
	struct link *link;
	link_dial_fn dialed;
	void *arg;
	int fd; /* our end; -1: not open */
	struct loop_watch *watch;
	struct stream_flow flow;
	struct buf out; /* for the caller; limit: the window, which the agent cannot exceed */
	bool waits;	/* in link->waiting: the link's queue is full */
	struct link_stream *next_waiting, **pprev_waiting;
};

/* link_stream.c. NULL: no memory. */
struct link_stream *link_stream_new(struct link *link, uint32_t id);
void link_stream_free(struct link_stream *stream);
/* Watches our end; the caller's is in *ret_fd. */
int link_stream_pair(struct link_stream *stream, int *ret_fd) _must_check_;
/*
 * Queues frames that must be sent. They have reserved space in the queue; an agent that lets it
 * fill up does not read its connection.
 */
void link_stream_put(struct link *link, const struct stream_frame *frame);

/* link_stream_open.c */
int link_stream_on_opened(struct link_stream *stream,
			  const struct stream_frame *frame) _must_check_;
int link_stream_on_offer(struct link *link, const struct stream_frame *offer) _must_check_;
/* The record is removed or open before the caller is informed. */
void link_stream_answer(struct link_stream *stream, int fd, const struct err *error);

#endif
