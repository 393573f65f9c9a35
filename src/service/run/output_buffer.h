/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the output of one stream, with a limit and counted gaps. */
#ifndef CAY_SERVICE_RUN_OUTPUT_BUFFER_H
#define CAY_SERVICE_RUN_OUTPUT_BUFFER_H

#include "base/buf.h"

struct output_buffer {
	struct buf bytes;
	uint64_t next;	    /* cursor after the last byte taken */
	uint64_t gap_bytes; /* bytes dropped before or between them */
	bool cut;	    /* more arrived than the limit allows */
};

void output_buffer_init(struct output_buffer *g, size_t limit_bytes, uint64_t cursor);
void output_buffer_done(struct output_buffer *g);
/* Bytes that do not fit are left out: next stays after the last byte taken. */
void output_buffer_add(struct output_buffer *g, uint64_t cursor, struct str bytes);

#endif
