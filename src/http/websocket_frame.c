/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwslay's event interface would do the messages too, but it keeps a list cell for every fragment
 * (a megabyte sent byte by byte costs a hundred), and it cannot stop between two messages. So only
 * its frame interface is used.
 */
#include "http/websocket_frame.h"

#include <errno.h>
#include <wslay/wslay.h>

#include "http/websocket_code.h"

static ssize_t on_recv(uint8_t *dst, size_t n, int flags, void *arg)
{
	struct websocket_reader *reader = arg;
	size_t got = reader->source(reader->arg, dst, n);

	(void)flags;
	return got ? (ssize_t)got : -1;
}

int websocket_reader_init(struct websocket_reader *reader, bool masked, size_t limit_bytes,
			  websocket_source_fn source, void *arg)
{
	const struct wslay_frame_callbacks callbacks = { .recv_callback = on_recv };

	*reader = (struct websocket_reader){ .masked = masked, .source = source, .arg = arg };
	buf_init(&reader->message, limit_bytes);
	return wslay_frame_context_init(&reader->frames, &callbacks, reader) == 0 ? 0 : -ENOMEM;
}

void websocket_reader_done(struct websocket_reader *reader)
{
	if (reader->frames)
		wslay_frame_context_free(reader->frames);
	reader->frames = NULL;
	buf_done(&reader->message);
}

static bool opcode_is_known(unsigned int opcode)
{
	return opcode <= WEBSOCKET_BINARY ||
	       (opcode >= WEBSOCKET_CLOSE && opcode <= WEBSOCKET_PONG);
}

/* 0, or the code to close with. */
static int begin_frame(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
	struct buf *message = &reader->message;

	if (frame->rsv || frame->mask != reader->masked || !opcode_is_known(frame->opcode))
		return WEBSOCKET_PROTOCOL_ERROR;
	reader->frame_left = frame->payload_length;
	reader->control_frame = wslay_is_ctrl_frame(frame->opcode);
	if (reader->control_frame) {
		reader->control_len = 0;
		return frame->payload_length > WEBSOCKET_CONTROL_MAX ? WEBSOCKET_PROTOCOL_ERROR : 0;
	}
	if ((frame->opcode == WEBSOCKET_CONTINUATION) != reader->in_message)
		return WEBSOCKET_PROTOCOL_ERROR;
	if (!reader->in_message)
		reader->is_text = frame->opcode == WEBSOCKET_TEXT;
	reader->in_message = true;
	if (frame->payload_length > message->limit_bytes - buf_len(message))
		return WEBSOCKET_TOO_BIG;
	return 0;
}

static int take_payload(struct websocket_reader *reader, const struct wslay_frame_iocb *frame)
{
	reader->frame_left -= frame->data_length;
	if (frame->data_length == 0)
		return 0;
	if (reader->control_frame) {
		memcpy(reader->control + reader->control_len, frame->data, frame->data_length);
		reader->control_len += frame->data_length;
		return 0;
	}
	return buf_append(&reader->message, frame->data, frame->data_length) < 0
		       ? WEBSOCKET_INTERNAL
		       : 0;
}

bool websocket_code_is_sendable(int code)
{
	return (code >= 1000 && code <= 1014 && code != 1004 && code != WEBSOCKET_NO_CODE &&
		code != WEBSOCKET_ABNORMAL) ||
	       (code >= 3000 && code <= 4999);
}

static enum websocket_event bad(struct websocket_reader *reader, int code,
				struct websocket_got *ret)
{
	reader->bad = true;
	ret->code = code;
	return WEBSOCKET_GOT_BAD;
}

static enum websocket_event end_close(struct websocket_reader *reader, struct websocket_got *ret)
{
	const unsigned char *p = (const unsigned char *)reader->control;

	ret->code = WEBSOCKET_NO_CODE;
	if (reader->control_len == 0)
		return WEBSOCKET_GOT_CLOSE;
	if (reader->control_len == 1)
		return bad(reader, WEBSOCKET_PROTOCOL_ERROR, ret);
	ret->code = p[0] << 8 | p[1];
	ret->bytes = (struct str){ reader->control + 2, reader->control_len - 2 };
	if (!websocket_code_is_sendable(ret->code))
		return bad(reader, WEBSOCKET_PROTOCOL_ERROR, ret);
	if (!str_is_utf8(ret->bytes.p, ret->bytes.n))
		return bad(reader, WEBSOCKET_BAD_TEXT, ret);
	return WEBSOCKET_GOT_CLOSE;
}

static enum websocket_event end_frame(struct websocket_reader *reader,
				      const struct wslay_frame_iocb *frame,
				      struct websocket_got *ret)
{
	if (reader->control_frame) {
		ret->bytes = (struct str){ reader->control, reader->control_len };
		if (frame->opcode == WEBSOCKET_CLOSE)
			return end_close(reader, ret);
		return frame->opcode == WEBSOCKET_PING ? WEBSOCKET_GOT_PING : WEBSOCKET_GOT_PONG;
	}
	if (!frame->fin)
		return WEBSOCKET_GOT_NOTHING;
	ret->bytes = buf_str(&reader->message);
	ret->is_text = reader->is_text;
	if (ret->is_text && !str_is_utf8(ret->bytes.p, ret->bytes.n))
		return bad(reader, WEBSOCKET_BAD_TEXT, ret);
	reader->in_message = false;
	reader->finished = true;
	return WEBSOCKET_GOT_MESSAGE;
}

enum websocket_event websocket_reader_next(struct websocket_reader *reader,
					   struct websocket_got *ret)
{
	enum websocket_event event = WEBSOCKET_GOT_NOTHING;

	*ret = (struct websocket_got){ .bytes = { "", 0 } };
	if (reader->bad)
		return WEBSOCKET_GOT_NOTHING;
	if (reader->finished) {
		buf_clear(&reader->message);
		reader->finished = false;
	}
	while (event == WEBSOCKET_GOT_NOTHING) {
		struct wslay_frame_iocb frame = { 0 };
		ssize_t n = wslay_frame_recv(reader->frames, &frame);
		int code = 0;

		if (n == WSLAY_ERR_WANT_READ)
			break;
		if (n < 0)
			return bad(reader, WEBSOCKET_PROTOCOL_ERROR, ret);
		if (!reader->in_frame)
			code = begin_frame(reader, &frame);
		if (code == 0)
			code = take_payload(reader, &frame);
		if (code)
			return bad(reader, code, ret);
		reader->in_frame = reader->frame_left > 0;
		if (!reader->in_frame)
			event = end_frame(reader, &frame, ret);
	}
	return event;
}

size_t websocket_put_head(unsigned char dst[WEBSOCKET_HEAD_MAX], enum websocket_opcode opcode,
			  uint64_t length, const unsigned char mask[4])
{
	size_t wide = length < 126 ? 0 : length <= UINT16_MAX ? 2 : 8;
	size_t n = 2;

	dst[0] = (unsigned char)(0x80 | opcode);
	dst[1] = (unsigned char)(wide == 0 ? length : wide == 2 ? 126 : 127);
	for (size_t i = 0; i < wide; i++)
		dst[n++] = (unsigned char)(length >> (8 * (wide - 1 - i)));
	if (mask) {
		dst[1] |= 0x80;
		memcpy(dst + n, mask, 4);
		n += 4;
	}
	return n;
}

size_t websocket_put_close(char dst[WEBSOCKET_CONTROL_MAX], int code, struct str reason)
{
	size_t n = MIN(reason.n, (size_t)WEBSOCKET_CONTROL_MAX - 2);

	if (!websocket_code_is_sendable(code))
		return 0;
	while (n > 0 && !str_is_utf8(reason.p, n))
		n--;
	dst[0] = (char)(code >> 8);
	dst[1] = (char)(code & 255);
	if (n)
		memcpy(dst + 2, reason.p, n);
	return n + 2;
}
