/* SPDX-License-Identifier: Apache-2.0 */
/* Small requests from daemon to agent. EXEC and WINDOW_RUN are in agent_exec.c. */
#include "wire/agent_codec.h"

int agent_put_stdin(struct buf *out, uint32_t process_id, uint32_t tag, uint8_t flags,
		    struct str bytes)
{
	char *p;
	int r;

	if (process_id == 0 || bytes.n == 0 || (flags & ~AGENT_STDIN_FLAGS))
		return -EINVAL;
	if (bytes.n > AGENT_STDIN_BYTES_MAX)
		return -EMSGSIZE;
	r = frame_put(out, AGENT_STDIN, flags, process_id, 4 + bytes.n, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	memcpy(p + 4, bytes.p, bytes.n);
	return 0;
}

int agent_get_stdin(const struct frame *frame, uint32_t *ret_tag, struct str *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	struct str bytes = frame_rest(&r);

	if (agent_check(frame, AGENT_STDIN, AGENT_STDIN_FLAGS, true) < 0 ||
	    frame_reader_end(&r) < 0 || bytes.n == 0)
		return -EPROTO;
	*ret_tag = tag;
	*ret = bytes;
	return 0;
}

static int put_tag(struct buf *out, enum agent_type type, uint32_t process_id, uint32_t tag)
{
	char *p;
	int r = frame_put(out, (uint8_t)type, 0, process_id, 4, &p);

	if (r < 0)
		return r;
	frame_store32(p, tag);
	return 0;
}

int agent_put_close_stdin(struct buf *out, uint32_t process_id, uint32_t tag)
{
	return process_id ? put_tag(out, AGENT_CLOSE_STDIN, process_id, tag) : -EINVAL;
}

int agent_put_forget(struct buf *out, uint32_t process_id, uint32_t tag)
{
	return process_id ? put_tag(out, AGENT_FORGET, process_id, tag) : -EINVAL;
}

int agent_put_list(struct buf *out, uint32_t process_id, uint32_t tag)
{
	return tag ? put_tag(out, AGENT_LIST, process_id, tag) : -EINVAL;
}

int agent_put_orphans(struct buf *out, uint32_t tag)
{
	return tag ? put_tag(out, AGENT_ORPHANS, 0, tag) : -EINVAL;
}

int agent_put_kill_all(struct buf *out, uint32_t tag)
{
	return put_tag(out, AGENT_KILL_ALL, 0, tag);
}

int agent_get_tag(const struct frame *frame, uint32_t *ret_tag)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	bool ok;

	if (frame->type == AGENT_LIST) /* always has an answer */
		ok = tag != 0;
	else if (frame->type == AGENT_CLOSE_STDIN || frame->type == AGENT_FORGET)
		ok = frame->process_id != 0;
	else if (frame->type == AGENT_ORPHANS)
		ok = frame->process_id == 0 && tag != 0;
	else
		ok = frame->type == AGENT_KILL_ALL && frame->process_id == 0;
	if (!ok || frame->flags || frame_reader_end(&r) < 0)
		return -EPROTO;
	*ret_tag = tag;
	return 0;
}

static int put_signal(struct buf *out, enum agent_type type, uint8_t flags, uint32_t id,
		      uint32_t tag, int signum)
{
	char *p;
	int r;

	if (id == 0 || signum < 1 || signum > AGENT_SIGNAL_MAX)
		return -EINVAL;
	r = frame_put(out, (uint8_t)type, flags, id, 8, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	frame_store32(p + 4, (uint32_t)signum);
	return 0;
}

static int get_signal(const struct frame *frame, uint32_t *ret_tag, int *ret_signum)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	uint32_t signum = frame_u32(&r);

	if (frame_reader_end(&r) < 0 || signum < 1 || signum > AGENT_SIGNAL_MAX)
		return -EPROTO;
	*ret_tag = tag;
	*ret_signum = (int)signum;
	return 0;
}

int agent_put_kill(struct buf *out, uint32_t process_id, uint32_t tag, int signum)
{
	return put_signal(out, AGENT_KILL, 0, process_id, tag, signum);
}

int agent_get_kill(const struct frame *frame, uint32_t *ret_tag, int *ret_signum)
{
	if (agent_check(frame, AGENT_KILL, 0, true) < 0)
		return -EPROTO;
	return get_signal(frame, ret_tag, ret_signum);
}

int agent_put_kill_pid(struct buf *out, uint32_t pid, uint32_t tag, int signum, uint8_t flags)
{
	if (pid > INT32_MAX || (flags & ~AGENT_KILL_PID_FLAGS))
		return -EINVAL;
	return put_signal(out, AGENT_KILL_PID, flags, pid, tag, signum);
}

int agent_get_kill_pid(const struct frame *frame, uint32_t *ret_tag, int *ret_signum)
{
	if (agent_check(frame, AGENT_KILL_PID, AGENT_KILL_PID_FLAGS, true) < 0 ||
	    frame->process_id > INT32_MAX)
		return -EPROTO;
	return get_signal(frame, ret_tag, ret_signum);
}

static bool follow_ok(const struct agent_follow *f)
{
	bool of_run = f->flags & AGENT_FOLLOW_RUN;

	return f->process_id && f->follow_id && f->credit <= AGENT_CREDIT_MAX &&
	       !(f->flags & ~AGENT_FOLLOW_FLAGS) &&
	       (f->flags & (AGENT_FOLLOW_OUT | AGENT_FOLLOW_ERR) ||
		f->flags == AGENT_FOLLOW_LIVE) &&
	       of_run == (f->run != 0);
}

int agent_put_follow(struct buf *out, const struct agent_follow *f)
{
	char *p;
	int r;

	if (!follow_ok(f))
		return -EINVAL;
	r = frame_put(out, AGENT_FOLLOW, f->flags, f->process_id, 28, &p);
	if (r < 0)
		return r;
	frame_store32(p, f->follow_id);
	frame_store32(p + 4, f->credit);
	frame_store32(p + 8, f->run);
	frame_store64(p + 12, f->out_cursor);
	frame_store64(p + 20, f->err_cursor);
	return 0;
}

int agent_get_follow(const struct frame *frame, struct agent_follow *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_follow f = { .process_id = frame->process_id, .flags = frame->flags };

	f.follow_id = frame_u32(&r);
	f.credit = frame_u32(&r);
	f.run = frame_u32(&r);
	f.out_cursor = frame_u64(&r);
	f.err_cursor = frame_u64(&r);
	if (agent_check(frame, AGENT_FOLLOW, AGENT_FOLLOW_FLAGS, true) < 0 ||
	    frame_reader_end(&r) < 0 || !follow_ok(&f))
		return -EPROTO;
	*ret = f;
	return 0;
}

int agent_put_resize(struct buf *out, uint32_t process_id, uint32_t tag, uint16_t cols,
		     uint16_t rows)
{
	char *p;
	int r;

	if (process_id == 0 || !agent_tty_ok(true, cols, rows))
		return -EINVAL;
	r = frame_put(out, AGENT_RESIZE, 0, process_id, 8, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	frame_store16(p + 4, cols);
	frame_store16(p + 6, rows);
	return 0;
}

int agent_get_resize(const struct frame *frame, uint32_t *ret_tag, uint16_t *ret_cols,
		     uint16_t *ret_rows)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	uint16_t cols = frame_u16(&r);
	uint16_t rows = frame_u16(&r);

	if (agent_check(frame, AGENT_RESIZE, 0, true) < 0 || frame_reader_end(&r) < 0 ||
	    !agent_tty_ok(true, cols, rows))
		return -EPROTO;
	*ret_tag = tag;
	*ret_cols = cols;
	*ret_rows = rows;
	return 0;
}

int agent_put_credit(struct buf *out, uint32_t follow_id, uint32_t bytes)
{
	char *p;
	int r;

	if (follow_id == 0 || bytes == 0 || bytes > AGENT_CREDIT_MAX)
		return -EINVAL;
	r = frame_put(out, AGENT_CREDIT, 0, 0, 8, &p);
	if (r < 0)
		return r;
	frame_store32(p, follow_id);
	frame_store32(p + 4, bytes);
	return 0;
}

int agent_get_credit(const struct frame *frame, uint32_t *ret_follow_id, uint32_t *ret_bytes)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t follow_id = frame_u32(&r);
	uint32_t bytes = frame_u32(&r);

	if (agent_check(frame, AGENT_CREDIT, 0, false) < 0 || frame_reader_end(&r) < 0 ||
	    follow_id == 0 || bytes == 0 || bytes > AGENT_CREDIT_MAX)
		return -EPROTO;
	*ret_follow_id = follow_id;
	*ret_bytes = bytes;
	return 0;
}

int agent_put_unfollow(struct buf *out, uint32_t follow_id)
{
	char *p;
	int r;

	if (follow_id == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_UNFOLLOW, 0, 0, 4, &p);
	if (r < 0)
		return r;
	frame_store32(p, follow_id);
	return 0;
}

int agent_get_unfollow(const struct frame *frame, uint32_t *ret_follow_id)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t follow_id = frame_u32(&r);

	if (agent_check(frame, AGENT_UNFOLLOW, 0, false) < 0 || frame_reader_end(&r) < 0 ||
	    follow_id == 0)
		return -EPROTO;
	*ret_follow_id = follow_id;
	return 0;
}

int agent_put_stop(struct buf *out, uint32_t process_id, uint32_t tag, uint8_t flags,
		   uint32_t grace_ms)
{
	char *p;
	int r;

	if (process_id == 0 || (flags & ~AGENT_STOP_FLAGS) || grace_ms > AGENT_GRACE_MAX_MS)
		return -EINVAL;
	r = frame_put(out, AGENT_STOP, flags, process_id, 8, &p);
	if (r < 0)
		return r;
	frame_store32(p, tag);
	frame_store32(p + 4, grace_ms);
	return 0;
}

int agent_get_stop(const struct frame *frame, uint32_t *ret_tag, uint32_t *ret_grace_ms)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t tag = frame_u32(&r);
	uint32_t grace_ms = frame_u32(&r);

	if (agent_check(frame, AGENT_STOP, AGENT_STOP_FLAGS, true) < 0 ||
	    frame_reader_end(&r) < 0 || grace_ms > AGENT_GRACE_MAX_MS)
		return -EPROTO;
	*ret_tag = tag;
	*ret_grace_ms = grace_ms;
	return 0;
}

int agent_put_detach(struct buf *out, uint32_t process_id)
{
	char *p;

	return process_id ? frame_put(out, AGENT_DETACH, 0, process_id, 0, &p) : -EINVAL;
}

int agent_get_detach(const struct frame *frame)
{
	if (agent_check(frame, AGENT_DETACH, 0, true) < 0 || frame->payload.n)
		return -EPROTO;
	return 0;
}

void agent_pack_empty(char dst[FRAME_HEADER_SIZE], enum agent_type type)
{
	frame_store_header(dst, 0, (uint8_t)type, 0, 0);
}

int agent_get_empty(const struct frame *frame)
{
	if (agent_check(frame, frame->type, 0, false) < 0 || frame->payload.n)
		return -EPROTO;
	return frame->type == AGENT_LET_GO || frame->type == AGENT_TAKE_BACK ? 0 : -EPROTO;
}
