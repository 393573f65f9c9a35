/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the first bytes of a connection are judged, and as what. No I/O and no clock: bytes and
 * times are input, so that tests try every pause at every byte. The relay owns one of these.
 *
 *   QUIET    nothing has come.         first bytes -> PARTIAL or SAID; time-out -> SILENT
 *   PARTIAL  not enough to tell.       more bytes -> SAID; time-out -> SAID, odd
 *   SILENT   the server may speak first: it is connected, and what the client says is still held.
 *                                      enough bytes -> SAID, however late
 *   SAID     `said` is final
 *
 * Nothing of the client may pass before SAID.
 */
#ifndef CAY_FACE_EGRESS_HEARING_H
#define CAY_FACE_EGRESS_HEARING_H

#include "face/egress/sniff.h"

#define HEARING_WEB_MS 10000 /* where the client speaks first, and for what began */
#define HEARING_MS 500	     /* elsewhere: then the server may */

enum hearing_state { HEARING_QUIET, HEARING_PARTIAL, HEARING_SILENT, HEARING_SAID };

struct hearing {
	enum hearing_state state;
	int64_t due_ms; /* 0: never */
	struct sniff said;
};

void hearing_begin(struct hearing *h, bool client_first, int64_t now_ms);
/* All bytes so far. all: the client sends no more. */
void hearing_bytes(struct hearing *h, const void *bytes, size_t size, bool all, int64_t now_ms);
void hearing_time(struct hearing *h, int64_t now_ms);
/* The server has spoken, and what comes next may be TLS (STARTTLS): as if it were silent. */
void hearing_again(struct hearing *h);

#endif
