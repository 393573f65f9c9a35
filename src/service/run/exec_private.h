/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/run: one command with a waiting caller. */
#ifndef CAY_SERVICE_RUN_EXEC_PRIVATE_H
#define CAY_SERVICE_RUN_EXEC_PRIVATE_H

#include "service/run/exec.h"
#include "service/service_internal.h"
#include "service/run/process_spec_private.h"

/* Owner: the service's table until it completes; without a service it only frees itself. */
struct exec_call {
	struct service *service;
	slot_handle handle;
	slot_handle sandbox;
	exec_done_fn done; /* NULL: no caller waits any more */
	void *arg;
	uint32_t process_id; /* 0: not started yet */
	size_t output_max_bytes;
	struct spec_build build;
	bool kept;	 /* build belongs to the call, which waits for admission */
	struct err gone; /* the error, while the engine is asked why the sandbox ended */
	char *veiled[2]; /* scrubbed output, for a sandbox with secrets */
	struct exec_reattach
		*again; /* after its link was interrupted: follows the command to its end */
};

/* 0: exec_followed() is called later. -1: the command cannot be followed. */
int exec_reattach_start(struct exec_call *call, struct sandbox *sandbox) _must_check_;
void exec_reattach_free(struct exec_reattach *again); /* NULL is allowed */
/* out and err live for the call. With error there is no end to report. */
void exec_followed(struct exec_call *call, const struct process_status *status, struct str out,
		   struct str err, const struct err *error);

void exec_stop_all(struct service *service);

#endif
