/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one command in a sandbox and waits for its end. Called by faces; the service owns the call.
 */
#ifndef CAY_SERVICE_RUN_EXEC_H
#define CAY_SERVICE_RUN_EXEC_H

#include "service/run/process.h"

#define EXEC_OUTPUT_DEFAULT (1024 * 1024)
#define EXEC_OUTPUT_MAX (16 * 1024 * 1024)
#define EXEC_TIMEOUT_DEFAULT_SEC 120

struct exec_result {
	uint32_t process_id;
	struct process_status status;
	struct str out, err; /* valid during the call */
	/* the file inside with the full output, or NULL; during the call */
	const char *full_output;
	bool full_output_complete;
};
typedef void (*exec_done_fn)(void *arg, const struct exec_result *result, const struct err *err);

/* *ret_call identifies the command for exec_detach(). */
int exec_start(struct sandbox *sandbox, const struct exec_spec *spec, exec_done_fn done, void *arg,
	       slot_handle *ret_call, struct err *err) _must_check_;
/* The caller has gone: done is not called; the command continues and is kept like any other. */
void exec_detach(struct service *service, slot_handle call);

#endif
