/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a run of the file tool, sent as far as the tool takes it. */
#include <errno.h>

#include "base/log.h"
#include "engine/tool_run.h"

#define PIECE_BYTES TOOL_DATA_MAX
#define CHARGE_MIN 4096 /* minimum charge per piece, which bounds the number of small ones */

/* One piece of input in progress. */
struct piece {
	struct tool_run *run;
	size_t charge;
};

static void tell_room(struct tool_run *run)
{
	if (run->over || !run->full || run->untaken > TOOL_UNTAKEN_BYTES / 2 ||
	    buf_len(&run->input))
		return;
	run->full = false;
	if (run->hooks.on_room)
		run->hooks.on_room(run->arg);
}

static void on_taken(void *arg, const struct err *error)
{
	struct piece *piece = arg;
	struct tool_run *run = piece->run;

	run->untaken -= piece->charge;
	free(piece);
	if (!run->over && !error) {
		tool_run_moved(run);
		tool_run_pump(run);
		tell_room(run);
	}
	tool_run_unref(run);
}

/* Input that cannot be sent must not look complete: it ends here, and the tool reports it. */
static void cut_input(struct tool_run *run)
{
	struct err err;

	buf_clear(&run->input);
	run->takes_input = false;
	if (link_close_stdin(run->link, run->process_id, NULL, NULL, &err) < 0)
		log_debug("file tool: %s", err.message);
}

/*
 * One piece of the tool's input: our head and bytes that are not copied. 0; -EAGAIN: too much is
 * queued for this sandbox by others; -EPIPE: no more can be sent.
 */
static int send_piece(struct tool_run *run, struct str head, struct str body)
{
	struct piece *piece = malloc(sizeof(*piece));
	struct err err = { .code = ERR_UNAVAILABLE };

	if (piece) {
		*piece = (struct piece){ run, MAX(body.n, CHARGE_MIN) };
		if (link_feed(run->link, run->process_id, head, body, on_taken, piece, &err) == 0) {
			run->refs++;
			run->untaken += piece->charge;
			return 0;
		}
	}
	free(piece);
	if (err.code == ERR_CAPACITY_EXCEEDED)
		return -EAGAIN;
	cut_input(run);
	return -EPIPE;
}

void tool_run_pump(struct tool_run *run)
{
	while (run->takes_input && buf_len(&run->input) && run->untaken < TOOL_UNTAKEN_BYTES) {
		struct str piece = buf_str(&run->input);

		piece.n = MIN(piece.n, PIECE_BYTES);
		if (send_piece(run, (struct str){ "", 0 }, piece) < 0)
			return;
		buf_consume(&run->input, piece.n);
	}
}

/* Bytes that the link does not take now wait here; tool_run_poke() retries. */
static int keep(struct tool_run *run, struct str head, struct str body)
{
	if (buf_append(&run->input, head.p, head.n) == 0 &&
	    buf_append(&run->input, body.p, body.n) == 0)
		return 0;
	cut_input(run);
	return -EPIPE;
}

static int send_or_keep(struct tool_run *run, struct str head, struct str body)
{
	int r = buf_len(&run->input) ? -EAGAIN : send_piece(run, head, body);

	return r == -EAGAIN ? keep(run, head, body) : r;
}

static bool usable(const struct tool_run *run, const struct link *link)
{
	return !run->over && link && link == run->link && run->process_id && run->takes_input;
}

int tool_run_feed(struct tool_run *run, struct link *link, struct str bytes)
{
	if (!usable(run, link))
		return -1;
	tool_run_moved(run);
	while (bytes.n) {
		struct str piece = { bytes.p, MIN(bytes.n, TOOL_DATA_MAX) };
		char head[FRAME_HEADER_SIZE];

		frame_store_header(head, piece.n, TOOL_DATA, 0, 0);
		if (send_or_keep(run, (struct str){ head, sizeof(head) }, piece) < 0)
			return -1;
		bytes.p += piece.n;
		bytes.n -= piece.n;
	}
	run->full = run->untaken >= TOOL_UNTAKEN_BYTES || buf_len(&run->input);
	return !run->full;
}

void tool_run_input(struct tool_run *run, struct link *link, struct buf *frames)
{
	buf_done(&run->input);
	run->input = *frames;
	buf_init(frames, frames->limit_bytes);
	run->committed = true; /* it includes COMMIT: no further input follows */
	if (usable(run, link))
		tool_run_pump(run);
}

void tool_run_commit(struct tool_run *run, struct link *link)
{
	char head[FRAME_HEADER_SIZE];

	if (!usable(run, link))
		return;
	tool_run_moved(run);
	run->committed = true;
	frame_store_header(head, 0, TOOL_COMMIT, 0, 0);
	(void)send_or_keep(run, (struct str){ "", 0 }, (struct str){ head, sizeof(head) });
}

void tool_run_poke(struct tool_run *run, struct link *link)
{
	if (usable(run, link) && buf_len(&run->input)) {
		tool_run_pump(run);
		tell_room(run);
	}
}
