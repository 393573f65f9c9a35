/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large payloads are received directly into the message and unmasked there, eight bytes at a time:
 * one copy and few system calls for a large upload. Heads and small frames pass through a small
 * buffer.
 */
#include "http/websocket/frame.h"

#include <errno.h>

#include "http/websocket/code.h"

#define FIN 0x80
#define RESERVED 0x70
#define OPCODE 0x0f
#define MASKED 0x80
#define LENGTH 0x7f
#define DIRECT_MAX ((size_t)256 << 10) /* per call of the source */

int websocket_reader_init(struct websocket_reader *reader, bool masked, size_t limit_bytes,
			  websocket_source_fn source, void *arg)
{
	*reader = (struct websocket_reader){ .masked = masked, .source = source, .arg = arg };
	reader->ahead = malloc(WEBSOCKET_AHEAD_BYTES);
	buf_init(&reader->message, limit_bytes);
	return reader->ahead ? 0 : -ENOMEM;
}

void websocket_reader_done(struct websocket_reader *reader)
{
	free(TAKE_PTR(reader->ahead));
	buf_done(&reader->message);
}

static bool is_control(unsigned int opcode)
{
	return opcode >= WEBSOCKET_CLOSE;
}

static bool opcode_is_known(unsigned int opcode)
{
	return opcode <= WEBSOCKET_BINARY ||
	       (opcode >= WEBSOCKET_CLOSE && opcode <= WEBSOCKET_PONG);
}

/* Reads more bytes into ahead; false if none are available now. */
static bool read_ahead(struct websocket_reader *reader)
{
	size_t have = reader->ahead_end - reader->ahead_begin;
	size_t got;

	memmove(reader->ahead, reader->ahead + reader->ahead_begin, have);
	got = reader->source(reader->arg, reader->ahead + have, WEBSOCKET_AHEAD_BYTES - have);
	reader->ahead_begin = 0;
	reader->ahead_end = have + got;
	return got > 0;
}

/* ---- heads ---- */

static uint64_t big_endian(const unsigned char *p, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value = value << 8 | p[i];
	return value;
}

/* 0, or the code to close with. */
static int begin_frame(struct websocket_reader *reader)
{
	struct buf *message = &reader->message;

	reader->control_frame = is_control(reader->opcode);
	if (reader->control_frame) {
		reader->control_len = 0;
		return reader->frame_left > WEBSOCKET_CONTROL_MAX || !reader->fin
			       ? WEBSOCKET_PROTOCOL_ERROR
			       : 0;
	}
	if ((reader->opcode == WEBSOCKET_CONTINUATION) != reader->in_message)
		return WEBSOCKET_PROTOCOL_ERROR;
	if (!reader->in_message)
		reader->is_text = reader->opcode == WEBSOCKET_TEXT;
	reader->in_message = true;
	if (reader->frame_left > message->limit_bytes - buf_len(message))
		return WEBSOCKET_TOO_BIG;
	return 0;
}

/* Rejected before the rest has arrived, because what follows could not be parsed. */
static bool is_head_wrong(const struct websocket_reader *reader, const unsigned char *p)
{
	return (p[0] & RESERVED) || ((p[1] & MASKED) != 0) != reader->masked ||
	       !opcode_is_known(p[0] & OPCODE) ||
	       (is_control(p[0] & OPCODE) && (p[1] & LENGTH) > WEBSOCKET_CONTROL_MAX);
}

/*
 * Parses a head in p, of which n bytes have arrived: returns its length, 0 if more are needed, or
 * -1 if it is invalid.
 */
static int parse_head(struct websocket_reader *reader, const unsigned char *p, size_t n)
{
	size_t wide, length, at = 2;

	if (n < 2)
		return 0;
	if (is_head_wrong(reader, p))
		return -1;
	length = p[1] & LENGTH;
	wide = length < 126 ? 0 : length == 126 ? 2 : 8;
	if (n < at + wide + (reader->masked ? 4 : 0))
		return 0;
	reader->frame_left = wide ? big_endian(p + at, wide) : length;
	if ((wide == 2 && reader->frame_left < 126) ||
	    (wide == 8 && (reader->frame_left <= UINT16_MAX || reader->frame_left >> 63)))
		return -1; /* longer than necessary, or than allowed */
	at += wide;
	reader->opcode = p[0] & OPCODE;
	reader->fin = p[0] & FIN;
	reader->mask_at = 0;
	if (reader->masked)
		memcpy(reader->mask, p + at, sizeof(reader->mask));
	return (int)(at + (reader->masked ? sizeof(reader->mask) : 0));
}

/* 0: a frame has begun, 1: more bytes are needed, otherwise the code to close with. */
static int read_head(struct websocket_reader *reader)
{
	int n;

	for (;;) {
		n = parse_head(reader, (unsigned char *)reader->ahead + reader->ahead_begin,
			       reader->ahead_end - reader->ahead_begin);
		if (n != 0)
			break;
		if (!read_ahead(reader))
			return 1;
	}
	if (n < 0)
		return WEBSOCKET_PROTOCOL_ERROR;
	reader->ahead_begin += (size_t)n;
	return begin_frame(reader);
}

/* ---- payloads ---- */

void websocket_mask(char *dst, struct str bytes, const unsigned char mask[4], size_t at)
{
	unsigned char turned[8];
	uint64_t wide, word;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(turned); k++)
		turned[k] = mask[(at + k) % 4];
	memcpy(&wide, turned, sizeof(wide));
	for (; i + sizeof(word) <= bytes.n; i += sizeof(word)) {
		memcpy(&word, bytes.p + i, sizeof(word));
		word ^= wide;
		memcpy(dst + i, &word, sizeof(word));
	}
	for (; i < bytes.n; i++)
		dst[i] = (char)((unsigned char)bytes.p[i] ^ turned[i % sizeof(turned)]);
}

static void took(struct websocket_reader *reader, char *p, size_t n)
{
	if (reader->masked)
		websocket_mask(p, (struct str){ p, n }, reader->mask, reader->mask_at);
	reader->mask_at = (reader->mask_at + n) % sizeof(reader->mask);
	reader->frame_left -= n;
}

/* Returns where n bytes of the frame go: the end of its message or control frame. */
static char *place(struct websocket_reader *reader, size_t n)
{
	char *dst = reader->control + reader->control_len;

	if (!reader->control_frame && buf_reserve(&reader->message, n, &dst) < 0)
		return NULL;
	return dst;
}

static void placed(struct websocket_reader *reader, char *dst, size_t n)
{
	took(reader, dst, n);
	if (reader->control_frame)
		reader->control_len += n;
	else
		buf_commit(&reader->message, n);
}

/* 0: the frame is complete, 1: more bytes are needed, otherwise the code to close with. */
static int read_payload(struct websocket_reader *reader)
{
	while (reader->frame_left > 0) {
		size_t have = reader->ahead_end - reader->ahead_begin;
		size_t n = (size_t)MIN(reader->frame_left, (uint64_t)DIRECT_MAX);
		char *dst;

		if (have == 0 && n < WEBSOCKET_AHEAD_BYTES && !read_ahead(reader))
			return 1;
		have = reader->ahead_end - reader->ahead_begin;
		if (have)
			n = MIN(n, have);
		dst = place(reader, n);
		if (!dst)
			return WEBSOCKET_INTERNAL;
		if (have) {
			memcpy(dst, reader->ahead + reader->ahead_begin, n);
			reader->ahead_begin += n;
		} else {
			n = reader->source(reader->arg, dst, n);
			if (n == 0)
				return 1;
		}
		placed(reader, dst, n);
	}
	return 0;
}

static bool websocket_code_is_sendable(int code)
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

static enum websocket_event end_frame(struct websocket_reader *reader, struct websocket_got *ret)
{
	if (reader->control_frame) {
		ret->bytes = (struct str){ reader->control, reader->control_len };
		if (reader->opcode == WEBSOCKET_CLOSE)
			return end_close(reader, ret);
		return reader->opcode == WEBSOCKET_PING ? WEBSOCKET_GOT_PING : WEBSOCKET_GOT_PONG;
	}
	if (!reader->fin)
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
		int code = reader->in_frame ? 0 : read_head(reader);

		if (code == 0) {
			reader->in_frame = true;
			code = read_payload(reader);
		}
		if (code == 1)
			break;
		if (code)
			return bad(reader, code, ret);
		reader->in_frame = false;
		event = end_frame(reader, ret);
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
