/* SPDX-License-Identifier: Apache-2.0 */
/* Output of one stream collected into one piece, with a limit and its gaps counted. */
#ifndef CAY_SERVICE_RUN_OUTPUT_BUFFER_H
#define CAY_SERVICE_RUN_OUTPUT_BUFFER_H

#include "base/buf.h"

struct output_buffer {
	struct buf bytes;
	uint64_t next;	    /* cursor behind the last byte taken */
	uint64_t gap_bytes; /* dropped before or between them */
	bool cut;	    /* more came than the limit takes */
};

void output_buffer_init(struct output_buffer *g, size_t limit_bytes, uint64_t cursor);
void output_buffer_done(struct output_buffer *g);
/* What does not fit any more is left out: next stays behind the last byte taken. */
void output_buffer_add(struct output_buffer *g, uint64_t cursor, struct str bytes);

#endif
