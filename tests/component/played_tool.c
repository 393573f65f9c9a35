/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for engine/tool.c. */
#include "played_tool.h"

/* ---- the tool ---- */

struct tool_run played[PLAYED_MAX];
size_t played_count;
const char *played_box;

struct tool_run *played_last(void)
{
	assert_true(played_count > 0);
	return &played[played_count - 1];
}

int tool_run_start(struct link *link, const struct tool_spec *spec, const struct tool_hooks *hooks,
		   void *arg, struct tool_run **ret, struct err *err)
{
	struct tool_run *run = &played[played_count++];

	assert_true(played_count <= PLAYED_MAX);
	assert_non_null(link);
	*run = (struct tool_run){ .used = true, .hooks = *hooks, .arg = arg };
	buf_init(&run->fed, 8U << 20);
	(void)snprintf(run->user, sizeof(run->user), "%s", spec->user ? spec->user : "");
	for (size_t i = 1; spec->argv[i]; i++) {
		size_t n = strlen(run->args);

		(void)snprintf(run->args + n, sizeof(run->args) - n, "%s|", spec->argv[i]);
	}
	*ret = run;
	return 0;
}

void tool_run_cancel(struct tool_run *run, struct link *link)
{
	run->cancelled = true;
}

int tool_run_feed(struct tool_run *run, struct link *link, struct str bytes)
{
	assert_int_equal(buf_append(&run->fed, bytes.p, bytes.n), 0);
	return !run->full;
}

void tool_run_input(struct tool_run *run, struct link *link, struct buf *frames)
{
	assert_int_equal(buf_append(&run->fed, buf_data(frames), buf_len(frames)), 0);
}

void tool_run_commit(struct tool_run *run, struct link *link)
{
	run->committed = true;
}

void tool_run_poke(struct tool_run *run, struct link *link)
{
}

void tool_run_pause(struct tool_run *run, struct link *link, bool paused)
{
	run->paused = paused;
}

void tool_run_release(struct tool_run *run, struct link *link, size_t bytes)
{
	run->released += bytes;
}

int64_t tool_run_waiting_since_ms(const struct tool_run *run)
{
	return run->waiting_ms;
}

/* ---- what it says ---- */

void played_entry(struct tool_run *run, const char *path, enum tool_kind kind, uint64_t size)
{
	struct tool_said said = { .type = TOOL_ENTRY };

	said.entry = (struct tool_entry){ .kind = kind,
					  .mode = 0644,
					  .size = size,
					  .mtime_ns = 1700000000000000000,
					  .path = str_of(path),
					  .user = STR_LIT("sandbox") };
	run->hooks.on_said(run->arg, &said);
}

void played_data(struct tool_run *run, const char *text)
{
	run->hooks.on_data(run->arg, str_of(text));
}

void played_end(struct tool_run *run, const struct tool_end *with)
{
	struct tool_outcome outcome = { .end = with };

	run->hooks.on_end(run->arg, &outcome);
}

void played_end_well(struct tool_run *run)
{
	struct tool_end nothing = { 0 };

	played_end(run, &nothing);
}

void played_end_badly(struct tool_run *run, enum tool_error error)
{
	struct tool_failed failed = { .error = error,
				      .path = STR_LIT("a\n\xff/b"),
				      .limit = 5U << 20,
				      .count = 3,
				      .line_count = 2,
				      .lines = { 4, 9 } };
	struct tool_outcome outcome = { .failed = &failed };

	run->hooks.on_end(run->arg, &outcome);
}

/* ---- calls ---- */

const char *played_url(const char *rest)
{
	return path_of("/v1/sandboxes/%s/files%s", played_box, rest);
}

/* Sends, and lets the daemon start the tool. */
struct tool_run *played_begin(struct request *req, const char *method, const char *rest,
			      const char *headers, const char *body)
{
	size_t before = played_count;

	request_send(req, world.admin, method, played_url(rest), headers, body);
	for (int i = 0; i < 500 && played_count == before; i++)
		loop_turn(world.loop, 1);
	assert_int_equal(played_count, before + 1);
	return played_last();
}

int played_setup(void **state)
{
	played_count = 0;
	(void)world_setup(state);
	played_box = make("{}");
	return 0;
}

int played_teardown(void **state)
{
	for (size_t i = 0; i < played_count; i++)
		buf_done(&played[i].fed);
	return world_teardown(state);
}
