/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/hearing.h"

void hearing_begin(struct hearing *h, bool client_first, int64_t now_ms)
{
	*h = (struct hearing){ .state = HEARING_QUIET,
			       .due_ms = now_ms + (client_first ? HEARING_WEB_MS : HEARING_MS),
			       .said = { .protocol = EGRESS_TCP } };
}

void hearing_bytes(struct hearing *h, const void *bytes, size_t size, bool all, int64_t now_ms)
{
	if (h->state == HEARING_SAID)
		return;
	if (sniff(bytes, size, all, &h->said)) {
		h->state = HEARING_SAID;
		h->due_ms = 0;
	} else if (h->state == HEARING_QUIET && size) {
		h->state = HEARING_PARTIAL;
		h->due_ms = now_ms + HEARING_WEB_MS;
	}
}

void hearing_time(struct hearing *h, int64_t now_ms)
{
	if (!h->due_ms || now_ms < h->due_ms)
		return;
	h->due_ms = 0;
	if (h->state == HEARING_QUIET) {
		h->state = HEARING_SILENT;
	} else if (h->state == HEARING_PARTIAL) {
		h->state = HEARING_SAID;
		h->said.odd = true; /* what is missing could say anything */
	}
}

void hearing_again(struct hearing *h)
{
	*h = (struct hearing){ .state = HEARING_SILENT, .said = { .protocol = EGRESS_TCP } };
}
