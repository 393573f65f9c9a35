/* SPDX-License-Identifier: Apache-2.0 */
/* How streams open: dialled by the daemon, or offered by the agent for a connection out. */
#include <errno.h>

#include "engine/link_stream.h"

int link_stream_dial(struct link *link, uint16_t port, link_dial_fn done, void *arg,
		     struct err *err)
{
	size_t before = buf_len(&link->out);
	struct stream_frame frame = { .type = STREAM_DIAL,
				      .port = port,
				      .credit = LINK_WINDOW_BYTES };
	struct link_stream *stream;

	if (!(link->features & AGENT_HAS_STREAMS))
		return err_set(err, ERR_UNSUPPORTED,
			       "this sandbox was started by a version without streams");
	if (link->streams.count >= LINK_STREAMS_MAX || link->next_stream > STREAM_NUMBER_MAX)
		return err_set(err, ERR_CAPACITY_EXCEEDED,
			       "too many connections to this sandbox are open");
	stream = link_stream_new(link, link->next_stream);
	if (!stream)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	stream->dialed = done;
	stream->arg = arg;
	frame.stream = stream->node.id;
	if (link_commit(link, before, stream_put(&link->out, &frame), err) < 0) {
		link_stream_free(stream);
		return -1;
	}
	link->next_stream += 2;
	return 0;
}

void link_stream_answer(struct link_stream *stream, int fd, const struct err *error)
{
	link_dial_fn done = stream->dialed;
	void *arg = stream->arg;

	stream->dialed = NULL;
	if (error)
		link_stream_free(stream);
	if (done)
		done(arg, fd, error);
}

int link_stream_on_opened(struct link_stream *stream, const struct stream_frame *frame)
{
	struct err err;
	int fd = -1, r;

	if (!stream->dialed)
		return link_protocol_error(stream->link, "a connection that was not dialled");
	if (frame->errno_value) {
		link_dial_error(&err, (int)frame->errno_value);
		link_stream_answer(stream, -1, &err);
		return 0;
	}
	if (stream_flow_on_opened(&stream->flow, frame->credit) < 0)
		return link_protocol_error(stream->link, "a stream that opens twice");
	r = link_stream_pair(stream, &fd);
	if (r < 0) {
		(void)err_set_errno(&err, ERR_UNAVAILABLE, -r, "no descriptors are left");
		link_stream_put(stream->link, &(struct stream_frame){ .type = STREAM_RESET,
								      .stream = stream->node.id });
		link_stream_answer(stream, -1, &err);
		return 0;
	}
	link_stream_answer(stream, fd, NULL);
	return 0;
}

static void refuse_offer(struct link *link, uint32_t id, int error)
{
	const struct stream_frame frame = { .type = STREAM_OPENED,
					    .stream = id,
					    .errno_value = (uint32_t)error };

	link_stream_put(link, &frame);
}

int link_stream_on_offer(struct link *link, const struct stream_frame *offer)
{
	struct stream_frame opened = { .type = STREAM_OPENED,
				       .stream = offer->stream,
				       .credit = LINK_WINDOW_BYTES };
	struct link_stream *stream;
	int fd = -1;

	if (offer->stream <= link->last_offer)
		return link_protocol_error(link, "the number of a stream came twice");
	link->last_offer = offer->stream;
	if (!link->hooks.on_egress || link->offer_count >= LINK_OFFERS_MAX) {
		refuse_offer(link, offer->stream, link->hooks.on_egress ? EAGAIN : EPERM);
		return 0;
	}
	stream = link_stream_new(link, offer->stream);
	if (stream)
		(void)!stream_flow_on_opened(&stream->flow, offer->credit);
	if (!stream || link_stream_pair(stream, &fd) < 0) {
		if (stream)
			link_stream_free(stream);
		refuse_offer(link, offer->stream, ENOMEM);
		return 0;
	}
	link_stream_put(link, &opened);
	link->hooks.on_egress(link->arg, fd);
	return 0;
}
