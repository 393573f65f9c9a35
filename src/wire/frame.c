/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <errno.h>

static uint32_t load32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int frame_next(struct str bytes, size_t payload_max, struct frame *ret)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	uint32_t length;

	if (bytes.n < FRAME_HEADER_SIZE)
		return 0;
	length = load32(p);
	if (length > payload_max || p[6] || p[7])
		return -EPROTO;
	if (bytes.n - FRAME_HEADER_SIZE < length)
		return 0;
	*ret = (struct frame){
		.type = p[4],
		.flags = p[5],
		.process_id = load32(p + 8),
		.payload = { bytes.p + FRAME_HEADER_SIZE, length },
	};
	return 1;
}

size_t frame_missing(struct str bytes)
{
	size_t whole;

	if (bytes.n < FRAME_HEADER_SIZE)
		return FRAME_HEADER_SIZE - bytes.n;
	whole = FRAME_HEADER_SIZE + (size_t)load32((const unsigned char *)bytes.p);
	return bytes.n < whole ? whole - bytes.n : 0;
}

int frame_put(struct buf *out, uint8_t type, uint8_t flags, uint32_t process_id, size_t length,
	      char **ret_payload)
{
	char *p;
	int r = buf_reserve(out, FRAME_HEADER_SIZE + length, &p);

	if (r < 0)
		return r;
	frame_store_header(p, length, type, flags, process_id);
	buf_commit(out, FRAME_HEADER_SIZE + length);
	*ret_payload = p + FRAME_HEADER_SIZE;
	return 0;
}

struct str frame_bytes(struct frame_reader *r, size_t n)
{
	struct str bytes = { (const char *)r->p, n };

	if (r->failed || r->n < n) {
		r->failed = true;
		return (struct str){ "", 0 };
	}
	r->p += n;
	r->n -= n;
	return bytes;
}

struct str frame_rest(struct frame_reader *r)
{
	return frame_bytes(r, r->n);
}

static uint64_t load(struct frame_reader *r, size_t n)
{
	struct str bytes = frame_bytes(r, n);
	uint64_t v = 0;

	for (size_t i = bytes.n; i > 0; i--)
		v = v << 8 | (unsigned char)bytes.p[i - 1];
	return v;
}

uint8_t frame_u8(struct frame_reader *r)
{
	return (uint8_t)load(r, 1);
}

uint16_t frame_u16(struct frame_reader *r)
{
	return (uint16_t)load(r, 2);
}

uint32_t frame_u32(struct frame_reader *r)
{
	return (uint32_t)load(r, 4);
}

uint64_t frame_u64(struct frame_reader *r)
{
	return load(r, 8);
}

int frame_reader_end(const struct frame_reader *r)
{
	return r->failed || r->n ? -EPROTO : 0;
}
