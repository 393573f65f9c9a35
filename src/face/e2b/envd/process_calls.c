/* SPDX-License-Identifier: Apache-2.0 */
/* Procedures on existing processes. A process is named by its pid inside the sandbox, or by the
 * tag with which it was started. */
#include <signal.h>
#include <stdio.h>

#include "face/e2b/envd/process.h"

/* ---- finding the process ---- */

struct selection {
	struct e2b_call *call;
	process_then_fn then;
	process_refuse_fn refuse;
	uint32_t pid;
	char tag[PROCESS_NAME_MAX + 1];
	bool ended, found;
	struct process_info info; /* its strings have been freed */
};

static bool is_better(const struct selection *s, const struct process_info *info)
{
	if (s->tag[0] ? strcmp(s->tag, info->name) != 0 : s->pid != info->pid)
		return false;
	if (info->status.reason && !s->ended)
		return false;
	/* Pids are reused: prefer the running process, else the newest. */
	return !s->found || s->info.status.reason;
}

static int not_found(const struct selection *s, struct err *err)
{
	if (s->tag[0])
		return err_set(err, ERR_PROCESS_NOT_FOUND, "process with tag %s not found", s->tag);
	return err_set(err, ERR_PROCESS_NOT_FOUND, "process with pid %u not found", s->pid);
}

static void on_each(void *arg, const struct process_info *info, const struct err *error)
{
	struct e2b_pending *pending = arg;
	struct selection *s = pending->data, copy;
	struct sandbox *sandbox;
	struct err err;

	if (info) {
		if (is_better(s, info)) {
			s->found = true;
			s->info = *info;
			s->info.name = s->info.user = s->info.command = "";
		}
		return;
	}
	copy = *s;
	free(s);
	sandbox = sandbox_get(pending->e2b->service, pending->sandbox);
	if (!e2b_pending_end(pending))
		return;
	if (!error && (!sandbox || !sandbox_ready(sandbox))) {
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended");
		error = &err;
	}
	copy.call->sandbox = sandbox;
	if (!error && !(copy.call->key = access_owner(sandbox))) {
		(void)err_set(&err, ERR_UNAUTHENTICATED, "the key of the sandbox was deleted");
		error = &err;
	}
	if (!error && !copy.found && not_found(&copy, &err) < 0)
		error = &err;
	if (error)
		copy.refuse(copy.call, error);
	else
		copy.then(copy.call, &copy.info);
}

void process_select_in(struct e2b_call *call, const struct process_selector *selector, bool ended,
		       process_then_fn then, process_refuse_fn refused)
{
	struct selection *s = calloc(1, sizeof(*s));
	struct e2b_pending *pending;
	struct err err;

	if (!s || (!selector->pid && str_copy(s->tag, sizeof(s->tag), selector->tag) < 0)) {
		free(s);
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		refused(call, &err);
		return;
	}
	s->pid = (uint32_t)selector->pid;
	s->call = call;
	s->then = then;
	s->refuse = refused;
	s->ended = ended;
	pending = e2b_pending_new(call);
	if (!pending) {
		free(s);
		return;
	}
	pending->data = s;
	if (process_list(call->sandbox, on_each, pending, &err) < 0) {
		free(s);
		(void)e2b_pending_end(pending);
		refused(call, &err);
	}
}

void process_select(struct e2b_call *call, bool ended, process_then_fn then)
{
	struct process_selector selector;
	struct err err;

	if (process_selector_read(call->doc, &selector, &err) < 0)
		e2b_answer_error(call, &err);
	else
		process_select_in(call, &selector, ended, then, e2b_answer_error);
}

/* ---- list ---- */

/* The service joins the arguments with spaces. For a shell, everything after its options is one
 * argument. */
static void put_command(struct json_writer *w, const char *command)
{
	struct str rest = str_of(command), word = { "", 0 }, tail;
	bool shell = false;

	for (size_t i = 0; rest.n; i++) {
		if ((shell && i > 1) || !str_cut(rest, ' ', &word, &tail)) {
			word = rest;
			tail = (struct str){ "", 0 };
		}
		if (i == 0) {
			json_put_str(w, "cmd", word);
			json_begin_array(w, "args");
		} else {
			json_put_str(w, NULL, word);
			shell = str_is(word, "-c");
			if (shell)
				i = 1;
		}
		rest = tail;
	}
	json_end_array(w);
}

static void on_listed(void *arg, const struct process_info *info, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct json_writer *w = &pending->w, own;
	struct buf text;

	if (info && !info->status.reason) {
		json_begin_object(w, NULL);
		json_begin_object(w, "config");
		put_command(w, info->command[0] ? info->command : "?");
		json_begin_object(w, "envs");
		json_end_object(w);
		json_end_object(w);
		json_put_int(w, "pid", info->pid);
		if (info->name[0])
			json_put_text(w, "tag", info->name);
		json_end_object(w);
	}
	if (info)
		return;
	text = pending->list;
	own = pending->w;
	own.out = &text;
	buf_init(&pending->list, 1);
	if (e2b_pending_end(pending)) {
		json_end_array(&own);
		json_end_object(&own);
		if (err)
			e2b_answer_error(call, err);
		else
			e2b_answer_send(call, 200, &own);
	}
	buf_done(&text);
}

void process_list_call(struct e2b_call *call)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	json_begin_object(&pending->w, NULL);
	json_begin_array(&pending->w, "processes");
	e2b_pending_begun(pending, process_list(call->sandbox, on_listed, pending, &err), &err);
}

/* ---- actions ---- */

static void on_done(void *arg, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	bool signalled = pending->count;
	struct err gone;

	if (!e2b_pending_end(pending))
		return;
	if (err && signalled && err->code == ERR_WRONG_STATE) { /* it ended meanwhile */
		(void)err_set(&gone, ERR_PROCESS_NOT_FOUND, "%s", err->message);
		err = &gone;
	}
	if (err)
		e2b_answer_error(call, err);
	else
		e2b_answer_text(call, 200, STR_LIT("{}"));
}

/* The parameters of a call besides its process; in the request's arena. */
struct action {
	struct str bytes;
	int signum;
	struct process_size size;
};

static void then_input(struct e2b_call *call, const struct process_info *info)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  process_stdin(call->sandbox, info->process_id,
						((struct action *)call->data)->bytes, false,
						on_done, pending, &err),
				  &err);
}

static void then_close(struct e2b_call *call, const struct process_info *info)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  process_close_stdin(call->sandbox, info->process_id, on_done,
						      pending, &err),
				  &err);
}

static void then_signal(struct e2b_call *call, const struct process_info *info)
{
	const struct action *action = call->data;
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	pending->count = 1;
	e2b_pending_begun(pending,
			  process_signal(call->sandbox, info->process_id, action->signum, on_done,
					 pending, &err),
			  &err);
}

static void then_resize(struct e2b_call *call, const struct process_info *info)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	const struct action *action = call->data;
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  process_resize(call->sandbox, info->process_id, action->size.cols,
						 action->size.rows, on_done, pending, &err),
				  &err);
}

/* NULL: an error was sent. */
static struct action *begin(struct e2b_call *call)
{
	struct action *action = arena_alloc(call->req->arena, sizeof(*action));
	struct err err;

	if (!action) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		e2b_answer_error(call, &err);
		return NULL;
	}
	call->data = action;
	return action;
}

void process_input_call(struct e2b_call *call)
{
	struct action *action = begin(call);
	struct err err;

	if (!action)
		return;
	if (process_input_read(call->doc, call->req->arena, &action->bytes, &err) < 0)
		e2b_answer_error(call, &err);
	else
		process_select(call, false, then_input);
}

void process_close_call(struct e2b_call *call)
{
	process_select(call, false, then_close);
}

void process_signal_call(struct e2b_call *call)
{
	struct action *action = begin(call);
	struct err err;

	if (!action)
		return;
	if (process_signal_read(call->doc, &action->signum, &err) < 0)
		e2b_answer_error(call, &err);
	else
		process_select(call, false, then_signal);
}

void process_update_call(struct e2b_call *call)
{
	struct action *action = begin(call);
	struct err err;

	if (!action)
		return;
	if (process_size_read(call->doc, &action->size, &err) < 0)
		e2b_answer_error(call, &err);
	else
		process_select(call, false, then_resize);
}
