/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: connections carried in frames between cayd and cay-agent, for channels that cannot pass
 * descriptors, and for connections that a sandbox opens to the outside (egress over the link). Both
 * ends use this codec and these rules. It works on bytes in memory, without I/O.
 *
 * A stream has a number, in the header of each of its frames. The daemon opens odd ones (DIAL: a
 * port inside), the agent even ones (OFFER: a connection to its egress proxy). Each side counts
 * upwards and never reuses a number on one connection. OPENED answers both; until then no other
 * frame may follow.
 *
 * Each direction has credit: the bytes of DATA that the receiver is ready to hold. DIAL, OFFER and
 * OPENED grant the first credit, CREDIT more, and never more than STREAM_WINDOW_MAX is outstanding.
 * A stream whose reader has stalled therefore holds at most that much on either side. It does not
 * delay other streams, because the connection itself is always read.
 *
 * A direction ends with END (half-close). With the flag CLOSE the sender stops reading as well, and
 * the stream has ended for it. RESET ends both directions at once; bytes in flight are lost. A
 * stream has ended when both directions have ended; later frames of it were in flight and are
 * ignored. A frame with a number that was never opened, more DATA than credit, more CREDIT than the
 * window, or anything after END is a protocol violation and ends the connection.
 */
#ifndef CAY_WIRE_STREAM_H
#define CAY_WIRE_STREAM_H

#include "wire/frame.h"

#define STREAM_WINDOW_MAX (1U << 20) /* outstanding credit in one direction */
#define STREAM_DATA_MAX (128U << 10) /* bytes in one frame, at least 1 */
#define STREAM_ERRNO_MAX 4095
#define STREAM_NUMBER_MAX 0x7fffffffU

enum stream_type {
	STREAM_DIAL = 32,   /* daemon to agent only */
	STREAM_OFFER = 33,  /* agent to daemon only */
	STREAM_OPENED = 34, /* the others go in both directions */
	STREAM_DATA = 35,
	STREAM_CREDIT = 36,
	STREAM_END = 37,
	STREAM_RESET = 38,
};

enum { STREAM_END_CLOSE = 1 }; /* flag of END */

static inline bool stream_is_frame(const struct frame *frame)
{
	return frame->type >= STREAM_DIAL && frame->type <= STREAM_RESET;
}

/* Any frame of a stream, decoded. Members that its type does not have are 0. */
struct stream_frame {
	enum stream_type type;
	uint32_t stream;
	uint16_t port;	      /* DIAL */
	uint32_t credit;      /* DIAL, OFFER, CREDIT; OPENED without errno_value */
	uint32_t errno_value; /* OPENED: the error; 0: it is open */
	bool close;	      /* END */
	struct str bytes;     /* DATA: a view into the frame */
};

int stream_put(struct buf *out, const struct stream_frame *frame) _must_check_;
int stream_get(const struct frame *frame, struct stream_frame *ret) _must_check_;
/* Only the head of a DATA frame, for a sender that has the bytes elsewhere. */
void stream_pack_data(char dst[FRAME_HEADER_SIZE], uint32_t stream, size_t bytes);

/*
 * The state of one stream, against which both ends check their peer. The functions return -EPROTO
 * for a violation; the members change only on success.
 */
struct stream_flow {
	bool open;	   /* OPENED has been sent or received */
	uint32_t may_send; /* remaining credit for us to send */
	uint32_t may_come; /* remaining credit of the peer */
	uint32_t owed;	   /* taken by our reader, not yet returned as credit */
	bool end_sent;
	bool end_came;
};

int stream_flow_on_opened(struct stream_flow *flow, uint32_t credit) _must_check_;
int stream_flow_on_data(struct stream_flow *flow, size_t bytes) _must_check_;
int stream_flow_on_credit(struct stream_flow *flow, uint32_t credit) _must_check_;
int stream_flow_on_end(struct stream_flow *flow) _must_check_;

/* The reader took bytes. Returns the credit to grant now, 0 while it is too small. */
uint32_t stream_flow_taken(struct stream_flow *flow, size_t bytes, uint32_t window);

static inline bool stream_flow_over(const struct stream_flow *flow)
{
	return flow->end_sent && flow->end_came;
}

#endif
