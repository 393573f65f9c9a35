/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events. Foreign bytes can only become data lines, whatever line ends they contain. */
#ifndef CAY_HTTP_MESSAGE_SSE_H
#define CAY_HTTP_MESSAGE_SSE_H

#include "base/buf.h"

/*
 * Appends one event. event and id may be empty (omitted); CR, LF and NUL are removed from them.
 * data is split into "data:" lines at CR LF, CR or LF. Appends everything or nothing: 0, -ENOBUFS
 * or -ENOMEM.
 */
int sse_event(struct buf *out, struct str event, struct str id, struct str data) _must_check_;

#endif
