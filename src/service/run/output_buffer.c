/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/output_buffer.h"

void output_buffer_init(struct output_buffer *g, size_t limit_bytes, uint64_t cursor)
{
	*g = (struct output_buffer){ .next = cursor };
	buf_init(&g->bytes, limit_bytes);
}

void output_buffer_done(struct output_buffer *g)
{
	buf_done(&g->bytes);
}

void output_buffer_add(struct output_buffer *g, uint64_t cursor, struct str bytes)
{
	size_t room = g->bytes.limit_bytes - buf_len(&g->bytes);

	if (g->cut)
		return;
	if (cursor > g->next) {
		g->gap_bytes += cursor - g->next;
		g->next = cursor;
	}
	g->cut = bytes.n > room;
	bytes.n = MIN(bytes.n, room);
	if (bytes.n && buf_append(&g->bytes, bytes.p, bytes.n) < 0) {
		g->cut = true;
		return;
	}
	g->next += bytes.n;
}
