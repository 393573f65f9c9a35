/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: finds the process that a call names. */
#ifndef CAY_FACE_E2B_ENVD_PROCESS_H
#define CAY_FACE_E2B_ENVD_PROCESS_H

#include "face/e2b/envd/envd.h"
#include "face/e2b/envd/process_message.h"
#include "service/run/process.h"

/* Called with a valid call->sandbox; frees doc. */
typedef void (*process_then_fn)(struct e2b_call *call, const struct process_info *info);
typedef void (*process_refuse_fn)(struct e2b_call *call, const struct err *err);
/* Finds the process that the call's body selects. ended: includes processes that have ended. Sends
 * an error if there is none. */
void process_select(struct e2b_call *call, bool ended, process_then_fn then);
/* The same for a message of a stream; errors go to refused. */
void process_select_in(struct e2b_call *call, const struct process_selector *selector, bool ended,
		       process_then_fn then, process_refuse_fn refused);

#endif
