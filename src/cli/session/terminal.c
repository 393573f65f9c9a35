/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/terminal.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "cli/session/screen.h"

/* Signals that end us at once: the terminal is restored first. */
static const int ending[] = { SIGHUP, SIGTERM, SIGQUIT, SIGINT, SIGSEGV, SIGBUS,
			      SIGFPE, SIGILL,  SIGABRT, SIGSYS, SIGXCPU, SIGPIPE };

static struct {
	volatile sig_atomic_t taken;
	struct termios before, raw;
	struct screen screen;
	const char *remark;
} terminal;

static void put(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, p, n);

		if (done <= 0)
			return;
		p += done;
		n -= (size_t)done;
	}
}

/* Only async-signal-safe calls. */
static void give_back(bool undo)
{
	char text[SCREEN_RESET_MAX];

	if (undo)
		put(STDOUT_FILENO, text, screen_reset(&terminal.screen, text));
	/*
	 * Typed-ahead input is for the next program. Pending output is not waited for, because the
	 * terminal may be stopped.
	 */
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
}

static void on_ending(int signum)
{
	int error = errno;

	if (terminal.taken) {
		give_back(true);
		terminal.taken = 0;
		put(STDERR_FILENO, terminal.remark, strlen(terminal.remark));
	}
	(void)raise(signum); /* SA_RESETHAND: ends us when the handler returns */
	errno = error;
}

/* Another process stops us (the user's Ctrl-Z is sent to the program). */
static void on_stop(int signum)
{
	int error = errno;

	(void)signum;
	if (terminal.taken)
		give_back(false);
	(void)kill(getpid(), SIGSTOP);
	if (terminal.taken)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal.raw);
	errno = error;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_ending, .sa_flags = (int)SA_RESETHAND };
	struct sigaction old;

	(void)sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(ending); i++)
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaction(ending[i], &action, NULL);
	action = (struct sigaction){ .sa_handler = on_stop, .sa_flags = SA_RESTART };
	(void)sigaction(SIGTSTP, &action, NULL);
	(void)signal(SIGTTOU, SIG_IGN); /* restoring must also work from the background */
}

int terminal_enter(const char *remark, struct err *err)
{
	static bool prepared;

	if (tcgetattr(STDIN_FILENO, &terminal.before) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "the terminal does not respond");
	terminal.raw = terminal.before;
	cfmakeraw(&terminal.raw);
	terminal.raw.c_cc[VMIN] = 1;
	terminal.raw.c_cc[VTIME] = 0;
	terminal.screen = (struct screen){ 0 };
	terminal.remark = remark;
	if (!prepared) {
		catch_signals();
		(void)atexit(terminal_leave);
	}
	prepared = true;
	terminal.taken = 1; /* before the change: a signal in between restores the old state */
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.raw) < 0) {
		terminal.taken = 0;
		return err_set_errno(err, ERR_INTERNAL, errno,
				     "cannot set the terminal to raw mode");
	}
	return 0;
}

void terminal_leave(void)
{
	if (!terminal.taken)
		return;
	give_back(true); /* first: a signal in between repeats it, which is harmless */
	terminal.taken = 0;
}

void terminal_again(void)
{
	if (terminal.taken)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.raw);
}

void terminal_watch(struct str bytes)
{
	screen_watch(&terminal.screen, bytes);
}

void terminal_size(unsigned int *ret_cols, unsigned int *ret_rows)
{
	static const int fds[] = { STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO };
	struct winsize size;

	*ret_cols = 80;
	*ret_rows = 24;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (ioctl(fds[i], TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
			continue;
		*ret_cols = size.ws_col;
		*ret_rows = size.ws_row;
		return;
	}
}
