/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C while a command runs far away: the first goes to the command, the second kills it, the
 * third leaves it alone and ends us. SIGTERM is passed on the same way.
 */
#ifndef CAY_CLI_SESSION_INTERRUPT_H
#define CAY_CLI_SESSION_INTERRUPT_H

#include <signal.h>

#include "cli/cli.h"

/* Sends the signal (by name) to the command; not heard of any more. */
typedef void (*interrupt_fn)(void *arg, const char *signal_name, int count);

struct interrupt {
	struct cli *cli;
	int fd;
	sigset_t old_mask;
	int count;
	int caught; /* the last signal; 0: none */
	bool leave; /* the user wants no more */
	interrupt_fn fn;
	void *arg;
};

/* From here on the signals wait until a call does, or interrupt_check() is called. */
void interrupt_begin(struct interrupt *interrupt, struct cli *cli, interrupt_fn fn, void *arg);
void interrupt_end(struct interrupt *interrupt);
/* Handles what is pending: 0, or -ECANCELED when it is time to leave. */
int interrupt_check(void *interrupt);
/* A way of sending: POST .../processes/PROCESS/signal, over a connection of its own. */
void interrupt_process(struct cli *cli, const char *sandbox, const char *process,
		       const char *signal_name);

#endif
