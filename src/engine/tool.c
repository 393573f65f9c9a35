/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/tool_run.h"

#define CREDIT_STEP (TOOL_CREDIT_BYTES / 8) /* credit is returned in steps, not frame by frame */

void tool_run_unref(struct tool_run *run)
{
	if (--run->refs)
		return;
	buf_done(&run->input);
	buf_done(&run->partial);
	free(run);
}

/* The follow does not call any more. The caller holds its own reference. */
static void unfollow(struct tool_run *run)
{
	if (!run->followed)
		return;
	run->followed = false;
	link_unfollow(run->link, run->follow_id);
	run->refs--;
}

void tool_run_moved(struct tool_run *run)
{
	run->moved_ms = time_boot_ms();
}

/* The last call, which drops the starter's reference; the caller holds its own. */
static void finish(struct tool_run *run, const struct tool_outcome *outcome)
{
	if (run->over)
		return;
	run->over = true;
	run->hooks.on_end(run->arg, outcome);
	run->refs--;
}

static void fail(struct tool_run *run, const struct err *error)
{
	struct tool_outcome outcome = { .error = error };

	finish(run, &outcome);
}

/* ---- output ---- */

static void give_credit(struct tool_run *run)
{
	if (run->over || run->paused || run->owed < CREDIT_STEP)
		return;
	link_credit(run->link, run->follow_id, (uint32_t)run->owed);
	run->owed = 0;
}

static int say(struct tool_run *run, const struct frame *frame)
{
	struct tool_said said = { .type = frame->type };
	int r;

	switch (frame->type) {
	case TOOL_ENTRY:
		r = tool_get_entry(frame, &said.entry);
		break;
	case TOOL_DETAIL:
		r = tool_get_detail(frame, &said.detail);
		break;
	case TOOL_LINE:
		r = tool_get_line(frame, &said.line);
		break;
	case TOOL_MATCH:
		r = tool_get_match(frame, &said.match);
		break;
	case TOOL_EVENT:
		r = tool_get_event(frame, &said.event);
		break;
	case TOOL_ITEM:
		r = tool_get_item(frame, &said.item);
		break;
	case TOOL_PROGRESS:
		r = tool_get_progress(frame, &said.progress);
		break;
	default:
		return -EPROTO;
	}
	if (r == 0 && run->hooks.on_said)
		run->hooks.on_said(run->arg, &said);
	return r;
}

/* The tool has sent its last frame: it is released, whatever it still does. */
static int end(struct tool_run *run, const struct frame *frame)
{
	struct tool_end end;
	struct tool_failed failed;
	struct tool_outcome outcome = { .end = NULL };

	if (frame->type == TOOL_END) {
		if (tool_get_end(frame, &end) < 0)
			return -EPROTO;
		outcome.end = &end;
	} else {
		if (tool_get_failed(frame, &failed) < 0)
			return -EPROTO;
		outcome.failed = &failed;
	}
	unfollow(run);
	finish(run, &outcome);
	return 0;
}

static int take_frame(struct tool_run *run, const struct frame *frame)
{
	struct str bytes;

	switch (frame->type) {
	case TOOL_DATA:
		if (tool_get_bytes(frame, TOOL_DATA, &bytes) < 0)
			return -EPROTO;
		if (!run->hooks.on_data)
			return -EPROTO;
		run->held += bytes.n;
		run->owed -= bytes.n; /* was counted with its frame */
		run->hooks.on_data(run->arg, bytes);
		return 0;
	case TOOL_READY:
		if (tool_get_bytes(frame, TOOL_READY, &bytes) < 0 || run->ready)
			return -EPROTO;
		run->ready = true;
		if (run->hooks.on_ready)
			run->hooks.on_ready(run->arg);
		return 0;
	case TOOL_END:
	case TOOL_FAILED:
		return end(run, frame);
	default:
		return say(run, frame);
	}
}

/* An incomplete DATA is passed on as it arrives, so large content is never copied here. */
static int begin_data(struct tool_run *run, struct str *bytes)
{
	static const char no_process[4];
	size_t length = frame_missing((struct str){ bytes->p, FRAME_HEADER_SIZE });

	if (!run->hooks.on_data || length == 0 || length > TOOL_DATA_MAX || bytes->p[5] ||
	    memcmp(bytes->p + 8, no_process, sizeof(no_process)) != 0)
		return -EPROTO;
	run->data_left = length;
	run->owed += FRAME_HEADER_SIZE;
	bytes->p += FRAME_HEADER_SIZE;
	bytes->n -= FRAME_HEADER_SIZE;
	return 0;
}

static void pass_data(struct tool_run *run, struct str *bytes)
{
	struct str piece = { bytes->p, MIN(bytes->n, run->data_left) };

	run->data_left -= piece.n;
	run->held += piece.n;
	bytes->p += piece.n;
	bytes->n -= piece.n;
	run->hooks.on_data(run->arg, piece);
}

/* Appends to the incomplete frame. */
static int take_partial(struct tool_run *run, struct str *bytes)
{
	size_t n = MIN(bytes->n, frame_missing(buf_str(&run->partial)));
	struct frame frame;
	int r;

	if (buf_append(&run->partial, bytes->p, n) < 0)
		return -ENOMEM;
	bytes->p += n;
	bytes->n -= n;
	run->owed += n;
	r = frame_next(buf_str(&run->partial), TOOL_PAYLOAD_MAX, &frame);
	if (r <= 0)
		return r;
	r = take_frame(run, &frame);
	buf_clear(&run->partial);
	return r;
}

static int take_some(struct tool_run *run, struct str *bytes)
{
	struct frame frame;
	int r;

	if (run->data_left) {
		pass_data(run, bytes);
		return 0;
	}
	if (buf_len(&run->partial))
		return take_partial(run, bytes);
	r = frame_next(*bytes, TOOL_PAYLOAD_MAX, &frame);
	if (r < 0)
		return r;
	if (r == 0 && bytes->n >= FRAME_HEADER_SIZE && bytes->p[4] == TOOL_DATA)
		return begin_data(run, bytes);
	if (r == 0)
		return take_partial(run, bytes);
	bytes->p += frame_size(&frame);
	bytes->n -= frame_size(&frame);
	run->owed += frame_size(&frame);
	return take_frame(run, &frame);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct tool_run *run = arg;
	struct err err;
	int r = 0;

	(void)cursor; /* no output of a tool is ever dropped */
	if (run->over)
		return;
	tool_run_moved(run);
	if (stream != LINK_OUT) {
		log_debug("file tool: %.*s", (int)MIN(bytes.n, 200), bytes.p);
		run->owed += bytes.n;
		give_credit(run);
		return;
	}
	run->refs++;
	while (bytes.n && r == 0 && !run->over)
		r = take_some(run, &bytes);
	if (r < 0 && !run->over) {
		(void)err_set(&err, ERR_TOOL_FAILED,
			      "the file tool in the sandbox violated the protocol");
		unfollow(run);
		fail(run, &err);
	}
	give_credit(run);
	tool_run_unref(run);
}

static void on_end(void *arg, const struct link_status *status, const struct err *error)
{
	struct tool_run *run = arg;
	struct err err;

	if (error)
		err = *error;
	else if (status->end == LINK_END_OOM)
		(void)err_set(&err, ERR_OUT_OF_MEMORY,
			      "the sandbox ran out of memory: the file tool was killed");
	else if (status->end == LINK_END_EXIT)
		(void)err_set(&err, ERR_TOOL_FAILED,
			      "the file tool inside ended early: exit code %d", status->exit_code);
	else
		(void)err_set(&err, ERR_TOOL_FAILED, "the file tool inside ended early: signal %d",
			      status->signal);
	fail(run, &err); /* the follow's reference still exists */
	tool_run_unref(run);
}

/* ---- lifetime ---- */

static void on_started(void *arg, uint32_t process_id, uint32_t pid, const struct err *error)
{
	struct tool_run *run = arg;

	(void)pid;
	if (error) {
		fail(run, error);
		/* no other callback follows for a run that never started */
		run->refs -= run->followed;
		run->followed = false;
	} else if (!run->over) {
		tool_run_moved(run);
		run->process_id = process_id;
		tool_run_pump(run);
	}
	tool_run_unref(run);
}

int tool_run_start(struct link *link, const struct tool_spec *spec, const struct tool_hooks *hooks,
		   void *arg, struct tool_run **ret, struct err *err)
{
	static const struct link_follow_hooks follow = { .on_output = on_output, .on_end = on_end };
	struct link_exec exec = { .argv = spec->argv,
				  .env = spec->env,
				  .cwd = spec->cwd,
				  .user = spec->user,
				  .stdin_open = spec->input,
				  .tool = true };
	struct link_first_reader first;
	struct tool_run *run;

	if (!link_has_tools(link))
		return err_set(err, ERR_UNSUPPORTED_BY_ENGINE,
			       "this sandbox has no file tool: its engine or agent is older");
	run = calloc(1, sizeof(*run));
	if (!run)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	run->link = link;
	run->hooks = *hooks;
	run->arg = arg;
	run->takes_input = spec->input;
	run->refs = 3; /* the starter's, the start's and the follow's */
	run->followed = true;
	buf_init(&run->partial, FRAME_HEADER_SIZE + TOOL_PAYLOAD_MAX);
	buf_init(&run->input, TOOL_UNTAKEN_BYTES); /* at the limit the upload is aborted */
	tool_run_moved(run);
	first = (struct link_first_reader){ &follow, run, TOOL_CREDIT_BYTES, &run->follow_id };
	if (link_spawn(link, &exec, on_started, run, &first, err) < 0) {
		free(run);
		return -1;
	}
	*ret = run;
	return 0;
}

void tool_run_cancel(struct tool_run *run, struct link *link)
{
	if (run->over)
		return;
	run->over = true;
	if (link && link == run->link)
		unfollow(run);
	tool_run_unref(run);
}

void tool_run_release(struct tool_run *run, struct link *link, size_t bytes)
{
	if (run->over || !link || link != run->link)
		return;
	tool_run_moved(run);
	bytes = MIN(bytes, run->held);
	run->held -= bytes;
	run->owed += bytes;
	give_credit(run);
}

void tool_run_pause(struct tool_run *run, struct link *link, bool paused)
{
	if (run->over || !link || link != run->link)
		return;
	run->paused = paused;
	give_credit(run);
}

int64_t tool_run_waiting_since_ms(const struct tool_run *run)
{
	bool for_input = run->takes_input && run->ready && !run->committed && !run->untaken;
	bool for_reader = run->held + run->owed >= TOOL_CREDIT_BYTES;

	return for_input || for_reader ? 0 : run->moved_ms;
}
