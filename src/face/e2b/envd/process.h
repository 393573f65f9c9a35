/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: finds the process that a call names. */
#ifndef CAY_FACE_E2B_ENVD_PROCESS_H
#define CAY_FACE_E2B_ENVD_PROCESS_H

#include "face/e2b/envd/envd.h"
#include "service/run/process.h"

/* Called with a valid call->sandbox; frees doc. */
typedef void (*process_then_fn)(struct e2b_call *call, const struct process_info *info);
/* Finds the process in doc's "process": {"pid":N} or {"tag":"T"}. ended: includes processes that
 * have ended. Sends an error if there is none. */
void process_select(struct e2b_call *call, bool ended, process_then_fn then);
/* The same for a message of a stream. Reports a missing process to the reader of the stream. */
typedef void (*process_refuse_fn)(struct e2b_call *call, const struct err *err);
void process_select_in(struct e2b_call *call, const struct json *message, bool ended,
		       process_then_fn then, process_refuse_fn refused);
/* The bytes of {"stdin":"base64"} or {"pty":...}. */
int process_input_of(struct arena *arena, const struct json *input, struct str *ret,
		     struct err *err) _must_check_;

#endif
