/* SPDX-License-Identifier: Apache-2.0 */
/* Readers: from link_follow(), link_spawn() or link_window_run() to their one on_end. */
#include "engine/link_state.h"

struct link_reader *link_reader_find(const struct link *link, uint32_t follow_id)
{
	struct link_node *node = link_table_find(&link->follows, follow_id);

	return node ? CONTAINER_OF(node, struct link_reader, node) : NULL;
}

struct link_reader *link_reader_new(struct link *link, const struct link_follow_hooks *hooks,
				    void *arg, uint32_t credit, uint8_t streams, struct err *err)
{
	struct link_reader *reader;

	if (link->follows.count == LINK_FOLLOWS_MAX || link->next_follow_id == UINT32_MAX) {
		(void)err_set(err, ERR_QUOTA_EXCEEDED, "at most %d readers of one sandbox",
			      LINK_FOLLOWS_MAX);
		return NULL;
	}
	reader = calloc(1, sizeof(*reader));
	if (reader) {
		*reader = (struct link_reader){ .node = { .id = link->next_follow_id },
						.credit = MIN(credit, AGENT_CREDIT_MAX),
						.streams = streams,
						.hooks = *hooks,
						.arg = arg };
	}
	if (!reader || link_table_add(&link->follows, &reader->node) < 0) {
		free(reader);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	link->next_follow_id++;
	link->reserved_bytes += LINK_UNFOLLOW_SIZE;
	return reader;
}

static void settle_owed(struct link_reader *reader)
{
	if (!reader->owed)
		return;
	*reader->pprev_owing = reader->next_owing;
	if (reader->next_owing)
		reader->next_owing->pprev_owing = reader->pprev_owing;
	reader->owed = 0;
}

void link_reader_free(struct link *link, struct link_reader *reader)
{
	settle_owed(reader);
	link_table_remove(&link->follows, &reader->node);
	link->reserved_bytes -= LINK_UNFOLLOW_SIZE;
	free(reader);
}

/*
 * The record is removed before the owner is called, because the owner may free or start anything.
 */
static void end(struct link *link, struct link_reader *reader, const struct link_status *status,
		const struct err *error)
{
	struct link_follow_hooks hooks = reader->hooks;
	void *arg = reader->arg;

	link_reader_free(link, reader);
	hooks.on_end(arg, status, error);
}

void link_drop_follows(struct link *link)
{
	struct link_status gone = { .end = LINK_END_GONE, .exit_code = -1 };
	struct link_node *node;
	uint32_t cursor = 0;

	while ((node = link_table_any(&link->follows, &cursor)))
		end(link, CONTAINER_OF(node, struct link_reader, node), &gone, &link->why);
}

int link_follow(struct link *link, uint32_t process_id, const struct link_follow *follow,
		const struct link_follow_hooks *hooks, void *arg, uint32_t *ret_follow_id,
		struct err *err)
{
	bool out = follow->streams & LINK_OUT, errs = follow->streams & LINK_ERR;
	bool hold = follow->hold && follow->live && (link->features & AGENT_HAS_HOLD);
	struct agent_follow request = {
		.process_id = process_id,
		.run = follow->run,
		.flags = (uint8_t)((follow->live ? AGENT_FOLLOW_LIVE : 0) |
				   (out ? AGENT_FOLLOW_OUT : 0) | (errs ? AGENT_FOLLOW_ERR : 0) |
				   (follow->tail ? AGENT_FOLLOW_TAIL : 0) |
				   (hold ? AGENT_FOLLOW_HOLD : 0) |
				   (follow->run ? AGENT_FOLLOW_RUN : 0)),
		.out_cursor = out ? follow->out_cursor : 0,
		.err_cursor = errs ? follow->err_cursor : 0,
	};
	size_t before = buf_len(&link->out);
	struct link_reader *reader;
	uint32_t id;

	if (link_check_process(link, process_id, err) < 0)
		return -1;
	reader = link_reader_new(link, hooks, arg, follow->credit, follow->streams, err);
	if (!reader)
		return -1;
	reader->process_id = process_id;
	if (!follow->tail) {
		reader->cursors[0] = request.out_cursor;
		reader->cursors[1] = request.err_cursor;
	}
	id = request.follow_id = reader->node.id;
	request.credit = reader->credit;
	if (link_commit(link, before, agent_put_follow(&link->out, &request), err) < 0) {
		link_reader_free(link, reader);
		return -1;
	}
	*ret_follow_id = id;
	return 0;
}

/* As many as fit; the rest is sent when the agent has read. */
void link_put_owed(struct link *link)
{
	size_t size = FRAME_HEADER_SIZE + 8;

	while (link->owing &&
	       buf_len(&link->out) + link->reserved_bytes + size <= LINK_OUT_MAX_BYTES) {
		struct link_reader *reader = link->owing;

		if (agent_put_credit(&link->out, reader->node.id, reader->owed) < 0) {
			link_break(link, ERR_UNAVAILABLE, "out of memory");
			return;
		}
		reader->credit += reader->owed;
		settle_owed(reader);
	}
}

void link_credit(struct link *link, uint32_t follow_id, uint32_t bytes)
{
	struct link_reader *reader = link_reader_find(link, follow_id);

	if (!reader || link->state != LINK_READY)
		return;
	bytes = MIN(bytes, AGENT_CREDIT_MAX - reader->credit - reader->owed);
	if (bytes == 0)
		return;
	if (!reader->owed) {
		reader->next_owing = link->owing;
		reader->pprev_owing = &link->owing;
		if (reader->next_owing)
			reader->next_owing->pprev_owing = &reader->next_owing;
		link->owing = reader;
	}
	reader->owed += bytes;
	link_flush(link);
}

void link_unfollow(struct link *link, uint32_t follow_id)
{
	struct link_reader *reader = link_reader_find(link, follow_id);

	if (!reader)
		return;
	link_reader_free(link, reader);
	if (link->state != LINK_READY)
		return;
	if (agent_put_unfollow(&link->out, follow_id) < 0)
		link_break(link, ERR_UNAVAILABLE, "out of memory");
	else
		link_flush(link);
}

int link_on_output(struct link *link, const struct frame *frame)
{
	struct agent_output output;
	struct link_reader *reader;
	int stream;

	if (agent_get_output(frame, &output) < 0)
		return link_protocol_error(link, "bad output frame");
	if (output.follow_id == 0)
		return link_on_collected(link, &output);
	reader = link_reader_find(link, output.follow_id);
	if (!reader) {
		if (output.follow_id < link->next_follow_id)
			return 0;
		return link_protocol_error(link, "unexpected output");
	}
	if (reader->process_id != output.process_id)
		return link_protocol_error(link, "output of another process");
	stream = output.stream == AGENT_STREAM_OUT ? LINK_OUT : LINK_ERR;
	if (!(reader->streams & stream))
		return link_protocol_error(link, "output of a stream that was not requested");
	if (output.bytes.n > reader->credit)
		return link_protocol_error(link, "more output than requested");
	if (output.cursor < reader->cursors[stream - 1])
		return link_protocol_error(link, "output going backwards");
	reader->credit -= (uint32_t)output.bytes.n;
	reader->cursors[stream - 1] = output.cursor + output.bytes.n;
	reader->hooks.on_output(reader->arg, stream, output.cursor, output.bytes);
	return 0;
}

int link_on_followed(struct link *link, const struct frame *frame)
{
	struct agent_followed followed;
	struct link_status status;
	struct link_reader *reader;
	struct err err;

	if (agent_get_followed(frame, &followed) < 0)
		return link_protocol_error(link, "bad end of a follow");
	reader = link_reader_find(link, followed.follow_id);
	if (!reader) {
		if (followed.follow_id < link->next_follow_id)
			return 0;
		return link_protocol_error(link, "an unexpected end of a follow");
	}
	if (reader->process_id != followed.process_id)
		return link_protocol_error(link, "the end of another process");
	link_status_of(&status, &followed.status);
	if (followed.refusal) {
		link_refusal(&err, followed.refusal, 0, NULL, (struct str){ "", 0 });
		status.end = LINK_END_REFUSED;
		end(link, reader, &status, &err);
		return 0;
	}
	if (((reader->streams & LINK_OUT) && status.out_total < reader->cursors[0]) ||
	    ((reader->streams & LINK_ERR) && status.err_total < reader->cursors[1]))
		return link_protocol_error(link, "less output in all than there was");
	end(link, reader, &status, NULL);
	return 0;
}
