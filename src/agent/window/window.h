/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: an interactive bash on a terminal, kept from command to command (decision 011). Commands
 * reach it through a FIFO, beside the terminal; through another it says when one begins and ends.
 *
 *   starting -> idle -> sending (until the shell says that it begins) -> running
 *                 ^       -> ending (the status is known, its output still on the way) -> idle
 *
 * A window lives in its process (hooks of process.h) and ends with it.
 */
#ifndef CAY_AGENT_WINDOW_WINDOW_H
#define CAY_AGENT_WINDOW_WINDOW_H

#include "agent/process/process.h"

#define WINDOW_IDLE_MS 600000

/* WINDOW_RUN; -EPROTO ends the connection. */
int window_on_request(struct agent *agent, const struct frame *frame) _must_check_;
/* The FIFO with the shell's reports is readable; the one for commands takes more. */
void window_on_report(struct agent *agent, struct process *p);
void window_on_writable(struct agent *agent, struct process *p);

#endif
