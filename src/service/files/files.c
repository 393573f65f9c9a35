/* SPDX-License-Identifier: Apache-2.0 */
#include "service/files/files.h"

#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/event/bus.h"
#include "service/files/files_private.h"
#include "service/secret/secret.h"

#define STALL_MS 60000
#define STALL_SYNC_MS 600000 /* a slow disk may take long to write everything */
#define STALL_GRACE_MS 10000 /* in addition to the tool's own timeout */
#define INPUT_MAX (96 * 1024 * 1024)

const char *const files_format_names[] = { "tar.zst", "tar", "zip", NULL };

static bool changes(enum files_op op)
{
	return op == FILES_WRITE || op == FILES_BATCH || op == FILES_EDIT || op == FILES_MKDIR ||
	       op == FILES_MOVE || op == FILES_COPY || op == FILES_REMOVE || op == FILES_CHMOD ||
	       op == FILES_CHOWN || op == FILES_ARCHIVE_IN;
}

static struct sandbox *sandbox_of(const struct files_run *run)
{
	return run->service ? sandbox_get(run->service, run->sandbox) : NULL;
}

static struct link *link_of(const struct files_run *run)
{
	struct sandbox *sandbox = sandbox_of(run);

	return sandbox ? sandbox->link : NULL;
}

static void run_free(struct files_run *run)
{
	struct sandbox *sandbox = sandbox_of(run);

	if (sandbox) {
		sandbox->file_ops--;
		if (changes(run->op)) {
			sandbox->execs--;
			sandbox_touch(sandbox);
		}
	}
	if (run->service)
		(void)slot_take(&run->service->file_runs->table, run->handle);
	files_args_done(&run->args);
	files_relay_done(&run->relay);
	free(run);
}

/* Ends the run. The tool has ended, or is closed here. */
static void finish(struct files_run *run, const struct files_result *result, const struct err *err)
{
	if (run->tool)
		tool_run_cancel(TAKE_PTR(run->tool), link_of(run));
	if (run->service)
		run->hooks.on_end(run->arg, result, err);
	run_free(run);
}

static void finish_broken(struct files_run *run, int error)
{
	struct err err;

	if (error == -EPROTO)
		(void)err_set(&err, ERR_TOOL_FAILED,
			      "the file tool in the sandbox violated the protocol");
	else
		(void)err_set_errno(&err, ERR_UNAVAILABLE, error, "the result cannot be stored");
	finish(run, NULL, &err);
}

static void finish_well(struct files_run *run, const struct tool_end *end)
{
	struct files_result result;
	bool headless = run->op == FILES_READ && !run->has_head;
	int r = headless ? -EPROTO : files_relay_end(&run->relay, run->op, end, &result);

	if (r < 0)
		finish_broken(run, r);
	else
		finish(run, &result, NULL);
}

/* ---- frames from the tool ---- */

static void tell_head(struct files_run *run, const struct tool_entry *entry)
{
	const struct files_spec *r = &run->range;
	uint64_t size = MIN(entry->size, (uint64_t)INT64_MAX), begin = 0, length;
	char token[TOOL_TOKEN_SIZE];
	struct files_head head = { .is_file = entry->kind == TOOL_KIND_FILE,
				   .size = size,
				   .modified_ms = entry->mtime_ns / 1000000 };

	if (r->has_suffix)
		begin = (uint64_t)r->range_suffix < size ? size - (uint64_t)r->range_suffix : 0;
	else if (r->has_range)
		begin = MIN((uint64_t)r->range_begin, size);
	length = size - begin;
	if (r->has_length)
		length = MIN(length, (uint64_t)r->range_length);
	head.begin = begin;
	head.length = length;
	tool_token(token, entry);
	head.etag = token;
	run->hooks.on_head(run->arg, &head);
}

/* False: the frame needs no further processing. */
static bool take_head(struct files_run *run, const struct tool_entry *entry)
{
	slot_handle handle = run->handle;
	struct service *service = run->service;

	if (run->has_head) {
		finish_broken(run, -EPROTO);
		return false;
	}
	run->has_head = true;
	tell_head(run, entry);
	return slot_get(&service->file_runs->table, handle) == run && run->op != FILES_READ;
}

static void on_said(void *arg, const struct tool_said *said)
{
	struct files_run *run = arg;
	slot_handle handle = run->handle;
	struct service *service = run->service;
	int r;

	if (said->type == TOOL_ENTRY && run->hooks.on_head &&
	    (run->op == FILES_READ || run->op == FILES_STAT) && !take_head(run, &said->entry))
		return;
	r = files_relay_add(&run->relay, run->op, said);
	if (r == 0 || slot_get(&service->file_runs->table, handle) != run)
		return;
	if (r < 0) {
		finish_broken(run, r);
	} else {
		/* The caller gets an incomplete result, marked as such. */
		struct tool_end end = { .cut = TOOL_CUT_BYTES };

		finish_well(run, &end);
	}
}

static void on_ready(void *arg)
{
	struct files_run *run = arg;

	if (run->hooks.on_ready)
		run->hooks.on_ready(run->arg);
}

static void on_data(void *arg, struct str bytes)
{
	struct files_run *run = arg;

	if (run->hooks.on_data && (run->op != FILES_READ || run->has_head))
		run->hooks.on_data(run->arg, bytes);
	else
		finish_broken(run, -EPROTO);
}

static void on_room(void *arg)
{
	struct files_run *run = arg;

	if (run->hooks.on_room)
		run->hooks.on_room(run->arg);
}

static int start_tool(struct files_run *run, struct sandbox *sandbox, struct err *err);

/* The offset counts from the end: the first run counted the lines, the second reads them. */
static bool go_on_from_end(struct files_run *run, const struct tool_end *end)
{
	uint64_t back = (uint64_t)-run->lines_from_end;
	struct sandbox *sandbox = sandbox_of(run);
	struct err err;

	run->lines_from_end = 0;
	if (!sandbox || !sandbox->link || (end->flags & TOOL_END_BINARY))
		return false;
	buf_clear(&run->relay.text);
	if (files_args_replace(&run->args, "offset",
			       end->total_lines > back ? end->total_lines - back + 1 : 1) < 0 ||
	    files_args_replace(&run->args, "limit", run->lines_limit) < 0)
		return false;
	if (start_tool(run, sandbox, &err) < 0)
		finish(run, NULL, &err);
	return true;
}

static void on_tool_end(void *arg, const struct tool_outcome *outcome)
{
	struct files_run *run = arg;
	struct sandbox *sandbox = sandbox_of(run);
	struct err err;

	run->tool = NULL;
	if (outcome->end) {
		if (!run->lines_from_end || !go_on_from_end(run, outcome->end))
			finish_well(run, outcome->end);
		return;
	}
	if (outcome->failed && sandbox)
		(void)files_error(sandbox, outcome->failed, &err);
	else if (!sandbox || !sandbox_up(sandbox))
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended: %s",
			      sandbox && sandbox->reason ? sandbox_reason_name(sandbox->reason)
							 : "its agent has ended");
	else
		err = *outcome->error;
	finish(run, NULL, &err);
}

/* ---- start ---- */

static int start_tool(struct files_run *run, struct sandbox *sandbox, struct err *err)
{
	static const struct tool_hooks hooks = { .on_ready = on_ready,
						 .on_said = on_said,
						 .on_data = on_data,
						 .on_room = on_room,
						 .on_end = on_tool_end };
	static const char *const env[] = { "LC_ALL=C.UTF-8", NULL };
	struct tool_spec spec = { .argv = run->args.argv,
				  .env = env,
				  .cwd = run->args.cwd,
				  .user = run->args.user,
				  .input = run->args.input };

	return tool_run_start(sandbox->link, &spec, &hooks, run, &run->tool, err);
}

static int make_input(struct files_run *run, const struct files_spec *spec, struct buf *frames,
		      struct err *err)
{
	if (run->op == FILES_EDIT)
		return files_input_edit(frames, spec, err);
	if (run->op == FILES_BATCH) {
		struct arena arena;
		int r;

		arena_init(&arena, 2 * INPUT_MAX);
		r = files_input_batch(frames, &arena, spec->files.list, spec->files.count, err);
		arena_done(&arena);
		return r;
	}
	return files_input_write(frames, spec, err);
}

static int64_t stall_of(enum files_op op, const struct files_spec *spec)
{
	if (op == FILES_WATCH)
		return 0;
	if (op == FILES_GLOB || op == FILES_GREP || op == FILES_LIST)
		return spec->timeout_sec * 1000 + STALL_GRACE_MS;
	return spec->fsync ? STALL_SYNC_MS : STALL_MS;
}

static int check_room(const struct sandbox *sandbox, struct err *err)
{
	uint32_t limit = sandbox->service->config.file_ops_per_sandbox;

	limit = limit ? limit : FILES_OPS_PER_SANDBOX;
	if (sandbox->file_ops < limit)
		return 0;
	return err_set(err, ERR_QUOTA_EXCEEDED,
		       "sandbox %s runs %u file operations, its limit (file_ops_per_sandbox)",
		       sandbox->id, limit);
}

static int begin(struct files_run *run, struct sandbox *sandbox, const struct files_spec *spec,
		 struct err *err)
{
	bool at_hand = run->op == FILES_EDIT || run->op == FILES_BATCH ||
		       (run->op == FILES_WRITE && !run->hooks.on_ready);
	struct buf frames;
	int r;

	if (files_args_build(&run->args, sandbox, run->op, spec, err) < 0)
		return -1;
	files_relay_init(&run->relay, run->op, spec, run->args.path);
	run->relay.hooks = &run->hooks;
	run->relay.arg = run->arg;
	if (sandbox_scrub(sandbox))
		run->relay.scrub = scrub_ref(sandbox_scrub(sandbox));
	if (run->op == FILES_VIEW && spec->offset < 0) {
		run->lines_from_end = spec->offset;
		run->lines_limit = (uint64_t)spec->limit;
	}
	if (!at_hand)
		return start_tool(run, sandbox, err);
	buf_init(&frames, INPUT_MAX);
	r = make_input(run, spec, &frames, err);
	if (r == 0)
		r = start_tool(run, sandbox, err);
	if (r == 0)
		tool_run_input(run->tool, sandbox->link, &frames);
	buf_done(&frames);
	return r;
}

int files_start(struct sandbox *sandbox, enum files_op op, const struct files_spec *spec,
		const struct files_hooks *hooks, void *arg, slot_handle *ret, struct err *err)
{
	struct service *service = sandbox->service;
	struct files_run *run;

	if (check_room(sandbox, err) < 0)
		return -1;
	run = calloc(1, sizeof(*run));
	if (!run || slot_put(&service->file_runs->table, run, &run->handle) < 0) {
		free(run);
		return err_set(err, ERR_CAPACITY_EXCEEDED, "too many file operations on this host");
	}
	run->service = service;
	run->sandbox = sandbox->handle;
	run->op = op;
	run->hooks = *hooks;
	run->arg = arg;
	run->stall_ms = stall_of(op, spec);
	run->range = *spec;
	sandbox->file_ops++;
	if (changes(op)) {
		sandbox->execs++; /* keeps the sandbox from being idle */
		sandbox_touch(sandbox);
	}
	service->upkeep.counters.file_ops++;
	if (begin(run, sandbox, spec, err) < 0) {
		run_free(run);
		return -1;
	}
	*ret = run->handle;
	return 0;
}

/* ---- control ---- */

int files_feed(struct service *service, slot_handle handle, struct str bytes)
{
	struct files_run *run = slot_get(&service->file_runs->table, handle);

	return run && run->tool ? tool_run_feed(run->tool, link_of(run), bytes) : -1;
}

void files_commit(struct service *service, slot_handle handle)
{
	struct files_run *run = slot_get(&service->file_runs->table, handle);

	if (run && run->tool)
		tool_run_commit(run->tool, link_of(run));
}

void files_release(struct service *service, slot_handle handle, size_t bytes)
{
	struct files_run *run = slot_get(&service->file_runs->table, handle);

	if (run && run->tool)
		tool_run_release(run->tool, link_of(run), bytes);
}

void files_pause(struct service *service, slot_handle handle, bool paused)
{
	struct files_run *run = slot_get(&service->file_runs->table, handle);

	if (run && run->tool)
		tool_run_pause(run->tool, link_of(run), paused);
}

void files_cancel(struct service *service, slot_handle handle)
{
	struct files_run *run = slot_get(&service->file_runs->table, handle);

	if (!run)
		return;
	if (run->tool)
		tool_run_cancel(TAKE_PTR(run->tool), link_of(run));
	run_free(run);
}

/* Ends operations whose tool is stalled, and retries input that did not fit. */
void file_runs_tick(struct service *service)
{
	int64_t now_ms = time_boot_ms();
	struct files_run *run;
	uint32_t cursor = 0;

	while ((run = slot_next(&service->file_runs->table, &cursor))) {
		int64_t since_ms = run->tool ? tool_run_waiting_since_ms(run->tool) : 0;
		const struct sandbox *sandbox = sandbox_get(service, run->sandbox);
		struct err err;

		/* The tool of a paused sandbox is frozen, which does not count as a stall. */
		if (sandbox && sandbox_state(sandbox) == SANDBOX_PAUSED)
			continue;
		if (sandbox && since_ms)
			since_ms = MAX(since_ms, sandbox->thawed_ms);
		if (run->stall_ms && since_ms && now_ms - since_ms > run->stall_ms) {
			(void)err_set(
				&err, ERR_TIMEOUT,
				"the file tool in the sandbox made no progress for %lld seconds",
				(long long)run->stall_ms / 1000);
			finish(run, NULL, &err);
		} else if (run->tool) {
			tool_run_poke(run->tool, link_of(run));
		}
	}
}

/* The service closes. The faces have already dropped the waiting callers. */
void file_runs_stop(struct service *service)
{
	struct files_run *run;
	uint32_t cursor = 0;

	while ((run = slot_next(&service->file_runs->table, &cursor)))
		files_cancel(service, run->handle);
}

struct file_runs *file_runs_new(void)
{
	struct file_runs *runs = calloc(1, sizeof(*runs));

	if (runs)
		slot_init(&runs->table, FILE_RUNS_MAX);
	return runs;
}

void file_runs_close(struct service *service)
{
	slot_done(&service->file_runs->table);
	free(service->file_runs);
}
