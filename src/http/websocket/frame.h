/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/http: WebSocket frames for both sides, without I/O. Parses frames, assembles
 * messages and rejects what RFC 6455 forbids.
 */
#ifndef CAY_HTTP_WEBSOCKET_FRAME_H
#define CAY_HTTP_WEBSOCKET_FRAME_H

#include "base/buf.h"

enum websocket_opcode {
	WEBSOCKET_CONTINUATION = 0,
	WEBSOCKET_TEXT = 1,
	WEBSOCKET_BINARY = 2,
	WEBSOCKET_CLOSE = 8,
	WEBSOCKET_PING = 9,
	WEBSOCKET_PONG = 10,
};

#define WEBSOCKET_CONTROL_MAX 125
#define WEBSOCKET_HEAD_MAX 14
#define WEBSOCKET_AHEAD_BYTES ((size_t)4096)

enum websocket_event {
	WEBSOCKET_GOT_NOTHING, /* more bytes are needed */
	WEBSOCKET_GOT_MESSAGE, /* is_text, bytes */
	WEBSOCKET_GOT_PING,    /* bytes */
	WEBSOCKET_GOT_PONG,
	WEBSOCKET_GOT_CLOSE, /* code (1005 if there was none), bytes: the reason */
	WEBSOCKET_GOT_BAD,   /* code: to close with; nothing more can be read */
};

/* Reads at most n bytes; 0 if none are available now. */
typedef size_t (*websocket_source_fn)(void *arg, void *dst, size_t n);

/* Owner: a connection. */
struct websocket_reader {
	websocket_source_fn source;
	void *arg;
	bool masked;	    /* frames must be masked; otherwise must not be */
	bool in_frame;	    /* some of its payload is missing */
	bool in_message;    /* fragments arrived, but not the last one */
	bool control_frame; /* the current frame is one */
	bool finished;	    /* message holds one that was returned */
	bool is_text;
	bool bad;
	bool fin; /* of the current frame, like the next four */
	unsigned char opcode;
	unsigned char mask[4];
	size_t mask_at; /* index of its next byte */
	uint64_t frame_left;
	char *ahead; /* WEBSOCKET_AHEAD_BYTES: heads, and bytes that arrived with them */
	size_t ahead_begin, ahead_end;
	struct buf message; /* at the limit: 1009 */
	char control[WEBSOCKET_CONTROL_MAX];
	size_t control_len;
};

struct websocket_got {
	bool is_text;
	int code;
	struct str bytes; /* valid until the next call */
};

int websocket_reader_init(struct websocket_reader *reader, bool masked, size_t limit_bytes,
			  websocket_source_fn source, void *arg) _must_check_;
void websocket_reader_done(struct websocket_reader *reader);
enum websocket_event websocket_reader_next(struct websocket_reader *reader,
					   struct websocket_got *ret) _must_check_;

/* Masks bytes into dst, which may be the same, starting at byte at of the frame. */
void websocket_mask(char *dst, struct str bytes, const unsigned char mask[4], size_t at);
/* Writes the head of an unfragmented frame; mask NULL: unmasked. Returns its length. */
size_t websocket_put_head(unsigned char dst[WEBSOCKET_HEAD_MAX], enum websocket_opcode opcode,
			  uint64_t length, const unsigned char mask[4]);
/*
 * Writes the payload of a close; reason is truncated at a character boundary to fit. Returns its
 * length.
 */
size_t websocket_put_close(char dst[WEBSOCKET_CONTROL_MAX], int code, struct str reason);

#endif
