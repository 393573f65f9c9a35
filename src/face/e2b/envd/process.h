/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/face/e2b only: which process a call is about. */
#ifndef CAY_FACE_E2B_ENVD_PROCESS_H
#define CAY_FACE_E2B_ENVD_PROCESS_H

#include "face/e2b/envd/envd.h"
#include "service/run/process.h"

/* The call's sandbox is good meanwhile; doc is gone. */
typedef void (*process_then_fn)(struct e2b_call *call, const struct process_info *info);
/* The process of doc's "process": {"pid":N} or {"tag":"T"}. ended: also one that has. Not found:
 * answered. */
void process_select(struct e2b_call *call, bool ended, process_then_fn then);
/* The same for one message of a stream, whose reader has to be told when there is none. */
typedef void (*process_refuse_fn)(struct e2b_call *call, const struct err *err);
void process_select_in(struct e2b_call *call, const struct json *message, bool ended,
		       process_then_fn then, process_refuse_fn refused);
/* The bytes of {"stdin":"base64"} or {"pty":...}. */
int process_input_of(struct arena *arena, const struct json *input, struct str *ret,
		     struct err *err) _must_check_;

#endif
