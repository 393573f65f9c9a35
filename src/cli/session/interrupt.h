/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C while a remote command runs: the first is sent to the command, the second kills it, the
 * third leaves it alone and ends this program. SIGTERM is handled in the same way.
 */
#ifndef CAY_CLI_SESSION_INTERRUPT_H
#define CAY_CLI_SESSION_INTERRUPT_H

#include <signal.h>

#include "cli/cli.h"

/* Sends the signal (by name) to the command; the result is ignored. */
typedef void (*interrupt_fn)(void *arg, const char *signal_name, int count);

struct interrupt {
	struct cli *cli;
	int fd;
	sigset_t old_mask;
	int count;
	int caught; /* the last signal; 0: none */
	bool leave; /* the user wants to leave */
	interrupt_fn fn;
	void *arg;
};

/* From here on signals are pending until a call waits or interrupt_check() is called. */
void interrupt_begin(struct interrupt *interrupt, struct cli *cli, interrupt_fn fn, void *arg);
void interrupt_end(struct interrupt *interrupt);
/* Handles pending signals: 0, or -ECANCELED if the program should leave. */
int interrupt_check(void *interrupt);
/* One way of sending: POST .../processes/PROCESS/signal over a separate connection. */
void interrupt_process(struct cli *cli, const char *sandbox, const char *process,
		       const char *signal_name);

#endif
