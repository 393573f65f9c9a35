/* SPDX-License-Identifier: Apache-2.0 */
/* Requests with a tag: input, signals, sizes, lists. Each is answered exactly once. */
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/link_state.h"

struct link_request *link_request_find(const struct link *link, uint32_t tag)
{
	struct link_node *node = link_table_find(&link->requests, tag);

	return node ? CONTAINER_OF(node, struct link_request, node) : NULL;
}

struct link_request *link_request_new(struct link *link, void *arg, struct err *err)
{
	struct link_request *request;

	if (link->requests.count == LINK_REQUESTS_MAX || link->next_tag == UINT32_MAX) {
		(void)err_set(err, ERR_CAPACITY_EXCEEDED,
			      "too many requests wait for this sandbox");
		return NULL;
	}
	request = calloc(1, sizeof(*request));
	if (request)
		*request = (struct link_request){ .node = { .id = link->next_tag }, .arg = arg };
	if (!request || link_table_add(&link->requests, &request->node) < 0) {
		free(request);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	link->next_tag++;
	return request;
}

void link_request_free(struct link *link, struct link_request *request)
{
	link_table_remove(&link->requests, &request->node);
	free(request);
}

/* The record is removed before the caller is informed. */
static void answer(struct link *link, struct link_request *request, const struct err *error)
{
	struct link_request r = *request;

	link_request_free(link, request);
	if (r.done)
		r.done(r.arg, error);
	else if (r.each)
		r.each(r.arg, NULL, error);
	else if (r.dialed)
		r.dialed(r.arg, -1, error);
	else if (r.ports)
		r.ports(r.arg, NULL, error);
	else
		r.window(r.arg, NULL, error);
}

void link_request_fail(struct link *link, struct link_request *request, const struct err *error)
{
	answer(link, request, error);
}

/* Its window never started: the follow that belongs to it ends without a call. */
static void drop_follow(struct link *link, uint32_t follow_id)
{
	struct link_reader *reader = follow_id ? link_reader_find(link, follow_id) : NULL;

	if (reader)
		link_reader_free(link, reader);
}

void link_drop_requests(struct link *link)
{
	struct link_node *node;
	uint32_t cursor = 0;

	while ((node = link_table_any(&link->requests, &cursor))) {
		struct link_request *request = CONTAINER_OF(node, struct link_request, node);

		drop_follow(link, request->follow_id);
		answer(link, request, &link->why);
	}
}

int link_on_done(struct link *link, const struct frame *frame)
{
	struct link_request *request;
	struct agent_done done;
	struct err err;

	if (agent_get_done(frame, &done) < 0)
		return link_protocol_error(link, "bad answer frame");
	request = link_request_find(link, done.tag);
	if (!request)
		return link_protocol_error(link, "an unexpected answer");
	if (!done.refusal &&
	    !request->done) /* lists, ports and windows succeed with their own frames */
		return link_protocol_error(link, "an answer of the wrong kind");
	if (done.refusal) {
		link_refusal(&err, done.refusal, done.errno_value, NULL, (struct str){ "", 0 });
		drop_follow(link, request->follow_id);
	}
	answer(link, request, done.refusal ? &err : NULL);
	return 0;
}

/* ---- requests answered by DONE ---- */

/* Tag 0 if the caller does not want the answer; *ret then stays NULL. */
static int want_answer(struct link *link, link_done_fn done, void *arg, struct link_request **ret,
		       struct err *err)
{
	*ret = NULL;
	if (!done)
		return 0;
	*ret = link_request_new(link, arg, err);
	if (!*ret)
		return -1;
	(*ret)->done = done;
	return 0;
}

static int send_or_forget(struct link *link, struct link_request *request, size_t before, int r,
			  struct err *err)
{
	if (link_commit(link, before, r, err) == 0)
		return 0;
	if (request)
		link_request_free(link, request);
	return -1;
}

static uint32_t tag_of(const struct link_request *request)
{
	return request ? request->node.id : 0;
}

int link_stdin(struct link *link, uint32_t process_id, struct str bytes, bool wait,
	       link_done_fn done, void *arg, struct err *err)
{
	uint8_t flags = wait ? AGENT_STDIN_WAIT : 0;
	size_t before = buf_len(&link->out);
	struct link_request *request;
	int r = 0;

	if (link_check_process(link, process_id, err) < 0)
		return -1;
	if (bytes.n == 0)
		return err_set(err, ERR_INVALID_REQUEST, "data: must not be empty");
	if (bytes.n > AGENT_STDIN_MAX_BYTES)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "data: at most %u bytes at a time",
			       AGENT_STDIN_MAX_BYTES);
	if (want_answer(link, done, arg, &request, err) < 0)
		return -1;
	while (r == 0 && bytes.n) {
		struct str piece = { bytes.p, MIN(bytes.n, (size_t)AGENT_STDIN_BYTES_MAX) };
		bool last = piece.n == bytes.n;

		/* The answer to the last piece counts for all of them: see STDIN_MORE. */
		r = agent_put_stdin(&link->out, process_id, last ? tag_of(request) : 0,
				    last ? flags : AGENT_STDIN_MORE, piece);
		bytes.p += piece.n;
		bytes.n -= piece.n;
	}
	return send_or_forget(link, request, before, r, err);
}

/* Returns how many bytes the socket took. Errors are ignored, because the reader finds the end. */
static size_t send_now(struct link *link, struct str a, struct str b, struct str c)
{
	struct iovec iov[] = { { (char *)(uintptr_t)a.p, a.n },
			       { (char *)(uintptr_t)b.p, b.n },
			       { (char *)(uintptr_t)c.p, c.n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov) };
	ssize_t n = sendmsg(link->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n > 0 ? (size_t)n : 0;
}

static int append_rest(struct buf *out, struct str part, size_t *sent)
{
	size_t skip = MIN(*sent, part.n);

	*sent -= skip;
	return part.n > skip ? buf_append(out, part.p + skip, part.n - skip) : 0;
}

int link_feed(struct link *link, uint32_t process_id, struct str head, struct str body,
	      link_done_fn done, void *arg, struct err *err)
{
	size_t total = head.n + body.n, before = buf_len(&link->out), sent = 0, left;
	char frame[FRAME_HEADER_SIZE + 4];
	struct str front = { frame, sizeof(frame) };
	struct link_request *request;
	int r;

	if (link_check_process(link, process_id, err) < 0)
		return -1;
	if (total == 0 || total > AGENT_STDIN_BYTES_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "input of 1 to %u bytes at a time",
			       AGENT_STDIN_BYTES_MAX);
	if (want_answer(link, done, arg, &request, err) < 0)
		return -1;
	frame_store_header(frame, 4 + total, AGENT_STDIN, AGENT_STDIN_WAIT, process_id);
	frame_store32(frame + FRAME_HEADER_SIZE, tag_of(request));
	if (before == 0)
		left = sent = send_now(link, front, head, body);
	else
		left = 0;
	r = append_rest(&link->out, front, &left);
	if (r == 0)
		r = append_rest(&link->out, head, &left);
	if (r == 0)
		r = append_rest(&link->out, body, &left);
	if (sent == 0)
		return send_or_forget(link, request, before, r, err);
	if (r < 0) /* half a frame was sent: nothing can follow it */
		link_break(link, ERR_UNAVAILABLE, "out of memory");
	else if (sent < sizeof(frame) + total)
		link_flush(link);
	return 0;
}

int link_close_stdin(struct link *link, uint32_t process_id, link_done_fn done, void *arg,
		     struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (link_check_process(link, process_id, err) < 0 ||
	    want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_close_stdin(&link->out, process_id, tag_of(request)), err);
}

int link_signal(struct link *link, uint32_t process_id, int signum, link_done_fn done, void *arg,
		struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (link_check_process(link, process_id, err) < 0)
		return -1;
	if (signum < 1 || signum > AGENT_SIGNAL_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "signal: between 1 and %d",
			       AGENT_SIGNAL_MAX);
	if (want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_kill(&link->out, process_id, tag_of(request), signum), err);
}

int link_resize(struct link *link, uint32_t process_id, uint16_t cols, uint16_t rows,
		link_done_fn done, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (link_check_process(link, process_id, err) < 0)
		return -1;
	if (cols < 1 || cols > AGENT_TTY_MAX || rows < 1 || rows > AGENT_TTY_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "cols and rows: between 1 and %d",
			       AGENT_TTY_MAX);
	if (want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_resize(&link->out, process_id, tag_of(request), cols, rows),
			      err);
}

int link_stop(struct link *link, uint32_t process_id, uint32_t grace_ms, link_done_fn done,
	      void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (link_check_process(link, process_id, err) < 0 ||
	    want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_stop(&link->out, process_id, tag_of(request),
					     AGENT_STOP_FORGET, MIN(grace_ms, AGENT_GRACE_MAX_MS)),
			      err);
}

static int check_orphans(const struct link *link, struct err *err)
{
	if (link_check_ready(link, err) < 0)
		return -1;
	if (!(link->features & AGENT_HAS_ORPHANS))
		return err_set(err, ERR_UNSUPPORTED,
			       "the agent of this sandbox cannot find processes by their pid");
	return 0;
}

int link_kill_pid(struct link *link, uint32_t pid, int signum, bool tree, link_done_fn done,
		  void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (check_orphans(link, err) < 0)
		return -1;
	if (signum < 1 || signum > AGENT_SIGNAL_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "signal: between 1 and %d",
			       AGENT_SIGNAL_MAX);
	if (want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_kill_pid(&link->out, pid, tag_of(request), signum,
						 tree ? AGENT_KILL_PID_TREE : 0),
			      err);
}

int link_kill_all(struct link *link, link_done_fn done, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (check_orphans(link, err) < 0 || want_answer(link, done, arg, &request, err) < 0)
		return -1;
	return send_or_forget(link, request, before,
			      agent_put_kill_all(&link->out, tag_of(request)), err);
}

/* ---- lists ---- */

int link_orphans(struct link *link, link_list_fn each, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (check_orphans(link, err) < 0)
		return -1;
	request = link_request_new(link, arg, err);
	if (!request)
		return -1;
	request->each = each;
	request->orphans = true;
	return send_or_forget(link, request, before,
			      agent_put_orphans(&link->out, request->node.id), err);
}

int link_list(struct link *link, uint32_t process_id, link_list_fn each, void *arg, struct err *err)
{
	size_t before = buf_len(&link->out);
	struct link_request *request;

	if (process_id ? link_check_process(link, process_id, err) < 0
		       : link_check_ready(link, err) < 0)
		return -1;
	request = link_request_new(link, arg, err);
	if (!request)
		return -1;
	request->each = each;
	request->process_id = process_id;
	return send_or_forget(link, request, before,
			      agent_put_list(&link->out, process_id, request->node.id), err);
}

static void tell_one(const struct link_request *request, const struct agent_listed *from)
{
	char name[AGENT_NAME_MAX + 1], user[AGENT_USER_MAX + 1], command[AGENT_COMMAND_MAX + 1];
	struct link_process_info info = {
		.process_id = from->process_id,
		.pid = from->pid,
		.tty = from->flags & AGENT_PROCESS_TTY,
		.window = from->flags & AGENT_PROCESS_WINDOW,
		.collect = from->flags & AGENT_PROCESS_COLLECT,
		.orphan = from->flags & AGENT_PROCESS_ORPHAN,
		.busy = from->flags & AGENT_PROCESS_BUSY,
		.stdin_open = from->flags & AGENT_PROCESS_STDIN_OPEN,
		.cols = from->cols,
		.rows = from->rows,
		.start_ms = (int64_t)from->start_ms,
		.out_begin = from->out_begin,
		.err_begin = from->err_begin,
		.run = from->run,
		.run_end = link_end_of(from->run_end),
		.run_exit_code = (int)from->run_exit_code,
		.run_cursor = from->run_cursor,
		.idle_ms = (int64_t)from->idle_ms,
		.name = name,
		.user = user,
		.command = command,
	};

	link_status_of(&info.status, &from->status);
	(void)link_clean(name, from->name);
	(void)link_clean(user, from->user);
	(void)link_clean(command, from->command);
	request->each(request->arg, &info, NULL);
}

/* -1 with link->why set: a protocol violation. */
static int check_listed(struct link *link, struct link_request *request,
			const struct agent_listed *listed)
{
	bool orphan = listed->flags & AGENT_PROCESS_ORPHAN;

	if (++request->listed > LINK_LISTED_MAX)
		return link_protocol_error(link, "a list without end");
	if (orphan != request->orphans || listed->process_id <= request->last_id ||
	    (!orphan && listed->process_id >= link->next_process_id) ||
	    (request->process_id && listed->process_id != request->process_id))
		return link_protocol_error(link, "a list of the wrong processes");
	request->last_id = listed->process_id;
	return 0;
}

int link_on_listed(struct link *link, const struct frame *frame)
{
	struct link_request *request;
	struct frame_reader reader;
	struct agent_listed listed;
	struct err missing;
	uint32_t tag, before;
	bool absent, last;
	int r;

	if (agent_get_listed(frame, &tag, &last, &reader) < 0)
		return link_protocol_error(link, "bad list frame");
	request = link_request_find(link, tag);
	if (!request || !request->each)
		return link_protocol_error(link, "an unexpected list");
	before = request->listed;
	while ((r = agent_next_listed(&reader, &listed)) > 0) {
		if (check_listed(link, request, &listed) < 0)
			return -1;
		tell_one(request, &listed);
		if (link->state == LINK_GONE) /* freed in the callback; it completes the rest */
			return 0;
	}
	/* empty frames could continue for ever */
	if (r < 0 || (!last && request->listed == before))
		return link_protocol_error(link, "bad list frame");
	if (!last)
		return 0;
	absent = request->process_id && !request->listed;
	if (absent)
		link_refusal(&missing, AGENT_REFUSED_NO_PROCESS, 0, NULL, (struct str){ "", 0 });
	answer(link, request, absent ? &missing : NULL);
	return 0;
}
