/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from agent to daemon. LISTED is in agent_list.c. */
#include "wire/agent_codec.h"

/* Bits of the flags in the frame's header. */
enum { EXIT_SAVED_ALL = 1, WINDOW_MADE = 1, WINDOW_CANCELLED = 2 };

/* Another version may have other features: it is decoded, so that an error message can name it. */
static bool hello_ok(const struct agent_hello *hello)
{
	return hello->next_process_id && (hello->version != AGENT_PROTOCOL_VERSION ||
					  !(hello->features & ~(uint32_t)AGENT_FEATURES));
}

int agent_put_hello(struct buf *out, const struct agent_hello *hello)
{
	char *p;
	int r;

	if (!hello_ok(hello))
		return -EINVAL;
	r = frame_put(out, AGENT_HELLO, 0, 0, 16, &p);
	if (r < 0)
		return r;
	frame_store16(p, hello->version);
	frame_store16(p + 2, 0);
	frame_store32(p + 4, hello->features);
	frame_store32(p + 8, hello->next_process_id);
	frame_store32(p + 12, hello->process_count);
	return 0;
}

int agent_get_hello(const struct frame *frame, struct agent_hello *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_hello hello = { .version = frame_u16(&r) };
	uint16_t zero = frame_u16(&r);

	hello.features = frame_u32(&r);
	hello.next_process_id = frame_u32(&r);
	hello.process_count = frame_u32(&r);
	if (agent_check(frame, AGENT_HELLO, 0, false) < 0 || frame_reader_end(&r) < 0 || zero ||
	    !hello_ok(&hello))
		return -EPROTO;
	*ret = hello;
	return 0;
}

int agent_get_boot_failed(const struct frame *frame, struct agent_boot_failed *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_boot_failed failed = { .step = frame_u32(&r) };
	struct str name;
	size_t n;

	failed.errno_value = frame_u32(&r);
	name = frame_bytes(&r, AGENT_STEP_NAME_SIZE);
	if (agent_check(frame, AGENT_BOOT_FAILED, 0, false) < 0 || frame_reader_end(&r) < 0)
		return -EPROTO;
	n = strnlen(name.p, name.n);
	if (n == AGENT_STEP_NAME_SIZE || failed.errno_value > AGENT_ERRNO_MAX)
		return -EPROTO;
	for (size_t i = 0; i < AGENT_STEP_NAME_SIZE; i++) {
		char c = name.p[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' ||
			  c == '_' || c == '-';

		if (i < n ? !ok : c != '\0')
			return -EPROTO;
	}
	memcpy(failed.name, name.p, AGENT_STEP_NAME_SIZE);
	*ret = failed;
	return 0;
}

int agent_put_started(struct buf *out, uint32_t process_id, uint32_t pid)
{
	char *p;
	int r;

	if (process_id == 0 || pid == 0 || pid > INT32_MAX)
		return -EINVAL;
	r = frame_put(out, AGENT_STARTED, 0, process_id, 4, &p);
	if (r < 0)
		return r;
	frame_store32(p, pid);
	return 0;
}

int agent_get_started(const struct frame *frame, uint32_t *ret_pid)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	uint32_t pid = frame_u32(&r);

	if (agent_check(frame, AGENT_STARTED, 0, true) < 0 || frame_reader_end(&r) < 0 ||
	    pid == 0 || pid > INT32_MAX)
		return -EPROTO;
	*ret_pid = pid;
	return 0;
}

static bool output_ok(const struct agent_output *output)
{
	return output->process_id && output->bytes.n && output->bytes.n <= AGENT_OUTPUT_BYTES_MAX &&
	       output->cursor <= UINT64_MAX - output->bytes.n &&
	       (output->stream == AGENT_STREAM_OUT || output->stream == AGENT_STREAM_ERR);
}

void agent_pack_output(char dst[FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE],
		       const struct agent_output *output)
{
	frame_store_header(dst, AGENT_OUTPUT_HEADER_SIZE + output->bytes.n, AGENT_OUTPUT, 0,
			   output->process_id);
	frame_store32(dst + FRAME_HEADER_SIZE, output->follow_id);
	frame_store32(dst + FRAME_HEADER_SIZE + 4, (uint32_t)output->stream);
	frame_store64(dst + FRAME_HEADER_SIZE + 8, output->cursor);
}

int agent_put_output(struct buf *out, const struct agent_output *output)
{
	size_t size = FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE + output->bytes.n;
	char *p;
	int r;

	if (!output_ok(output))
		return -EINVAL;
	r = buf_reserve(out, size, &p);
	if (r < 0)
		return r;
	agent_pack_output(p, output);
	memcpy(p + FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE, output->bytes.p, output->bytes.n);
	buf_commit(out, size);
	return 0;
}

int agent_get_output(const struct frame *frame, struct agent_output *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_output output = { .process_id = frame->process_id };
	uint32_t stream;

	output.follow_id = frame_u32(&r);
	stream = frame_u32(&r);
	output.cursor = frame_u64(&r);
	output.bytes = frame_rest(&r);
	if (agent_check(frame, AGENT_OUTPUT, 0, true) < 0 || frame_reader_end(&r) < 0 || stream > 2)
		return -EPROTO;
	output.stream = (enum agent_stream)stream;
	if (!output_ok(&output))
		return -EPROTO;
	*ret = output;
	return 0;
}

/* Ended by a signal, or reported by a shell as if. */
static bool death_ok(const struct agent_status *s)
{
	if (s->signal == 0)
		return s->exit_code <= 255;
	return s->signal <= AGENT_SIGNAL_MAX && s->exit_code == 128 + s->signal;
}

bool agent_status_ok(const struct agent_status *s)
{
	if (s->duration_us > INT64_MAX || s->oom_kills > AGENT_OOM_KILLS_MAX)
		return false;
	if (s->end != AGENT_END_OOM && (s->memory_limit_bytes || s->memory_peak_bytes))
		return false;
	switch (s->end) {
	case AGENT_END_NONE:
		return s->exit_code == 0 && s->signal == 0 && s->duration_us == 0;
	case AGENT_END_EXIT:
		return s->exit_code <= 255 && s->signal == 0;
	case AGENT_END_SIGNAL:
		return s->signal && death_ok(s);
	case AGENT_END_TIMEOUT:
		return s->exit_code == AGENT_TIMEOUT_EXIT_CODE && s->signal <= AGENT_SIGNAL_MAX;
	case AGENT_END_OOM:
	case AGENT_END_KILLED:
		return death_ok(s);
	}
	return false;
}

void agent_store_status(char *p, const struct agent_status *s)
{
	/* The upper 24 bits count OOM kills; agents of earlier versions left them 0. */
	frame_store32(p, (uint32_t)s->end | s->oom_kills << 8);
	frame_store32(p + 4, s->exit_code);
	frame_store32(p + 8, s->signal);
	frame_store64(p + 12, s->duration_us);
	frame_store64(p + 20, s->out_total);
	frame_store64(p + 28, s->err_total);
	frame_store64(p + 36, s->memory_limit_bytes);
	frame_store64(p + 44, s->memory_peak_bytes);
}

bool agent_load_status(struct frame_reader *r, struct agent_status *ret)
{
	struct agent_status s = { 0 };
	uint32_t end = frame_u32(r);

	s.exit_code = frame_u32(r);
	s.signal = frame_u32(r);
	s.duration_us = frame_u64(r);
	s.out_total = frame_u64(r);
	s.err_total = frame_u64(r);
	s.memory_limit_bytes = frame_u64(r);
	s.memory_peak_bytes = frame_u64(r);
	s.oom_kills = end >> 8;
	end &= 0xff;
	if (r->failed || end > AGENT_END_LAST)
		return false;
	s.end = (enum agent_end)end;
	if (!agent_status_ok(&s))
		return false;
	*ret = s;
	return true;
}

static bool exit_ok(const struct agent_exit *e)
{
	if (e->process_id == 0 || e->status.end == AGENT_END_NONE || !agent_status_ok(&e->status))
		return false;
	if (e->saved.n == 0)
		return !e->saved_all;
	return e->saved.n <= AGENT_PATH_MAX && e->saved.p[0] == '/' && agent_no_nul(e->saved);
}

int agent_put_exit(struct buf *out, const struct agent_exit *e)
{
	char *p;
	int r;

	if (!exit_ok(e))
		return -EINVAL;
	r = frame_put(out, AGENT_EXIT, e->saved_all ? EXIT_SAVED_ALL : 0, e->process_id,
		      AGENT_STATUS_SIZE + e->saved.n, &p);
	if (r < 0)
		return r;
	agent_store_status(p, &e->status);
	if (e->saved.n)
		memcpy(p + AGENT_STATUS_SIZE, e->saved.p, e->saved.n);
	return 0;
}

int agent_get_exit(const struct frame *frame, struct agent_exit *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_exit e = { .process_id = frame->process_id };

	if (agent_check(frame, AGENT_EXIT, EXIT_SAVED_ALL, true) < 0 ||
	    !agent_load_status(&r, &e.status))
		return -EPROTO;
	e.saved = frame_rest(&r);
	e.saved_all = frame->flags & EXIT_SAVED_ALL;
	if (frame_reader_end(&r) < 0 || !exit_ok(&e))
		return -EPROTO;
	*ret = e;
	return 0;
}

static bool refused_ok(const struct agent_refused *refused)
{
	return refused->process_id && refused->code >= 1 && refused->code <= AGENT_REFUSED_LAST &&
	       refused->errno_value <= AGENT_ERRNO_MAX && refused->message.n <= AGENT_MESSAGE_MAX &&
	       agent_no_nul(refused->message);
}

int agent_put_refused(struct buf *out, const struct agent_refused *refused)
{
	char *p;
	int r;

	if (!refused_ok(refused))
		return -EINVAL;
	r = frame_put(out, AGENT_REFUSED, 0, refused->process_id, 8 + refused->message.n, &p);
	if (r < 0)
		return r;
	frame_store32(p, (uint32_t)refused->code);
	frame_store32(p + 4, refused->errno_value);
	if (refused->message.n)
		memcpy(p + 8, refused->message.p, refused->message.n);
	return 0;
}

int agent_get_refused(const struct frame *frame, struct agent_refused *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_refused refused = { .process_id = frame->process_id };
	uint32_t code = frame_u32(&r);

	refused.errno_value = frame_u32(&r);
	refused.message = frame_rest(&r);
	if (agent_check(frame, AGENT_REFUSED, 0, true) < 0 || frame_reader_end(&r) < 0 ||
	    code > AGENT_REFUSED_LAST)
		return -EPROTO;
	refused.code = (enum agent_refusal)code;
	if (!refused_ok(&refused))
		return -EPROTO;
	*ret = refused;
	return 0;
}

static bool done_ok(const struct agent_done *d)
{
	return d->tag && d->refusal <= AGENT_REFUSED_LAST && d->errno_value <= AGENT_ERRNO_MAX &&
	       (d->refusal || !d->errno_value);
}

int agent_put_done(struct buf *out, const struct agent_done *d)
{
	char *p;
	int r;

	if (!done_ok(d))
		return -EINVAL;
	r = frame_put(out, AGENT_DONE, 0, 0, 12, &p);
	if (r < 0)
		return r;
	frame_store32(p, d->tag);
	frame_store32(p + 4, d->refusal);
	frame_store32(p + 8, d->errno_value);
	return 0;
}

int agent_get_done(const struct frame *frame, struct agent_done *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_done d = { .tag = frame_u32(&r) };

	d.refusal = frame_u32(&r);
	d.errno_value = frame_u32(&r);
	if (agent_check(frame, AGENT_DONE, 0, false) < 0 || frame_reader_end(&r) < 0 ||
	    !done_ok(&d))
		return -EPROTO;
	*ret = d;
	return 0;
}

static bool followed_ok(const struct agent_followed *f)
{
	return f->process_id && f->follow_id && f->refusal <= AGENT_REFUSED_LAST &&
	       agent_status_ok(&f->status) && (!f->refusal || f->status.end == AGENT_END_NONE);
}

int agent_put_followed(struct buf *out, const struct agent_followed *f)
{
	char *p;
	int r;

	if (!followed_ok(f))
		return -EINVAL;
	r = frame_put(out, AGENT_FOLLOWED, 0, f->process_id, 8 + AGENT_STATUS_SIZE, &p);
	if (r < 0)
		return r;
	frame_store32(p, f->follow_id);
	frame_store32(p + 4, f->refusal);
	agent_store_status(p + 8, &f->status);
	return 0;
}

int agent_get_followed(const struct frame *frame, struct agent_followed *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_followed f = { .process_id = frame->process_id };

	f.follow_id = frame_u32(&r);
	f.refusal = frame_u32(&r);
	if (agent_check(frame, AGENT_FOLLOWED, 0, true) < 0 || !agent_load_status(&r, &f.status) ||
	    frame_reader_end(&r) < 0 || !followed_ok(&f))
		return -EPROTO;
	*ret = f;
	return 0;
}

int agent_put_window(struct buf *out, const struct agent_window *w)
{
	uint8_t flags =
		(uint8_t)((w->made ? WINDOW_MADE : 0) | (w->cancelled ? WINDOW_CANCELLED : 0));
	char *p;
	int r;

	if (w->process_id == 0 || w->tag == 0 || w->run == 0)
		return -EINVAL;
	r = frame_put(out, AGENT_WINDOW, flags, w->process_id, 16, &p);
	if (r < 0)
		return r;
	frame_store32(p, w->tag);
	frame_store32(p + 4, w->run);
	frame_store64(p + 8, w->cursor);
	return 0;
}

int agent_get_window(const struct frame *frame, struct agent_window *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_window w = { .process_id = frame->process_id };

	w.tag = frame_u32(&r);
	w.run = frame_u32(&r);
	w.cursor = frame_u64(&r);
	w.made = frame->flags & WINDOW_MADE;
	w.cancelled = frame->flags & WINDOW_CANCELLED;
	if (agent_check(frame, AGENT_WINDOW, WINDOW_MADE | WINDOW_CANCELLED, true) < 0 ||
	    frame_reader_end(&r) < 0 || w.tag == 0 || w.run == 0)
		return -EPROTO;
	*ret = w;
	return 0;
}
