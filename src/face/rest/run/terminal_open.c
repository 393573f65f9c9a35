/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a terminal. Everything that can be rejected is rejected before the WebSocket is opened. */
#include <errno.h>

#include "base/log.h"
#include "face/rest/run/terminal.h"

#define REPLAY_BYTES (64 * 1024) /* bytes of a terminal, for clients without a cursor */

const struct field attach_query[] = {
	{ .name = "cursor", .type = FIELD_STR, .doc = "N, or N:M for stdout and stderr" },
	{ .name = "tail", .type = FIELD_INT, .doc = "the last N bytes; for a terminal 65536" },
	{ .name = "hold",
	  .type = FIELD_BOOL,
	  .doc = "the process blocks rather than overwrite what was not read" },
	{ .name = "ack",
	  .type = FIELD_BOOL,
	  .doc = "the client acknowledges output with ack messages, and the server reports "
		 "how much input the program took" },
	{ .type = FIELD_END }
};
const struct field pty_query[] = {
	{ .name = "cols",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = PROCESS_TTY_MAX,
	  .fallback = PROCESS_COLS },
	{ .name = "rows",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = PROCESS_TTY_MAX,
	  .fallback = PROCESS_ROWS },
	{ .name = "cwd", .type = FIELD_STR },
	{ .name = "shell", .type = FIELD_STR, .doc = "default: the template's" },
	{ .name = "user", .type = FIELD_STR },
	{ .name = "ack", .type = FIELD_BOOL, .doc = "as for attach" },
	{ .type = FIELD_END }
};

static bool check_upgrade(struct rest_call *call)
{
	const char *why = "";
	struct err err;
	int r = websocket_check(call->req, &why);

	if (r == 0)
		return true;
	(void)err_set(&err, r == -EPROTONOSUPPORT ? ERR_UPGRADE_REQUIRED : ERR_INVALID_REQUEST,
		      "%s", why);
	answer_upgrade_error(call->rest, call->req, &err);
	return false;
}

/* 0: the request was replaced by the WebSocket. */
static int accept_socket(struct terminal *t, struct http_req *req, struct err *err)
{
	struct websocket_limits limits = websocket_limits_default;
	int r;

	limits.message_bytes = TERMINAL_MESSAGE_BYTES;
	limits.write_ms = STREAM_PATIENCE_MS;
	http_req_on_gone(req, NULL, NULL);
	r = websocket_accept(req, &limits, &terminal_socket_hooks, t, &t->ws);
	t->req = 0;
	if (r == 0) {
		t->rest->counters.requests++;
		t->rest->counters.by_class[1]++;
		return 0;
	}
	t->ws = NULL;
	return err_set_errno(err, ERR_UNAVAILABLE, r, "the WebSocket cannot be opened");
}

/* ---- attach ---- */

struct attach_ask {
	uint64_t cursor[2];
	bool has_cursor;
	bool hold, ack;
	int64_t tail; /* -1: none */
};

static int read_attach(struct rest_call *call, struct attach_ask *ask, struct err *err)
{
	struct str text = { NULL, 0 };

	*ask = (struct attach_ask){ .tail = -1 };
	if (query_text(call->req, "cursor", &text, err) < 0 ||
	    (text.p && cursor_parse(text, "cursor", ask->cursor, err) < 0))
		return -1;
	ask->has_cursor = text.p != NULL;
	if (query_bool(call->req, "hold", &ask->hold, err) < 0 ||
	    query_bool(call->req, "ack", &ask->ack, err) < 0 ||
	    query_int(call->req, "tail", 0, INT64_MAX, &ask->tail, err) < 0)
		return -1;
	return ask->has_cursor && ask->tail >= 0
		       ? err_set(err, ERR_INVALID_REQUEST, "cursor or tail, not both")
		       : 0;
}

static int settle(struct attach_ask *ask, const struct process_info *info, struct err *err)
{
	const uint64_t total[2] = { info->status.out_total, info->status.err_total };
	const uint64_t begin[2] = { info->out_begin, info->err_begin };

	if (!ask->has_cursor && ask->tail < 0 && info->tty)
		ask->tail = REPLAY_BYTES;
	for (int i = 0; i < 2; i++) {
		if (!ask->has_cursor && ask->tail >= 0)
			ask->cursor[i] =
				MAX(total[i] - MIN(total[i], (uint64_t)ask->tail), begin[i]);
		if (ask->cursor[i] > total[i])
			return err_set(err, ERR_INVALID_REQUEST,
				       "cursor is in the future: %s has %llu bytes so far",
				       i ? "stderr" : "stdout", (unsigned long long)total[i]);
	}
	return 0;
}

/* A full-screen program redraws when the size changes, so the size is changed for a moment. */
static void redraw(const struct terminal *t, struct sandbox *sandbox,
		   const struct process_info *info)
{
	int64_t other = info->rows > 1 ? info->rows - 1 : 2;
	struct err err;

	if (process_resize(sandbox, t->process_id, info->cols, other, NULL, NULL, &err) < 0 ||
	    process_resize(sandbox, t->process_id, info->cols, info->rows, NULL, NULL, &err) < 0)
		log_debug("process %u is not asked to draw again: %s", t->process_id, err.message);
}

static void start_following(struct terminal *t, struct sandbox *sandbox,
			    const struct attach_ask *ask, const struct process_info *info)
{
	struct follow_spec spec = { .out_cursor = ask->cursor[0],
				    .err_cursor = ask->cursor[1],
				    .credit = ask->ack ? TERMINAL_ACK_CREDIT : TERMINAL_CREDIT,
				    .streams = PROCESS_OUT | PROCESS_ERR,
				    .live = true,
				    .hold = ask->hold,
				    .waited = ask->hold && !info->tty };
	struct err err;

	t->process_id = info->process_id;
	t->acks = ask->ack;
	memcpy(t->next_cursor, ask->cursor, sizeof(t->next_cursor));
	terminal_tell_started(t, info->pid);
	if (follow_open(sandbox, info->process_id, &spec, &terminal_follow_hooks, t, &t->follow,
			&err) < 0) {
		terminal_tell_error(t, &err);
		websocket_close(t->ws, WEBSOCKET_INTERNAL, NULL);
	} else if (info->tty && !info->status.reason && !ask->has_cursor) {
		redraw(t, sandbox, info);
	}
}

static void on_found(void *arg, const struct process_info *info, const struct err *error)
{
	struct rest_pending *pending = arg;
	struct rest_call *call = pending->call;
	struct rest *rest = pending->rest;
	struct attach_ask ask;
	struct terminal *t = NULL;
	struct sandbox *sandbox;
	struct http_req *req;
	struct err err;

	req = pending_end(pending);
	if (!req)
		return;
	if (!error && (steps_again(call, &err) < 0 || read_attach(call, &ask, &err) < 0 ||
		       settle(&ask, info, &err) < 0 || !(t = terminal_new(call, &err))))
		error = &err;
	sandbox = call->sandbox;
	if (!error && accept_socket(t, req, &err) < 0) {
		error = &err;
		terminal_leave(t);
	}
	if (error)
		answer_error(rest, req, error);
	else
		start_following(t, sandbox, &ask, info);
}

void terminal_attach(struct rest_call *call)
{
	struct attach_ask ask;
	struct rest_pending *pending;
	struct err err;

	if (!check_upgrade(call))
		return;
	if (read_attach(call, &ask, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (pending)
		answer_later(pending,
			     process_find(call->sandbox, call->args[1], on_found, pending, &err),
			     &err);
}

/* ---- a new shell ---- */

static void on_start_gone(void *arg)
{
	struct terminal *t = arg;

	t->req = 0;
	terminal_uncount(t);
}

/* No client has received the shell, so it is ended. */
static void abandon(struct terminal *t, uint32_t process_id)
{
	struct sandbox *sandbox = sandbox_get(t->rest->service, t->sandbox);
	struct err err;

	if (process_id && sandbox && sandbox_ready(sandbox) &&
	    process_stop(sandbox, process_id, NULL, NULL, &err) < 0)
		log_debug("process %u is not stopped: %s", process_id, err.message);
	terminal_leave(t);
}

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *error)
{
	struct terminal *t = arg;
	struct rest *rest = t->rest;
	struct http_req *req = t->req && rest->server ? http_req_get(rest->server, t->req) : NULL;
	struct err err;

	t->follow = follow;
	if (!req) {
		abandon(t, process_id);
		return;
	}
	http_req_on_gone(req, NULL, NULL);
	t->process_id = process_id;
	if (!error && accept_socket(t, req, &err) < 0)
		error = &err;
	if (error) {
		abandon(t, process_id);
		answer_error(rest, req, error);
		return;
	}
	terminal_tell_started(t, pid);
}

static int read_pty(struct rest_call *call, struct exec_spec *spec, bool *ret_ack, struct err *err)
{
	struct http_req *req = call->req;

	*spec = (struct exec_spec){ .tty = true,
				    .shell_only = true,
				    .hold = true,
				    .cols = PROCESS_COLS,
				    .rows = PROCESS_ROWS };
	if (query_int(req, "cols", 1, PROCESS_TTY_MAX, &spec->cols, err) < 0 ||
	    query_int(req, "rows", 1, PROCESS_TTY_MAX, &spec->rows, err) < 0 ||
	    query_text(req, "cwd", &spec->cwd, err) < 0 ||
	    query_text(req, "shell", &spec->shell, err) < 0 ||
	    query_text(req, "user", &spec->user, err) < 0 ||
	    query_bool(req, "ack", ret_ack, err) < 0)
		return -1;
	if (spec->cwd.n > 4096 || spec->shell.n > 4096 || spec->user.n > 64)
		return err_set(err, ERR_INVALID_REQUEST,
			       "cwd and shell must be at most 4096 bytes, user at most 64");
	return 0;
}

void terminal_pty(struct rest_call *call)
{
	struct exec_spec spec;
	struct process_reader reader;
	struct terminal *t;
	bool ack = false;
	struct err err;

	if (!check_upgrade(call))
		return;
	if (read_pty(call, &spec, &ack, &err) < 0 || !(t = terminal_new(call, &err))) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	t->acks = ack;
	reader = (struct process_reader){ &terminal_follow_hooks, t,
					  ack ? TERMINAL_ACK_CREDIT : TERMINAL_CREDIT };
	if (process_start(call->sandbox, &spec, on_started, t, &reader, &err) < 0) {
		terminal_leave(t);
		answer_error(call->rest, call->req, &err);
		return;
	}
	http_req_on_gone(call->req, on_start_gone, t);
}
