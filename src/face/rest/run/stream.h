/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a process as a long reply: server-sent events, or raw bytes. */
#ifndef CAY_FACE_REST_RUN_STREAM_H
#define CAY_FACE_REST_RUN_STREAM_H

#include "face/rest/call.h"
#include "service/run/process.h"

#define STREAM_CREDIT (128 * 1024)	/* bytes in flight to one reader of events */
#define STREAM_RAW_CREDIT (1024 * 1024) /* to a reader of raw bytes, for throughput */
#define STREAM_HEARTBEAT_MS 15000
#define STREAM_PATIENCE_MS (5 * 60 * 1000) /* a person may read it through a pager */

/*
 * Bytes of output as text. Complete UTF-8 sequences are sent at once; of an incomplete one, at most
 * three bytes are held until the rest arrives.
 */
size_t text_whole(struct str s);  /* how many bytes precede an incomplete sequence */
bool text_is_plain(struct str s); /* UTF-8, and not mostly escapes in JSON */
/* As key, or as key_b64 if it is not plain. */
void text_put(struct json_writer *w, const char *key, const char *key_b64, struct str s);

/* "N" or "N:M": positions in stdout and stderr. */
int cursor_parse(struct str text, const char *what, uint64_t ret[2], struct err *err) _must_check_;

/* Owner: rest->streams, from stream_new() until it ends or the client disconnects. */
struct stream;

struct stream *stream_new(struct rest_call *call, bool raw, struct err *err);
/* Before anything was sent: sends an error and frees it. */
void stream_refuse(struct stream *stream, const struct err *err);
/* Sets the first positions. */
void stream_set_cursors(struct stream *stream, uint64_t out, uint64_t err);
/* Sends the head; for raw streams with the cursor of the first byte. */
void stream_begin(struct stream *stream);
void stream_tell_started(struct stream *stream, uint32_t process_id, uint32_t pid);
void stream_set_follow(struct stream *stream, slot_handle follow);
bool stream_is_gone(const struct stream *stream);
void stream_drop(struct stream *stream, slot_handle follow); /* frees it, and closes the follow */
void stream_free(struct stream *stream);
extern const struct follow_hooks stream_hooks; /* with the struct stream as arg */

void streams_done(struct rest *rest);
void terminals_done(struct rest *rest);

#endif
