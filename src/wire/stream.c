/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream.h"

#include <errno.h>

static bool credit_ok(uint32_t credit)
{
	return credit >= 1 && credit <= STREAM_WINDOW_MAX;
}

static bool frame_ok(const struct stream_frame *f)
{
	bool odd = f->stream & 1;

	if (f->stream == 0 || f->stream > STREAM_NUMBER_MAX ||
	    (f->port && f->type != STREAM_DIAL) || (f->close && f->type != STREAM_END) ||
	    (f->bytes.n && f->type != STREAM_DATA))
		return false;
	switch (f->type) {
	case STREAM_DIAL:
		return odd && f->port && credit_ok(f->credit) && !f->errno_value;
	case STREAM_OFFER:
		return !odd && credit_ok(f->credit) && !f->errno_value;
	case STREAM_OPENED:
		return f->errno_value ? f->errno_value <= STREAM_ERRNO_MAX && f->credit == 0
				      : credit_ok(f->credit);
	case STREAM_CREDIT:
		return credit_ok(f->credit) && !f->errno_value;
	case STREAM_DATA:
		return f->bytes.n >= 1 && f->bytes.n <= STREAM_DATA_MAX && !f->credit &&
		       !f->errno_value;
	case STREAM_END:
	case STREAM_RESET:
		return !f->credit && !f->errno_value;
	}
	return false;
}

static size_t payload_size(const struct stream_frame *f)
{
	switch (f->type) {
	case STREAM_DIAL:
	case STREAM_OPENED:
		return 8;
	case STREAM_OFFER:
	case STREAM_CREDIT:
		return 4;
	case STREAM_DATA:
		return f->bytes.n;
	case STREAM_END:
	case STREAM_RESET:
		break;
	}
	return 0;
}

int stream_put(struct buf *out, const struct stream_frame *f)
{
	char *p;
	int r;

	if (!frame_ok(f))
		return -EINVAL;
	r = frame_put(out, (uint8_t)f->type, f->close ? STREAM_END_CLOSE : 0, f->stream,
		      payload_size(f), &p);
	if (r < 0)
		return r;
	if (f->type == STREAM_DATA) {
		memcpy(p, f->bytes.p, f->bytes.n);
	} else if (f->type == STREAM_DIAL) {
		frame_store16(p, f->port);
		frame_store16(p + 2, 0);
		frame_store32(p + 4, f->credit);
	} else if (f->type == STREAM_OPENED) {
		frame_store32(p, f->errno_value);
		frame_store32(p + 4, f->credit);
	} else if (payload_size(f)) {
		frame_store32(p, f->credit);
	}
	return 0;
}

void stream_pack_data(char dst[FRAME_HEADER_SIZE], uint32_t stream, size_t bytes)
{
	frame_store_header(dst, bytes, STREAM_DATA, 0, stream);
}

int stream_get(const struct frame *frame, struct stream_frame *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct stream_frame f = { .type = (enum stream_type)frame->type,
				  .stream = frame->process_id };
	uint16_t zero = 0;

	if (!stream_is_frame(frame) ||
	    (frame->flags & ~(f.type == STREAM_END ? STREAM_END_CLOSE : 0)))
		return -EPROTO;
	f.close = frame->flags & STREAM_END_CLOSE;
	if (f.type == STREAM_DIAL) {
		f.port = frame_u16(&r);
		zero = frame_u16(&r);
	} else if (f.type == STREAM_OPENED) {
		f.errno_value = frame_u32(&r);
	} else if (f.type == STREAM_DATA) {
		f.bytes = frame_rest(&r);
	}
	if (f.type <= STREAM_OPENED || f.type == STREAM_CREDIT)
		f.credit = frame_u32(&r);
	if (frame_reader_end(&r) < 0 || zero || !frame_ok(&f))
		return -EPROTO;
	*ret = f;
	return 0;
}

int stream_flow_on_opened(struct stream_flow *flow, uint32_t credit)
{
	if (flow->open)
		return -EPROTO;
	flow->open = true;
	flow->may_send = credit;
	return 0;
}

int stream_flow_on_data(struct stream_flow *flow, size_t bytes)
{
	if (!flow->open || flow->end_came || bytes > flow->may_come)
		return -EPROTO;
	flow->may_come -= (uint32_t)bytes;
	return 0;
}

int stream_flow_on_credit(struct stream_flow *flow, uint32_t credit)
{
	/*
	 * Credit for our last bytes may arrive after our END. That is not a violation, and has no
	 * effect.
	 */
	if (!flow->open || credit > STREAM_WINDOW_MAX - flow->may_send)
		return -EPROTO;
	flow->may_send += credit;
	return 0;
}

int stream_flow_on_end(struct stream_flow *flow)
{
	if (!flow->open || flow->end_came)
		return -EPROTO;
	flow->end_came = true;
	return 0;
}

uint32_t stream_flow_taken(struct stream_flow *flow, size_t bytes, uint32_t window)
{
	uint32_t credit;

	flow->owed += (uint32_t)bytes;
	if (flow->end_came || flow->owed < window / 4)
		return 0;
	credit = flow->owed;
	flow->owed = 0;
	flow->may_come += credit;
	return credit;
}
