/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP replies for connections that egress refuses or cannot establish. */
#ifndef CAY_FACE_KIT_REFUSAL_H
#define CAY_FACE_KIT_REFUSAL_H

#include "base/buf.h"
#include "service/network/egress.h"

#define REFUSAL_MAX 4096 /* bytes per reply */

/* A whole response: 403 with host, port, reason and rule. */
int refusal_denied(const struct sandbox *sandbox, const struct egress_ask *ask,
		   const struct egress_verdict *verdict, struct buf *out) _must_check_;
/* The same for an allowed target that cannot be reached: 502. error: an errno. */
int refusal_unreachable(const struct sandbox *sandbox, const struct egress_ask *ask, int error,
			struct buf *out) _must_check_;

#endif
