/* SPDX-License-Identifier: Apache-2.0 */
/* LISTED: a tag, then processes up to the end of the frame. */
#include "wire/agent_codec.h"

#define LISTED_HEADER_SIZE 4
#define LISTED_FIXED_SIZE 120

/* Only what /proc shows: no other flag, no end, no output. */
static bool orphan_ok(const struct agent_listed *l)
{
	return l->flags == AGENT_PROCESS_ORPHAN && l->process_id == l->pid &&
	       l->status.end == AGENT_END_NONE && !l->status.oom_kills && !l->status.out_total &&
	       !l->status.err_total && l->name.n == 0;
}

static bool listed_ok(const struct agent_listed *l)
{
	bool window = l->flags & AGENT_PROCESS_WINDOW;

	if ((l->flags & AGENT_PROCESS_ORPHAN) && !orphan_ok(l))
		return false;
	if (l->process_id == 0 || l->pid > INT32_MAX || (l->flags & ~AGENT_PROCESS_FLAGS) ||
	    !agent_tty_ok(l->flags & AGENT_PROCESS_TTY, l->cols, l->rows) ||
	    !agent_status_ok(&l->status) || l->out_begin > l->status.out_total ||
	    l->err_begin > l->status.err_total || l->start_ms > INT64_MAX || l->idle_ms > INT64_MAX)
		return false;
	if (!window && (l->run || l->run_cursor || l->idle_ms || (l->flags & AGENT_PROCESS_BUSY)))
		return false;
	if (l->run == 0 && l->run_end != AGENT_END_NONE) /* it is busy while its shell starts */
		return false;
	if (l->run_end > AGENT_END_LAST || l->run_exit_code > 255 ||
	    (l->run_end == AGENT_END_NONE && l->run_exit_code) ||
	    l->run_cursor > l->status.out_total)
		return false;
	return (l->name.n == 0 || agent_name_ok(l->name)) && l->user.n <= AGENT_USER_MAX &&
	       agent_no_nul(l->user) && l->command.n <= AGENT_COMMAND_MAX &&
	       agent_no_nul(l->command);
}

int agent_listing_begin(struct agent_listing *l, struct buf *out, uint32_t tag)
{
	size_t start = buf_len(out);
	char *p;
	int r;

	if (tag == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_LISTED, 0, 0, LISTED_HEADER_SIZE, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	*l = (struct agent_listing){ .out = out, .start = start };
	return 0;
}

static size_t payload_bytes(const struct agent_listing *l)
{
	return buf_len(l->out) - l->start - FRAME_HEADER_SIZE;
}

static char *store(char *p, struct str s)
{
	if (s.n)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

int agent_listing_add(struct agent_listing *l, const struct agent_listed *e)
{
	size_t size = LISTED_FIXED_SIZE + e->name.n + e->user.n + e->command.n;
	char *p;
	int r;

	if (!listed_ok(e))
		return -EINVAL;
	if (payload_bytes(l) + size > AGENT_FROM_MAX_BYTES)
		return -ENOBUFS;
	r = buf_reserve(l->out, size, &p);
	if (r < 0)
		return r;
	frame_store32(p, e->process_id);
	frame_store32(p + 4, e->pid);
	p[8] = (char)e->flags;
	p[9] = (char)e->run_end;
	p[10] = (char)e->name.n;
	p[11] = (char)e->user.n;
	frame_store16(p + 12, e->cols);
	frame_store16(p + 14, e->rows);
	frame_store64(p + 16, e->start_ms);
	frame_store64(p + 24, e->out_begin);
	frame_store64(p + 32, e->err_begin);
	agent_store_status(p + 40, &e->status);
	frame_store32(p + 92, e->run);
	frame_store32(p + 96, e->run_exit_code);
	frame_store64(p + 100, e->run_cursor);
	frame_store64(p + 108, e->idle_ms);
	frame_store16(p + 116, (uint16_t)e->command.n);
	frame_store16(p + 118, 0);
	(void)store(store(store(p + LISTED_FIXED_SIZE, e->name), e->user), e->command);
	buf_commit(l->out, size);
	return 0;
}

void agent_listing_end(struct agent_listing *l, bool last)
{
	frame_store_header(buf_data(l->out) + l->start, payload_bytes(l), AGENT_LISTED,
			   last ? AGENT_LISTED_LAST : 0, 0);
}

int agent_get_listed(const struct frame *frame, uint32_t *ret_tag, bool *ret_last,
		     struct frame_reader *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);

	if (agent_check(frame, AGENT_LISTED, AGENT_LISTED_FLAGS, false) < 0 || r.failed || tag == 0)
		return -EPROTO;
	*ret_tag = tag;
	*ret_last = frame->flags & AGENT_LISTED_LAST;
	*ret = r;
	return 0;
}

int agent_next_listed(struct frame_reader *r, struct agent_listed *ret)
{
	struct agent_listed e = { 0 };
	uint16_t command_n, zero;
	uint8_t run_end, name_n, user_n;

	if (r->failed)
		return -EPROTO;
	if (r->n == 0)
		return 0;
	e.process_id = frame_u32(r);
	e.pid = frame_u32(r);
	e.flags = frame_u8(r);
	run_end = frame_u8(r);
	name_n = frame_u8(r);
	user_n = frame_u8(r);
	e.cols = frame_u16(r);
	e.rows = frame_u16(r);
	e.start_ms = frame_u64(r);
	e.out_begin = frame_u64(r);
	e.err_begin = frame_u64(r);
	if (!agent_load_status(r, &e.status) || run_end > AGENT_END_LAST)
		return -EPROTO;
	e.run = frame_u32(r);
	e.run_exit_code = frame_u32(r);
	e.run_end = (enum agent_end)run_end;
	e.run_cursor = frame_u64(r);
	e.idle_ms = frame_u64(r);
	command_n = frame_u16(r);
	zero = frame_u16(r);
	e.name = frame_bytes(r, name_n);
	e.user = frame_bytes(r, user_n);
	e.command = frame_bytes(r, command_n);
	if (r->failed || zero || !listed_ok(&e))
		return -EPROTO;
	*ret = e;
	return 1;
}
