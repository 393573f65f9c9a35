/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the agent codec: functions that its files share. */
#ifndef CAY_WIRE_AGENT_CODEC_H
#define CAY_WIRE_AGENT_CODEC_H

#include <errno.h>

#include "wire/agent.h"

#define AGENT_ERRNO_MAX 4095
#define AGENT_STATUS_SIZE 52

/* Checks the type, the flags, and whether the header must name a process. */
static inline int agent_check(const struct frame *frame, enum agent_type type,
			      uint8_t flags_allowed, bool of_process)
{
	if (frame->type != type || (frame->flags & ~flags_allowed) ||
	    of_process != (frame->process_id != 0))
		return -EPROTO;
	return 0;
}

static inline bool agent_no_nul(struct str s)
{
	return s.n == 0 || !memchr(s.p, 0, s.n);
}

static inline bool agent_tty_ok(bool tty, uint16_t cols, uint16_t rows)
{
	if (!tty)
		return cols == 0 && rows == 0;
	return cols >= 1 && cols <= AGENT_TTY_MAX && rows >= 1 && rows <= AGENT_TTY_MAX;
}

bool agent_status_ok(const struct agent_status *s);
void agent_store_status(char *p, const struct agent_status *s);
/* false: not a valid status; the values must not be used. */
bool agent_load_status(struct frame_reader *r, struct agent_status *ret);

#endif
