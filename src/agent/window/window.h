/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: an interactive bash on a terminal that is kept between commands (decision 011). It
 * receives commands through a FIFO, not through the terminal, and reports the start and end of each
 * through another.
 *
 *   starting -> idle -> sending (until the shell reports the start) -> running
 *                 ^       -> ending (the status is known, output is incomplete) -> idle
 *
 * A window belongs to its process (hooks of process.h) and ends with it.
 */
#ifndef CAY_AGENT_WINDOW_WINDOW_H
#define CAY_AGENT_WINDOW_WINDOW_H

#include "agent/process/process.h"

#define WINDOW_IDLE_MS 600000

/* WINDOW_RUN; -EPROTO ends the connection. */
int window_on_request(struct agent *agent, const struct frame *frame) _must_check_;
/* The FIFO with the shell's reports is readable, or the one for commands is writable. */
void window_on_report(struct agent *agent, struct process *p);
void window_on_writable(struct agent *agent, struct process *p);

#endif
