/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and their ends in public terms: the same in REST, SSE and the command line. */
#include <signal.h>
#include <stdio.h>
#include <strings.h>

#include "base/time.h"
#include "service/run/process_internal.h"

static const char *const reasons[] = {
	[LINK_END_NONE] = NULL,		[LINK_END_EXIT] = "exited",
	[LINK_END_SIGNAL] = "signaled", [LINK_END_TIMEOUT] = "timeout",
	[LINK_END_OOM] = "oom",		[LINK_END_KILLED] = "killed_by_request",
	[LINK_END_REFUSED] = NULL,	[LINK_END_GONE] = "sandbox_gone",
};

void status_from_link(struct process_status *to, const struct link_status *from)
{
	*to = (struct process_status){ .reason = reasons[from->end],
				       .exit_code = from->exit_code,
				       .signal = from->signal,
				       .duration_us = from->duration_us,
				       .out_total = from->out_total,
				       .err_total = from->err_total,
				       .memory_limit_bytes = from->memory_limit_bytes,
				       .memory_peak_bytes = from->memory_peak_bytes,
				       .oom_kills = from->oom_kills };
}

void info_from_link(struct process_info *to, const struct link_process_info *from)
{
	*to = (struct process_info){ .process_id = from->process_id,
				     .pid = from->pid,
				     .tty = from->tty,
				     .stdin_open = from->stdin_open,
				     .window = from->window,
				     .cols = from->cols,
				     .rows = from->rows,
				     .started_ms = from->start_ms,
				     .out_begin = from->out_begin,
				     .err_begin = from->err_begin,
				     .name = from->name,
				     .user = from->user,
				     .command = from->command };
	status_from_link(&to->status, &from->status);
	if (!to->status.reason) /* still running */
		to->status.duration_us = MAX(time_real_ms() - from->start_ms, 0) * 1000;
}

/* ---- signals ---- */

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP },   { "INT", SIGINT },	      { "QUIT", SIGQUIT }, { "ILL", SIGILL },
	{ "TRAP", SIGTRAP }, { "ABRT", SIGABRT },     { "BUS", SIGBUS },   { "FPE", SIGFPE },
	{ "KILL", SIGKILL }, { "USR1", SIGUSR1 },     { "SEGV", SIGSEGV }, { "USR2", SIGUSR2 },
	{ "PIPE", SIGPIPE }, { "ALRM", SIGALRM },     { "TERM", SIGTERM }, { "STKFLT", 16 },
	{ "CHLD", SIGCHLD }, { "CONT", SIGCONT },     { "STOP", SIGSTOP }, { "TSTP", SIGTSTP },
	{ "TTIN", SIGTTIN }, { "TTOU", SIGTTOU },     { "URG", SIGURG },   { "XCPU", SIGXCPU },
	{ "XFSZ", SIGXFSZ }, { "VTALRM", SIGVTALRM }, { "PROF", SIGPROF }, { "WINCH", SIGWINCH },
	{ "IO", SIGIO },     { "PWR", SIGPWR },	      { "SYS", SIGSYS },
};

int process_signal_parse(struct str name, int64_t number, struct err *err)
{
	if (!name.n && number >= 1 && number <= 64)
		return (int)number;
	if (name.n > 3 && strncasecmp(name.p, "SIG", 3) == 0)
		name = (struct str){ name.p + 3, name.n - 3 };
	for (size_t i = 0; name.n && i < ARRAY_LEN(signals); i++)
		if (str_eq_nocase(name, signals[i].name))
			return signals[i].number;
	(void)err_set(err, ERR_INVALID_REQUEST,
		      "signal must be a name such as TERM or SIGTERM, or a number from 1 to 64");
	return 0;
}
