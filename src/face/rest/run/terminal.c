/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/run/terminal.h"

#include <errno.h>

#define INPUT_MAX (256 * 1024) /* bytes that the program has not taken; beyond it reading stops */
/* With ack, the client stops before this limit, so that its acks and pongs are still read. */
#define INPUT_ACK_MAX (1024 * 1024)
#define INPUT_PIECE (64 * 1024) /* bytes of one joined message */
#define WAITING_MAX (INPUT_ACK_MAX + TERMINAL_MESSAGE_BYTES)

/* ---- lifetime ---- */

struct terminal *terminal_new(struct rest_call *call, struct err *err)
{
	struct rest *rest = call->rest;
	struct terminal *t;

	if (stream_admit(rest->service, call->key, err) < 0)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t) {
		stream_end(rest->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	t->rest = rest;
	t->req = call->req->handle;
	t->sandbox = sandbox_handle(call->sandbox);
	t->counted = true;
	buf_init(&t->waiting, WAITING_MAX);
	memcpy(t->key_id, call->key->id, sizeof(t->key_id));
	t->next = rest->terminals;
	if (t->next)
		t->next->prev = t;
	rest->terminals = t;
	return t;
}

void terminal_uncount(struct terminal *t)
{
	if (t->counted)
		stream_end(t->rest->service, t->key_id);
	t->counted = false;
}

static void release_waiting(const struct terminal *t, size_t bytes)
{
	if (t->rest->service)
		stream_release_input(t->rest->service, t->key_id, (uint32_t)bytes);
}

static void unlink_terminal(struct terminal *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		t->rest->terminals = t->next;
	if (t->next)
		t->next->prev = t->prev;
	release_waiting(t, buf_len(&t->waiting));
	buf_done(&t->waiting);
	free(t);
}

void terminal_leave(struct terminal *t)
{
	terminal_uncount(t);
	if (t->follow)
		follow_close(t->rest->service, t->follow);
	t->follow = 0;
	if (t->in_flight == 0)
		unlink_terminal(t);
}

void terminals_done(struct rest *rest)
{
	while (rest->terminals)
		unlink_terminal(rest->terminals);
}

/* ---- to the client ---- */

static void note_sent(struct terminal *t, int r)
{
	if (r == -EAGAIN)
		t->blocked = true;
}

static struct json_writer control_begin(struct terminal *t, const char *type)
{
	struct json_writer w = answer_begin(t->rest);

	json_begin_object(&w, NULL);
	json_put_text(&w, "type", type);
	return w;
}

static void control_send(struct terminal *t, struct json_writer *w)
{
	json_end_object(w);
	if (json_writer_end(w) == 0 && t->ws)
		note_sent(t, websocket_send(t->ws, true, (struct str){ "", 0 },
					    buf_str(&t->rest->out)));
}

void terminal_tell_error(struct terminal *t, const struct err *err)
{
	struct json_writer w = control_begin(t, "error");

	json_put_text(&w, "code", err_name(err->code));
	json_put_text(&w, "message", err->message);
	control_send(t, &w);
}

void terminal_tell_started(struct terminal *t, uint32_t pid)
{
	struct json_writer w = control_begin(t, "started");

	json_put_int(&w, "process_id", t->process_id);
	json_put_int(&w, "pid", pid);
	json_put_int(&w, "cursor", (int64_t)t->next_cursor[0]);
	control_send(t, &w);
}

static void tell_gap(struct terminal *t, int i, uint64_t bytes)
{
	struct json_writer w = control_begin(t, "gap");

	json_put_int(&w, "bytes", (int64_t)bytes);
	json_put_text(&w, "stream", i ? "stderr" : "stdout");
	control_send(t, &w);
}

static void give_back(struct terminal *t)
{
	uint32_t bytes = t->owed;

	t->owed = 0;
	follow_credit(t->rest->service, t->follow, bytes);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct terminal *t = arg;
	int i = stream == PROCESS_ERR;
	struct json_writer w;

	if (cursor > t->next_cursor[i])
		tell_gap(t, i, cursor - t->next_cursor[i]);
	t->next_cursor[i] = cursor + bytes.n;
	if (i) {
		w = control_begin(t, "stderr");
		json_put_b64(&w, "data_b64", bytes);
		control_send(t, &w);
	} else if (t->ws) {
		note_sent(t, websocket_send(t->ws, false, (struct str){ "", 0 }, bytes));
	}
	t->owed += (uint32_t)bytes.n;
	if (!t->acks && !t->blocked && t->owed >= TERMINAL_CREDIT / 4)
		give_back(t);
}

static void on_end(void *arg, const struct process_status *status, const struct err *err)
{
	struct terminal *t = arg;
	struct json_writer w;

	t->follow = 0;
	if (status->reason) {
		w = control_begin(t, "exit");
		process_write_end(status, &w);
		if (err)
			json_put_text(&w, "message", err->message);
		control_send(t, &w);
	} else if (err) {
		terminal_tell_error(t, err);
	}
	if (t->ws)
		websocket_close(t->ws, status->reason ? WEBSOCKET_NORMAL : WEBSOCKET_INTERNAL,
				NULL);
}

const struct follow_hooks terminal_follow_hooks = { .on_output = on_output, .on_end = on_end };

static void on_drain(void *arg)
{
	struct terminal *t = arg;

	t->blocked = false;
	if (!t->acks)
		give_back(t);
}

static void on_close(void *arg, int code)
{
	struct terminal *t = arg;

	(void)code;
	t->ws = NULL;
	terminal_leave(t);
}

/* ---- from the client ---- */

static void tell_taken(struct terminal *t, uint32_t bytes)
{
	struct json_writer w = control_begin(t, "taken");

	json_put_int(&w, "bytes", bytes);
	control_send(t, &w);
}

/* A program may end, or stop reading, before the input ends. The client did nothing wrong: it
 * sends nothing more and waits for the exit. */
static void tell_refused(struct terminal *t, const struct err *err)
{
	struct json_writer w;

	if (!t->acks || err->code != ERR_WRONG_STATE) {
		terminal_tell_error(t, err);
		return;
	}
	if (t->input_closed)
		return;
	t->input_closed = true;
	w = control_begin(t, "stdin_closed");
	control_send(t, &w);
}

static void on_typed(void *arg, const struct err *err);

static int hand_over(struct terminal *t, struct sandbox *sandbox, struct str bytes, struct err *err)
{
	if (process_stdin(sandbox, t->process_id, bytes, true, on_typed, t, err) < 0)
		return -1;
	t->sizes[(t->oldest + t->in_flight++) % TERMINAL_INPUTS_MAX] = (uint32_t)bytes.n;
	return 0;
}

static void drop_waiting(struct terminal *t)
{
	t->unread -= (uint32_t)buf_len(&t->waiting);
	t->close_waits = false;
	release_waiting(t, buf_len(&t->waiting));
	buf_clear(&t->waiting);
}

/* The content of many small messages is sent on in larger pieces. After one rejection all
 * further input is rejected: the program has ended or closed its input. */
static void hand_over_waiting(struct terminal *t)
{
	struct sandbox *sandbox = sandbox_get(t->rest->service, t->sandbox);
	struct err err;
	int r = 0;

	if (!sandbox || !sandbox_ready(sandbox)) {
		drop_waiting(t);
		return;
	}
	while (r == 0 && buf_len(&t->waiting) && t->in_flight < TERMINAL_INPUTS_MAX) {
		struct str all = buf_str(&t->waiting);
		struct str piece = { all.p, MIN(all.n, (size_t)INPUT_PIECE) };

		r = hand_over(t, sandbox, piece, &err);
		if (r == 0) {
			release_waiting(t, piece.n);
			buf_consume(&t->waiting, piece.n);
		}
	}
	if (r == 0 && t->close_waits && buf_len(&t->waiting) == 0) {
		t->close_waits = false;
		r = process_close_stdin(sandbox, t->process_id, NULL, NULL, &err);
	}
	if (r == 0)
		return;
	drop_waiting(t);
	if (t->ws)
		tell_refused(t, &err);
}

/* One message of input was taken, or will never be. Messages complete in order, except for
 * failures, and the sum is right in any case. Bytes that a client sent before it disconnected
 * still go to the program. */
static void on_typed(void *arg, const struct err *err)
{
	struct terminal *t = arg;

	uint32_t n = t->sizes[t->oldest++ % TERMINAL_INPUTS_MAX];

	t->unread -= n;
	t->in_flight--;
	if (err)
		drop_waiting(t);
	else
		hand_over_waiting(t);
	if (!t->ws) {
		if (t->in_flight == 0)
			unlink_terminal(t);
		return;
	}
	if (err)
		tell_refused(t, err);
	else if (t->acks)
		tell_taken(t, n);
	if (t->paused && t->unread <= INPUT_MAX / 2) {
		t->paused = false;
		websocket_pause(t->ws, false);
	}
}

/* Only bytes count towards the pause, however small the messages are: a client that keeps to the
 * window must always get its acknowledgements through. */
static int type_bytes(struct terminal *t, struct sandbox *sandbox, struct str bytes,
		      struct err *err)
{
	uint32_t most = t->acks ? INPUT_ACK_MAX : INPUT_MAX;

	if (bytes.n == 0 || t->input_closed)
		return 0;
	if (t->in_flight == TERMINAL_INPUTS_MAX) {
		if (stream_hold_input(t->rest->service, t->key_id, (uint32_t)bytes.n, err) < 0)
			return -1;
		if (buf_append(&t->waiting, bytes.p, bytes.n) < 0) {
			release_waiting(t, bytes.n);
			return err_set(err, ERR_QUOTA_EXCEEDED,
				       "the program does not read its input, and the limit of "
				       "buffered input is reached");
		}
	} else if (hand_over(t, sandbox, bytes, err) < 0) {
		return -1;
	}
	t->unread += (uint32_t)bytes.n;
	if (t->unread >= most && !t->paused) {
		t->paused = true;
		websocket_pause(t->ws, true);
	}
	return 0;
}

static int close_input(struct terminal *t, struct sandbox *sandbox, struct err *err)
{
	if (buf_len(&t->waiting) == 0)
		return process_close_stdin(sandbox, t->process_id, NULL, NULL, err);
	t->close_waits = true;
	return 0;
}

enum { SAY_RESIZE, SAY_SIGNAL, SAY_CLOSE_STDIN, SAY_ACK };
static const char *const say_names[] = { "resize", "signal", "close_stdin", "ack", NULL };

struct say {
	int type;
	int64_t cols, rows;
	int64_t bytes;
	const struct json *signal;
};
#define AT(member) offsetof(struct say, member)
static const struct field say_fields[] = {
	{ .name = "type",
	  .type = FIELD_ENUM,
	  .names = say_names,
	  .offset = AT(type),
	  .required = true },
	{ .name = "cols", .type = FIELD_INT, .offset = AT(cols), .min = 1, .max = PROCESS_TTY_MAX },
	{ .name = "rows", .type = FIELD_INT, .offset = AT(rows), .min = 1, .max = PROCESS_TTY_MAX },
	{ .name = "signal", .type = FIELD_ANY, .offset = AT(signal) },
	{ .name = "bytes", .type = FIELD_INT, .offset = AT(bytes), .min = 1, .max = INT32_MAX },
	{ .type = FIELD_END }
};
#undef AT

/* The number of bytes, of both streams together, that the client has processed. */
static int take_ack(struct terminal *t, int64_t bytes, struct err *err)
{
	if (!t->acks || bytes < 1 || bytes > t->owed)
		return err_set(err, ERR_INVALID_REQUEST,
			       "ack: bytes must be 1 to what was sent and is not acknowledged "
			       "(%u), on a connection opened with ack=true",
			       t->acks ? t->owed : 0);
	t->owed -= (uint32_t)bytes;
	follow_credit(t->rest->service, t->follow, (uint32_t)bytes);
	return 0;
}

static int obey(struct terminal *t, struct sandbox *sandbox, const struct say *say, struct err *err)
{
	int signum;

	switch (say->type) {
	case SAY_RESIZE:
		if (!say->cols || !say->rows)
			return err_set(err, ERR_INVALID_REQUEST, "cols and rows are required");
		return process_resize(sandbox, t->process_id, say->cols, say->rows, NULL, NULL,
				      err);
	case SAY_ACK:
		return take_ack(t, say->bytes, err);
	case SAY_CLOSE_STDIN:
		return close_input(t, sandbox, err);
	default:
		signum = signal_decode(say->signal, err);
		return signum ? process_signal(sandbox, t->process_id, signum, NULL, NULL, err)
			      : -1;
	}
}

static int on_control(struct terminal *t, struct sandbox *sandbox, struct str text, struct err *err)
{
	struct json *doc = json_parse(text, err);
	struct say say = { .type = 0 };
	int r = -1;

	if (!doc)
		return -1;
	if (json_type(doc) != JSON_OBJECT)
		(void)err_set(err, ERR_INVALID_REQUEST, "a text message must be a JSON object");
	else if (field_decode(say_fields, doc, "", NULL, &say, err) == 0)
		r = obey(t, sandbox, &say, err);
	json_free(doc);
	return r;
}

static void on_message(void *arg, bool is_text, struct str bytes)
{
	struct terminal *t = arg;
	struct sandbox *sandbox = sandbox_get(t->rest->service, t->sandbox);
	struct err err;
	int r;

	/*
	 * While the link is being reestablished, input cannot be delivered; the follow waits for
	 * it.
	 */
	if (!sandbox || !sandbox_ready(sandbox)) {
		(void)err_set(&err, ERR_UNAVAILABLE,
			      "the connection to the sandbox is being restored");
		r = -1;
	} else {
		r = is_text ? on_control(t, sandbox, bytes, &err)
			    : type_bytes(t, sandbox, bytes, &err);
	}
	if (r < 0)
		tell_refused(t, &err);
}

const struct websocket_hooks terminal_socket_hooks = { .on_message = on_message,
						       .on_drain = on_drain,
						       .on_close = on_close };
