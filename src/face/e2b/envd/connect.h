/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the Connect protocol in JSON: envelopes of a flag byte, a length in four bytes
 * (big-endian) and a message. The last one has a special flag and says how the stream ended.
 */
#ifndef CAY_FACE_E2B_ENVD_CONNECT_H
#define CAY_FACE_E2B_ENVD_CONNECT_H

#include "face/e2b/call.h"

#define ENVELOPE_HEAD 5
#define ENVELOPE_MESSAGE 0
#define ENVELOPE_COMPRESSED 1
#define ENVELOPE_END 2

/*
 * The first envelope of bytes. 1: *ret_message is complete and *ret_used includes its head; 0: more
 * is needed; -EINVAL: compressed, or an unknown flag; -EFBIG: longer than limit.
 */
int envelope_next(struct str bytes, size_t limit, struct str *ret_message, size_t *ret_used,
		  bool *ret_end) _must_check_;
/* Reserves a head; the message is written after it. */
int envelope_begin(struct buf *out) _must_check_;
/* Everything after the head, at the end of out, is its message. */
void envelope_close(struct buf *out, size_t begin);
/* The last one; code NULL: success. */
int envelope_end(struct buf *out, const char *code, const char *message) _must_check_;

void process_start_call(struct e2b_call *call);
void process_connect_call(struct e2b_call *call);
void process_list_call(struct e2b_call *call);
void process_input_call(struct e2b_call *call);
void process_stream_input_call(struct e2b_call *call);
void process_close_call(struct e2b_call *call);
void process_signal_call(struct e2b_call *call);
void process_update_call(struct e2b_call *call);
void filesystem_stat(struct e2b_call *call);
void filesystem_make_dir(struct e2b_call *call);
void filesystem_move(struct e2b_call *call);
void filesystem_list(struct e2b_call *call);
void filesystem_remove(struct e2b_call *call);
void watch_dir(struct e2b_call *call);
void watcher_create(struct e2b_call *call);
void watcher_events(struct e2b_call *call);
void watcher_remove(struct e2b_call *call);

#endif
