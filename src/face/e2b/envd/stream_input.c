/* SPDX-License-Identifier: Apache-2.0 */
/* StreamInput: the body is a stream of envelopes. The first names the process, the others
 * contain its input. */
#include <errno.h>

#include "face/e2b/envd/process.h"

/* In the request's arena; the buffer is freed when the request ends. */
struct input {
	struct buf in; /* E2B_RPC_LIMIT: reading stops while it contains a message that cannot be
			  processed yet */
	uint32_t process_id;
	bool begun;
	bool busy;  /* the process is being looked up, or is taking its bytes */
	bool ended; /* the body is complete */
	bool over;  /* a reply was sent */
};

static void step(struct e2b_call *call);

static void finish(struct e2b_call *call)
{
	struct input *input = call->data;

	input->over = true;
	buf_done(&input->in);
	http_req_on_gone(call->req, NULL, NULL);
}

static void refuse(struct e2b_call *call, const struct err *err)
{
	finish(call);
	e2b_answer_error(call, err);
}

static void on_gone(void *arg)
{
	struct e2b_call *call = arg;

	finish(call);
}

static void answer(struct e2b_call *call)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/connect+json") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
	};
	struct buf *out = &call->e2b->out;
	int r;

	finish(call);
	buf_clear(out);
	r = envelope_begin(out);
	if (r == 0)
		r = buf_puts(out, "{}");
	if (r == 0) {
		envelope_close(out, 0);
		r = envelope_end(out, NULL, NULL);
	}
	if (r < 0)
		http_reply_abort(call->req);
	else
		http_reply(call->req, 200, headers, ARRAY_LEN(headers), buf_str(out));
}

static void on_found(struct e2b_call *call, const struct process_info *info)
{
	struct input *input = call->data;

	input->process_id = info->process_id;
	input->busy = false;
	step(call);
}

static void on_taken(void *arg, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct input *input;

	if (!e2b_pending_end(pending))
		return;
	input = call->data;
	input->busy = false;
	if (err)
		refuse(call, err);
	else
		step(call);
}

static int take_data(struct e2b_call *call, struct str bytes, struct err *err)
{
	struct input *input = call->data;
	struct sandbox *sandbox = sandbox_get(call->e2b->service, call->sandbox_handle);
	struct e2b_pending *pending;
	int r;

	if (!sandbox || !sandbox_ready(sandbox))
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox ended");
	pending = e2b_pending_new(call);
	if (!pending) { /* a reply was sent */
		finish(call);
		return 0;
	}
	input->busy = true;
	r = process_stdin(sandbox, input->process_id, bytes, true, on_taken, pending, err);
	if (r < 0)
		(void)e2b_pending_end(pending);
	return r;
}

static int take_message(struct e2b_call *call, const struct process_stream_message *message,
			struct err *err)
{
	struct input *input = call->data;

	if (message->start == input->begun)
		return err_set(err, ERR_INVALID_REQUEST,
			       "the first message must be start, and no other");
	if (!message->start)
		return message->data ? take_data(call, message->bytes, err) : 0;
	input->begun = input->busy = true;
	process_select_in(call, &message->selector, false, on_found, refuse);
	return 0;
}

static int take(struct e2b_call *call, struct str text, struct err *err)
{
	_cleanup_json_ struct json *doc = json_parse(text, err);
	struct process_stream_message message;
	struct arena arena;
	int r;

	if (!doc)
		return -1;
	arena_init(&arena, E2B_RPC_LIMIT); /* the request's would grow with every message */
	r = process_stream_read(doc, &arena, &message, err);
	if (r == 0)
		r = take_message(call, &message, err);
	arena_done(&arena);
	return r;
}

static void step(struct e2b_call *call)
{
	struct input *input = call->data;
	struct str message;
	struct err err;
	size_t used;
	bool end;

	while (!input->over && !input->busy) {
		int r = envelope_next(buf_str(&input->in), E2B_RPC_LIMIT, &message, &used, &end);

		if (r == 0 && input->ended && buf_len(&input->in) == 0) {
			answer(call);
			return;
		}
		if (r == 0 && !input->ended)
			break;
		if (r <= 0)
			(void)err_set(&err, ERR_INVALID_REQUEST,
				      "the body is not a stream of envelopes");
		if (r <= 0 || (!end && take(call, message, &err) < 0)) {
			refuse(call, &err);
			return;
		}
		if (!input->over)
			buf_consume(&input->in, used);
	}
	if (!input->over)
		http_req_pause_body(call->req, input->busy);
}

static void on_data(void *arg, struct http_req *req, int status, const char *p, size_t n)
{
	struct e2b_call *call = arg;
	struct input *input = call->data;
	struct err err;

	(void)req;
	if (input->over)
		return;
	if (status < 0 || buf_append(&input->in, p, n) < 0) {
		(void)err_set(&err, ERR_INVALID_REQUEST, "the body is malformed or too large");
		refuse(call, &err);
		return;
	}
	input->ended = n == 0;
	if (!input->busy)
		step(call);
}

void process_stream_input_call(struct e2b_call *call)
{
	struct input *input = arena_alloc(call->req->arena, sizeof(*input));
	struct err err;

	if (input) {
		call->data = input;
		buf_init(&input->in, 2 * E2B_RPC_LIMIT);
		http_req_on_gone(call->req, on_gone, call);
		if (http_req_stream_body(call->req, on_data, call) == 0)
			return;
		finish(call);
	}
	(void)err_set(&err, ERR_UNAVAILABLE, "the body cannot be read");
	e2b_answer_error(call, &err);
}
