/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: a command in a persistent shell, and the follow of its output. */
#include "engine/link_state.h"

static int check_run(const struct link *link, const struct link_window_run *run, struct err *err)
{
	if (link_check_ready(link, err) < 0)
		return -1;
	if (!run->name || !agent_name_ok(str_of(run->name)))
		return err_set(err, ERR_INVALID_REQUEST,
			       "window: 1 to %d of letters, digits, '.', '_' and '-'",
			       AGENT_NAME_MAX);
	if (run->command.n == 0)
		return err_set(err, ERR_INVALID_REQUEST, "command must not be empty");
	if (memchr(run->command.p, 0, run->command.n))
		return err_set(err, ERR_INVALID_REQUEST, "command: must not contain a NUL");
	if (link->next_process_id == UINT32_MAX)
		return err_set(err, ERR_QUOTA_EXCEEDED, "no process numbers are left");
	return 0;
}

int link_window_run(struct link *link, const struct link_window_run *run, link_window_fn started,
		    void *arg, const struct link_first_reader *first, struct err *err)
{
	struct agent_window_args args = { .name = run->name,
					  .env = run->env,
					  .cwd = run->cwd,
					  .user = run->user,
					  .command = run->command,
					  .ring_bytes =
						  MIN(run->ring_bytes, AGENT_OUTPUT_MAX_BYTES) };
	size_t before = buf_len(&link->out);
	struct link_request *request;
	struct link_reader *reader;
	int r;

	if (check_run(link, run, err) < 0)
		return -1;
	request = link_request_new(link, arg, err);
	if (!request)
		return -1;
	reader = link_reader_new(link, first->hooks, first->arg, first->credit, LINK_OUT, err);
	if (!reader) {
		link_request_free(link, request);
		return -1;
	}
	request->window = started;
	request->process_id = link->next_process_id++;
	request->follow_id = reader->node.id;
	args.tag = request->node.id;
	args.follow_id = reader->node.id;
	args.credit = reader->credit;
	r = agent_put_window_run(&link->out, request->process_id, &args);
	if (link_commit(link, before, r, err) < 0) {
		link_reader_free(link, reader);
		link_request_free(link, request);
		return -1;
	}
	*first->ret_follow_id = args.follow_id;
	return 0;
}

int link_on_window(struct link *link, const struct frame *frame)
{
	struct link_request *request;
	struct link_window window;
	struct link_reader *reader;
	struct agent_window w;
	link_window_fn started;
	void *arg;

	if (agent_get_window(frame, &w) < 0)
		return link_protocol_error(link, "bad window frame");
	request = link_request_find(link, w.tag);
	if (!request || !request->window)
		return link_protocol_error(link, "an unexpected window");
	/* A new shell has the number that we offered; an existing one has its own. */
	if (w.made ? w.process_id != request->process_id : w.process_id >= request->process_id)
		return link_protocol_error(link, "a window of the wrong process");
	reader = link_reader_find(link, request->follow_id);
	if (reader) {
		reader->process_id = w.process_id;
		reader->cursors[0] = w.cursor;
	}
	window = (struct link_window){ .process_id = w.process_id,
				       .run = w.run,
				       .cursor = w.cursor,
				       .made = w.made,
				       .cancelled = w.cancelled };
	started = request->window;
	arg = request->arg;
	link_request_free(link, request);
	started(arg, &window, NULL);
	return 0;
}
