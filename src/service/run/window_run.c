/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one command in a window: finds or creates the window, starts the command and waits for its
 * end as long as requested. */
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/range_internal.h"
#include "service/run/output_buffer.h"
#include "service/run/process_internal.h"
#include "service/run/process_spec_private.h"
#include "service/template/template.h"
#include "service/run/window_private.h"
#include "service/run/run_private.h"

/*
 * Owner: the service's table. Freed by the lookup or the start if no caller waits any more; once
 * the command runs, by its end, the timer or window_leave().
 */
struct window_call {
	struct window_look look;
	struct service *service; /* NULL: the service was closed */
	slot_handle sandbox;
	slot_handle handle;
	struct spec_build build;
	char *command;
	size_t command_len;
	int64_t wait_ms;
	struct output_buffer output;
	struct follow *follow; /* until the run has started */
	slot_handle following;
	struct loop_timer *timer;
	struct link_window window;
	int64_t started_us;
	bool making;	    /* counted in sandbox->windows_making */
	window_ran_fn done; /* NULL: no caller waits any more */
	void *arg;
};

static struct sandbox *sandbox_of(const struct window_call *w)
{
	return w->service ? sandbox_get(w->service, w->sandbox) : NULL;
}

static void made(struct window_call *w)
{
	struct sandbox *sandbox = sandbox_of(w);

	if (w->making && sandbox)
		sandbox->windows_making--;
	w->making = false;
}

static void window_call_free(struct window_call *w)
{
	made(w);
	if (w->service) {
		(void)slot_take(&w->service->runs->window_calls, w->handle);
		if (w->following)
			follow_close(w->service, w->following);
	}
	loop_timer_free(w->timer);
	spec_done(&w->build);
	output_buffer_done(&w->output);
	free(w->command);
	free(w);
}

static void answer(struct window_call *w, const struct process_status *status,
		   const struct err *err)
{
	struct window_result result = { .name = w->look.name,
					.process_id = w->window.process_id,
					.run = w->window.run,
					.output = buf_str(&w->output.bytes),
					.cursor = w->output.next,
					.gap_bytes = w->output.gap_bytes,
					.truncated = w->output.cut,
					.made = w->window.made,
					.cancelled = w->window.cancelled,
					.duration_us = time_mono_us() - w->started_us };

	if (status)
		result.status = *status;
	if (w->done && w->service)
		w->done(w->arg, err ? NULL : &result, err);
	window_call_free(w);
}

/* ---- while it runs ---- */

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct window_call *w = arg;

	(void)stream;
	output_buffer_add(&w->output, cursor, bytes);
	/* Credit is returned also for bytes that are not kept, because the end follows them. */
	follow_credit(w->service, w->following, (uint32_t)bytes.n);
}

/* Publishes the start (status NULL) or the end of the command. */
static void tell(const struct window_call *w, const struct process_status *status)
{
	const struct sandbox *sandbox = sandbox_of(w);
	struct event_process process = { .process_id = w->window.process_id,
					 .run = w->window.run,
					 .kind = "window",
					 .name = w->look.name };

	if (sandbox && status)
		event_process_ended(sandbox, &process, status);
	else if (sandbox)
		event_process_started(sandbox, &process);
}

static void on_end(void *arg, const struct process_status *status, const struct err *err)
{
	struct window_call *w = arg;

	w->following = 0;
	if (status->reason && !err)
		tell(w, status);
	answer(w, status, err);
}

static const struct follow_hooks hooks = { .on_output = on_output, .on_end = on_end };

static void on_timer(void *arg)
{
	answer(arg, NULL, NULL); /* the command continues */
}

static void on_started(void *arg, const struct link_window *window, const struct err *error)
{
	struct window_call *w = arg;

	made(w);
	if (!w->service) {
		if (error)
			follow_drop(w->follow); /* otherwise the link's last call frees it */
		window_call_free(w);
		return;
	}
	if (error) {
		follow_drop(w->follow);
		answer(w, NULL, error);
		return;
	}
	w->window = *window;
	tell(w, NULL);
	w->output.next = window->cursor;
	follow_bind(w->follow, window->process_id, window->run, window->cursor);
	w->following = follow_handle(w->follow);
	if (!w->done) {
		window_call_free(w);
		return;
	}
	loop_timer_set(w->timer, w->wait_ms, 0);
}

/* ---- start ---- */

static int launch(struct window_call *w, struct sandbox *sandbox, struct err *err)
{
	const struct service_config *config = &sandbox->service->config;
	struct follow_spec follow = { .credit = FOLLOW_CREDIT,
				      .streams = PROCESS_OUT,
				      .live = true };
	struct link_window_run run = { .name = w->look.name,
				       .command = { w->command, w->command_len },
				       .env = w->build.exec.env,
				       .cwd = w->build.exec.cwd,
				       .user = w->build.exec.user,
				       .ring_bytes = config->output_ring_bytes };
	uint32_t most =
		config->windows_per_sandbox ? config->windows_per_sandbox : WINDOWS_PER_SANDBOX;
	struct link_first_reader reader;
	uint32_t follow_id = 0;

	if (!w->look.found && w->look.windows + sandbox->windows_making >= most)
		return err_set(err, ERR_QUOTA_EXCEEDED,
			       "sandbox %s has %u windows, its limit (windows_per_sandbox)",
			       sandbox->id, most);
	w->follow = follow_new(sandbox, &follow, &hooks, w, err);
	if (!w->follow)
		return -1;
	reader = (struct link_first_reader){ &follow_link_hooks, w->follow, FOLLOW_CREDIT,
					     &follow_id };
	if (link_window_run(sandbox->link, &run, on_started, w, &reader, err) < 0) {
		follow_drop(w->follow);
		return -1;
	}
	follow_made(w->follow, follow_id);
	if (!w->look.found) {
		w->making = true;
		sandbox->windows_making++;
	}
	sandbox->service->upkeep.counters.window_runs++;
	sandbox_touch(sandbox);
	return 0;
}

static void on_looked(struct window_look *look, struct sandbox *sandbox, const struct err *error)
{
	struct window_call *w = CONTAINER_OF(look, struct window_call, look);
	struct err err;

	if (!w->service || !w->done) {
		window_call_free(w);
		return;
	}
	if (!error && launch(w, sandbox, &err) < 0)
		error = &err;
	if (error)
		answer(w, NULL, error);
}

static int check(const struct window_spec *spec, struct err *err)
{
	struct str command = spec->exec.command;

	if (!command.n)
		return err_set(err, ERR_INVALID_REQUEST, "command must not be empty");
	if (memchr(command.p, 0, command.n))
		return err_set(err, ERR_INVALID_REQUEST, "command must not contain NUL");
	if (range_check("wait_ms", spec->wait_ms, 0, WINDOW_WAIT_MAX_MS, err) < 0 ||
	    range_check("max_output_bytes", spec->max_output_bytes, 0, WINDOW_OUTPUT_MAX, err) < 0)
		return -1;
	return spec_check_name("name", spec->name, err);
}

static int fill(struct window_call *w, struct sandbox *sandbox, const struct window_spec *spec,
		struct err *err)
{
	struct str command = spec->exec.command;

	w->command = malloc(command.n + 1);
	if (!w->command ||
	    loop_timer_new(sandbox->service->config.loop, on_timer, w, &w->timer) < 0 ||
	    slot_put(&sandbox->service->runs->window_calls, w, &w->handle) < 0)
		return err_set(err, ERR_UNAVAILABLE, "too many commands on this host");
	w->service = sandbox->service;
	memcpy(w->command, command.p, command.n);
	w->command_len = command.n;
	return window_look_start(&w->look, sandbox, spec->name, err);
}

int window_run(struct sandbox *sandbox, const struct window_spec *spec, window_ran_fn done,
	       void *arg, slot_handle *ret_call, struct err *err)
{
	struct window_call *w;

	if (check(spec, err) < 0)
		return -1;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (spec_build_place(&w->build, sandbox, &spec->exec, err) < 0) {
		free(w);
		return -1;
	}
	output_buffer_init(&w->output, (size_t)spec->max_output_bytes, 0);
	w->look.looked = on_looked;
	w->sandbox = sandbox->handle;
	w->wait_ms = spec->wait_ms;
	w->started_us = time_mono_us();
	w->done = done;
	w->arg = arg;
	if (fill(w, sandbox, spec, err) < 0) {
		window_call_free(w);
		return -1;
	}
	*ret_call = w->handle;
	return 0;
}

void window_leave(struct service *service, slot_handle handle)
{
	struct window_call *w = slot_get(&service->runs->window_calls, handle);

	if (!w)
		return;
	w->done = NULL;
	if (w->following)
		window_call_free(w); /* otherwise its link call does */
}

/* The service closes. Calls without a follow are freed by their link call. */
void window_stop_all(struct service *service)
{
	struct window_call *w;
	uint32_t cursor = 0;

	while ((w = slot_next(&service->runs->window_calls, &cursor))) {
		bool running = w->following != 0;

		loop_timer_free(TAKE_PTR(w->timer));
		w->service = NULL;
		if (running)
			window_call_free(w);
	}
}
