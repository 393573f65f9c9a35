/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events. Foreign bytes end up in data lines only, whatever line ends they hold. */
#ifndef CAY_HTTP_MESSAGE_SSE_H
#define CAY_HTTP_MESSAGE_SSE_H

#include "base/buf.h"

/*
 * Appends one event. event and id may be empty (left out); CR, LF and NUL are dropped from them.
 * data is split into "data:" lines at CR LF, CR or LF. All or nothing: 0 or -ENOBUFS / -ENOMEM.
 */
int sse_event(struct buf *out, struct str event, struct str id, struct str data) _must_check_;

#endif
