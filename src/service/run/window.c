/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: list, find by name, read, write input, close. */
#include "service/run/window.h"

#include "service/run/output_buffer.h"
#include "service/run/process_internal.h"
#include "service/run/process_spec_private.h"
#include "service/run/window_private.h"

#define WINDOW_STOP_GRACE_MS 300 /* short, because an interactive shell ignores TERM */

static void window_from_link(struct window_info *to, const struct link_process_info *from)
{
	struct link_status run = { .end = from->run_end, .exit_code = from->run_exit_code };

	*to = (struct window_info){ .name = from->name,
				    .process_id = from->process_id,
				    .busy = from->busy,
				    .run = from->run,
				    .begin = from->out_begin,
				    .cursor = from->status.out_total,
				    .run_cursor = from->run_cursor,
				    .idle_ms = from->idle_ms,
				    .started_ms = from->start_ms };
	status_from_link(&to->run_status, &run);
}

/* A window ends with its shell. */
static bool is_window(const struct link_process_info *info)
{
	return info->window && info->status.end == LINK_END_NONE;
}

/* ---- list ---- */

struct window_listing {
	struct op op;
	window_each_fn each;
	void *arg;
};

static void on_each(void *arg, const struct link_process_info *from, const struct err *error)
{
	struct window_listing *listing = arg;
	window_each_fn each = listing->each;
	void *each_arg = listing->arg;
	struct window_info info;

	if (from && listing->op.service && is_window(from)) {
		window_from_link(&info, from);
		each(each_arg, &info, NULL);
	}
	if (!from && op_end(&listing->op))
		each(each_arg, NULL, error);
}

int window_list(struct sandbox *sandbox, window_each_fn each, void *arg, struct err *err)
{
	struct window_listing *listing =
		OP_NEW(struct window_listing, sandbox->service, sandbox->handle, err);

	if (!listing)
		return -1;
	listing->each = each;
	listing->arg = arg;
	if (link_list(sandbox->link, 0, on_each, listing, err) == 0)
		return 0;
	(void)op_end(&listing->op);
	return -1;
}

/* ---- find ---- */

static void on_look(void *arg, const struct link_process_info *from, const struct err *error)
{
	struct window_look *look = arg;
	struct sandbox *sandbox;
	struct service *service;
	struct err err;

	if (from) {
		look->windows += is_window(from);
		if (!is_window(from) || strcmp(from->name, look->name) != 0)
			return;
		window_from_link(&look->info, from);
		look->info.name = look->name;
		look->found = true;
		return;
	}
	sandbox = op_sandbox(&look->op);
	service = op_unlink(&look->op);
	if (service && !error && (!sandbox || !sandbox_ready(sandbox))) {
		(void)sandbox_gone(sandbox, &err);
		error = &err;
	}
	look->looked(look, sandbox, service ? error : NULL);
}

int window_look_start(struct window_look *look, struct sandbox *sandbox, struct str name,
		      struct err *err)
{
	if (spec_check_name("name", name, err) < 0)
		return -1;
	(void)!str_copy(look->name, sizeof(look->name), name);
	if (link_list(sandbox->link, 0, on_look, look, err) < 0)
		return -1;
	op_begin(&look->op, &sandbox->service->upkeep.ops, sandbox->service, sandbox->handle);
	return 0;
}

static int not_found(const struct window_look *look, struct err *err)
{
	return err_set(err, ERR_WINDOW_NOT_FOUND, "no window '%s'", look->name);
}

/* ---- read ---- */

/* Owner: the lookup, then the follow. */
struct reading {
	struct window_look look;
	struct service *service;
	struct output_buffer output;
	slot_handle follow;
	struct window_read ask;
	window_read_fn done;
	void *arg;
};

static void reading_end(struct reading *r, const struct err *err)
{
	struct window_result result = { .name = r->look.name,
					.process_id = r->look.info.process_id,
					.run = r->look.info.run,
					.status = r->look.info.run_status,
					.output = buf_str(&r->output.bytes),
					.cursor = r->output.next,
					.gap_bytes = r->output.gap_bytes,
					.truncated = r->output.cut };

	r->done(r->arg, err ? NULL : &r->look.info, err ? NULL : &result, err);
	output_buffer_done(&r->output);
	free(r);
}

static void on_read_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct reading *r = arg;

	(void)stream;
	output_buffer_add(&r->output, cursor, bytes);
	if (!r->output.cut) {
		follow_credit(r->service, r->follow, (uint32_t)bytes.n);
		return;
	}
	follow_close(r->service, r->follow);
	reading_end(r, NULL);
}

static void on_read_end(void *arg, const struct process_status *status, const struct err *err)
{
	(void)status;
	reading_end(arg, err);
}

static void on_read_drop(void *arg)
{
	struct reading *r = arg;

	output_buffer_done(&r->output);
	free(r);
}

static const struct follow_hooks reading_hooks = { .on_output = on_read_output,
						   .on_end = on_read_end,
						   .on_drop = on_read_drop };

static int start_reading(struct reading *r, struct sandbox *sandbox, struct err *err)
{
	struct follow_spec spec = { .credit = FOLLOW_CREDIT, .streams = PROCESS_OUT };

	if (!r->look.found)
		return not_found(&r->look, err);
	spec.out_cursor = r->ask.from_run ? r->look.info.run_cursor : r->ask.cursor;
	if (spec.out_cursor > r->look.info.cursor)
		return err_set(err, ERR_INVALID_REQUEST,
			       "cursor must be at most %llu, the number of bytes that the window "
			       "has written",
			       (unsigned long long)r->look.info.cursor);
	output_buffer_init(&r->output, (size_t)r->ask.max_bytes, spec.out_cursor);
	return follow_open(sandbox, r->look.info.process_id, &spec, &reading_hooks, r, &r->follow,
			   err);
}

static void on_read_looked(struct window_look *look, struct sandbox *sandbox,
			   const struct err *error)
{
	struct reading *r = CONTAINER_OF(look, struct reading, look);
	struct err err;

	if (!sandbox && !error) {
		free(r); /* the service was closed */
		return;
	}
	if (!error && start_reading(r, sandbox, &err) < 0)
		error = &err;
	if (error)
		reading_end(r, error);
}

int window_read(struct sandbox *sandbox, const struct window_read *read, window_read_fn done,
		void *arg, struct err *err)
{
	struct reading *r = calloc(1, sizeof(*r));

	if (!r)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	r->service = sandbox->service;
	r->ask = *read;
	r->done = done;
	r->arg = arg;
	r->look.looked = on_read_looked;
	if (window_look_start(&r->look, sandbox, read->name, err) < 0) {
		free(r);
		return -1;
	}
	return 0;
}

/* ---- input, close ---- */

/* Owner: the lookup. Afterwards the link calls done directly. */
struct acting {
	struct window_look look;
	process_done_fn done;
	void *arg;
	bool close;
	size_t n;
	char bytes[];
};

struct stopping {
	struct op op;
	process_done_fn done;
	void *arg;
};

static void on_stopped(void *arg, const struct err *error)
{
	struct stopping *stopping = arg;
	process_done_fn done = stopping->done;
	void *done_arg = stopping->arg;

	if (op_end(&stopping->op))
		done(done_arg, error);
}

static int stop(struct acting *a, struct sandbox *sandbox, struct err *err)
{
	struct stopping *stopping = OP_NEW(struct stopping, sandbox->service, sandbox->handle, err);

	if (!stopping)
		return -1;
	stopping->done = a->done;
	stopping->arg = a->arg;
	if (link_stop(sandbox->link, a->look.info.process_id, WINDOW_STOP_GRACE_MS, on_stopped,
		      stopping, err) == 0)
		return 0;
	(void)op_end(&stopping->op);
	return -1;
}

static int act(struct acting *a, struct sandbox *sandbox, struct err *err)
{
	if (!a->look.found)
		return not_found(&a->look, err);
	if (a->close)
		return stop(a, sandbox, err);
	if (!a->look.info.busy)
		return err_set(err, ERR_WRONG_STATE, "no command runs in window '%s'; use run",
			       a->look.name);
	return process_stdin(sandbox, a->look.info.process_id, (struct str){ a->bytes, a->n },
			     false, a->done, a->arg, err);
}

static void on_act_looked(struct window_look *look, struct sandbox *sandbox,
			  const struct err *error)
{
	struct acting *a = CONTAINER_OF(look, struct acting, look);
	struct err err;

	if (!error && sandbox && act(a, sandbox, &err) < 0)
		error = &err;
	if (error)
		a->done(a->arg, error);
	free(a);
}

static int start_acting(struct sandbox *sandbox, struct str name, struct str bytes, bool close,
			process_done_fn done, void *arg, struct err *err)
{
	struct acting *a = calloc(1, sizeof(*a) + bytes.n);

	if (!a)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	a->look.looked = on_act_looked;
	a->done = done;
	a->arg = arg;
	a->close = close;
	a->n = bytes.n;
	if (bytes.n)
		memcpy(a->bytes, bytes.p, bytes.n);
	if (window_look_start(&a->look, sandbox, name, err) < 0) {
		free(a);
		return -1;
	}
	return 0;
}

int window_input(struct sandbox *sandbox, struct str name, struct str bytes, process_done_fn done,
		 void *arg, struct err *err)
{
	sandbox_touch(sandbox);
	return start_acting(sandbox, name, bytes, false, done, arg, err);
}

int window_close(struct sandbox *sandbox, struct str name, process_done_fn done, void *arg,
		 struct err *err)
{
	return start_acting(sandbox, name, (struct str){ NULL, 0 }, true, done, arg, err);
}
