/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/wire: functions that the encoders and decoders of the tool's frames share. */
#ifndef CAY_WIRE_TOOL_CODEC_H
#define CAY_WIRE_TOOL_CODEC_H

#include <errno.h>

#include "wire/tool.h"

static inline int tool_check(const struct frame *frame, enum tool_type type, uint8_t flags_allowed)
{
	if (frame->type != type || (frame->flags & ~flags_allowed) || frame->process_id)
		return -EPROTO;
	return 0;
}

static inline bool text_ok(struct str s, size_t min, size_t max)
{
	return s.n >= min && s.n <= max && (s.n == 0 || !memchr(s.p, '\0', s.n));
}

static inline bool printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return s.n <= TOOL_MESSAGE_MAX;
}

/* Writes a payload from front to back; the caller has checked the size. */
struct writer {
	char *p;
};

static inline void w8(struct writer *w, unsigned v)
{
	*w->p++ = (char)v;
}

static inline void w16(struct writer *w, size_t v)
{
	frame_store16(w->p, (uint16_t)v);
	w->p += 2;
}

static inline void w32(struct writer *w, uint32_t v)
{
	frame_store32(w->p, v);
	w->p += 4;
}

static inline void w64(struct writer *w, uint64_t v)
{
	frame_store64(w->p, v);
	w->p += 8;
}

static inline void wstr(struct writer *w, struct str s)
{
	if (s.n)
		memcpy(w->p, s.p, s.n);
	w->p += s.n;
}

#endif
