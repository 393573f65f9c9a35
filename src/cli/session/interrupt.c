/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cli/api/api.h"

static bool is_ignored(int signum)
{
	struct sigaction action;

	return sigaction(signum, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void interrupt_begin(struct interrupt *interrupt, struct cli *cli, interrupt_fn fn, void *arg)
{
	static const int signals[] = { SIGINT, SIGTERM };
	sigset_t mask;

	*interrupt = (struct interrupt){ .cli = cli, .fn = fn, .arg = arg };
	(void)sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (!is_ignored(signals[i]))
			(void)sigaddset(&mask, signals[i]);
	interrupt->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (interrupt->fd < 0)
		(void)sigemptyset(&mask); /* they then end us as usual */
	(void)sigprocmask(SIG_BLOCK, &mask, &interrupt->old_mask);
	cli->wake_fd = interrupt->fd;
	cli->wake = interrupt_check;
	cli->wake_arg = interrupt;
	cli_disconnect(cli); /* for the next connection */
}

void interrupt_end(struct interrupt *interrupt)
{
	cli_disconnect(interrupt->cli);
	interrupt->cli->wake_fd = -1;
	if (interrupt->fd >= 0)
		(void)close(TAKE_FD(interrupt->fd));
	(void)sigprocmask(SIG_SETMASK, &interrupt->old_mask, NULL);
}

int interrupt_check(void *arg)
{
	struct interrupt *interrupt = arg;
	struct signalfd_siginfo info;

	while (interrupt->fd >= 0 && read(interrupt->fd, &info, sizeof(info)) == sizeof(info)) {
		interrupt->caught = (int)info.ssi_signo;
		interrupt->count++;
		if (interrupt->count > 2)
			interrupt->leave = true;
		else
			interrupt->fn(interrupt->arg,
				      interrupt->count == 1 ? sigabbrev_np(interrupt->caught)
							    : "KILL",
				      interrupt->count);
	}
	return interrupt->leave ? -ECANCELED : 0;
}

void interrupt_process(struct cli *cli, const char *sandbox, const char *process,
		       const char *signal_name)
{
	struct cli other = *cli; /* the stream uses the connection */
	struct err err = { 0 };
	char path[API_PATH_MAX];
	struct buf body;

	other.http = NULL;
	other.error_body = NULL;
	other.wake_fd = -1;
	buf_init(&body, 256);
	if (api_path(path, &err, "/v1/sandboxes/%s/processes/%s/signal", sandbox, process) == 0 &&
	    buf_printf(&body, "{\"signal\":\"%s\"}", signal_name) == 0)
		(void)!api_call(&other, "POST", path, &body, NULL, &err);
	buf_done(&body);
	cli_done(&other);
}
