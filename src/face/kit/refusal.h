/* SPDX-License-Identifier: Apache-2.0 */
/* What an HTTP client is told in its own words when its connection goes nowhere. */
#ifndef CAY_FACE_KIT_REFUSAL_H
#define CAY_FACE_KIT_REFUSAL_H

#include "base/buf.h"
#include "service/network/egress.h"

#define REFUSAL_MAX 4096 /* bytes of one */

/* A whole response: 403 with host, port, reason and rule. */
int refusal_denied(const struct sandbox *sandbox, const struct egress_ask *ask,
		   const struct egress_verdict *verdict, struct buf *out) _must_check_;
/* The same for what was allowed and does not answer: 502. error: an errno. */
int refusal_unreachable(const struct sandbox *sandbox, const struct egress_ask *ask, int error,
			struct buf *out) _must_check_;

#endif
