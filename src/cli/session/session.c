/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/time.h"
#include "cli/session/process_end.h"
#include "cli/api/exit.h"
#include "cli/api/resolve.h"
#include "cli/session/session_private.h"
#include "cli/session/terminal.h"

#define SILENCE_MS 60000 /* the daemon pings every 15 s */
#define CONNECT_MS 15000 /* finding the agent of a sandbox again may take a while */
#define HOLD_MS 300	 /* Ctrl-P alone is sent after this */

/* ---- the connection ---- */

static int attach_path(const struct session *s, char path[API_PATH_MAX], struct err *err)
{
	size_t n;

	if (s->process[0] == '\0' && s->open_path != NULL)
		return str_copy(path, API_PATH_MAX, str_of(s->open_path)) < 0
			       ? err_set(err, ERR_INVALID_REQUEST, "the names are too long")
			       : 0;
	if (api_path(path, err, "/v1/sandboxes/%s/processes/%s/attach", s->sandbox, s->process) < 0)
		return -1;
	n = strlen(path);
	if (n + 80 > API_PATH_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "the names are too long");
	n += (size_t)snprintf(path + n, API_PATH_MAX - n, "?hold=true&ack=true");
	if (s->known)
		(void)snprintf(
			path + n, API_PATH_MAX - n, s->tty ? "&cursor=%llu" : "&cursor=%llu:%llu",
			(unsigned long long)s->out_cursor, (unsigned long long)s->err_cursor);
	return 0;
}

/* 0: connected, 1: lost, try again, -1: err. */
static int open_once(struct session *s)
{
	char path[API_PATH_MAX];
	struct http_response res;
	struct buf whole;
	int r;

	api_forget(s->cli);
	if (attach_path(s, path, s->err) < 0)
		return -1;
	if (cli_connect(s->cli, s->err) < 0)
		return s->retry.until_ms != 0 && s->err->code == ERR_UNAVAILABLE ? 1 : -1;
	http_client_set_timeout(s->cli->http, 5000, CONNECT_MS);
	http_response_init(&res, API_BODY_LIMIT_BYTES);
	buf_init(&whole, API_URL_MAX);
	r = websocket_client_open(s->cli->http, resolve_path(s->cli, path, &whole), &res,
				  session_on_message, s, &s->ws);
	buf_done(&whole);
	if (r < 0)
		r = api_lost(s->cli, r, s->err);
	else if (r > 0)
		r = api_refused(s->cli, &res, s->err);
	http_response_done(&res);
	if (r < 0 && resolve_again(s->cli, path, s->err))
		return open_once(s);
	if (r < 0)
		return s->retry.until_ms != 0 && s->cli->lost ? 1 : -1;
	session_connected(s);
	if (s->tty)
		session_say_size(s);
	return 0;
}

/* Waits for the daemon to return; still reads keys, for a user who wants to leave. */
static int wait_again(struct session *s, int delay_ms)
{
	struct pollfd pfds[] = {
		{ .fd = s->tty && session_wants_input(s) ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = s->interrupt.fd, .events = POLLIN },
	};

	if (poll(pfds, ARRAY_LEN(pfds), delay_ms) <= 0)
		return 0;
	if (pfds[0].revents)
		session_read_input(s);
	return interrupt_check(&s->interrupt);
}

/*
 * Bytes of a pipe that were in flight are lost without a trace, so continuing would corrupt the
 * input.
 */
static int check_input_loss(struct session *s)
{
	if (s->tty || !s->input_seen)
		return 0;
	(void)cli_hint(s->cli, "The command continues: cay logs %s %s", s->sandbox, s->process);
	return err_set(s->err, ERR_UNAVAILABLE,
		       "the connection was lost after input was sent: the command may have "
		       "received only part of it");
}

static int reconnect(struct session *s)
{
	int r = 1;

	websocket_client_free(TAKE_PTR(s->ws));
	if (s->process[0] == '\0')
		return err_set(s->err, ERR_UNAVAILABLE, "the daemon ended before it replied");
	if (check_input_loss(s) < 0)
		return -1;
	while (r == 1) {
		int delay = retry_delay(&s->retry, s->cli);

		if (delay < 0)
			return err_set(
				s->err, ERR_UNAVAILABLE,
				"the daemon did not restart in time; the command may continue");
		if (wait_again(s, delay) < 0 || s->given_up || s->detached)
			return 0;
		r = open_once(s);
	}
	return r;
}

/* ---- the loop ---- */

static void on_signals(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGCONT)
			terminal_again();
	if (s->tty)
		session_say_size(s);
}

static int poll_timeout(const struct session *s)
{
	int64_t left = websocket_client_heard_ms(s->ws) + SILENCE_MS - time_boot_ms();

	left = MAX(left, (int64_t)0);
	return (int)(s->held ? MIN(left, (int64_t)HOLD_MS) : left);
}

static bool is_over(const struct session *s)
{
	return s->end != NULL || s->detached || s->failed || s->given_up || s->interrupt.leave ||
	       session_output_error(s) < 0;
}

/* 0: continue, 1: lost, -1: err. */
static int wait_for_more(struct session *s)
{
	bool room = session_wants_input(s) && !websocket_client_is_full(s->ws);
	struct pollfd pfds[] = {
		{ .fd = websocket_client_fd(s->ws), .events = websocket_client_events(s->ws) },
		{ .fd = room ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->interrupt.fd, .events = POLLIN },
		{ .fd = writer_pending(&s->writers[0]) ? s->writers[0].fd : -1, .events = POLLOUT },
		{ .fd = writer_pending(&s->writers[1]) ? s->writers[1].fd : -1, .events = POLLOUT },
	};
	int r = poll(pfds, ARRAY_LEN(pfds), poll_timeout(s));

	if (r < 0)
		return errno == EINTR ? 0
				      : err_set_errno(s->err, ERR_INTERNAL, errno, "cannot wait");
	if (r == 0 && !s->held)
		return 1; /* not even a ping */
	if (r == 0)
		session_release_key(s);
	if (pfds[1].revents)
		session_read_input(s);
	if (pfds[2].revents)
		on_signals(s);
	if (pfds[3].revents)
		(void)interrupt_check(&s->interrupt);
	return 0;
}

/* The connection first, because messages may have arrived with the reply to the opening. */
static int turn(struct session *s)
{
	int r;

	session_pass_on(s);
	r = websocket_client_work(s->ws);
	if (is_over(s))
		return 0;
	session_send_input(s); /* after the work, which may have opened its window */
	return r != 0 ? 1 : wait_for_more(s);
}

static int drive(struct session *s)
{
	int r = open_once(s);

	while (r == 0 && !is_over(s)) {
		r = turn(s);
		if (r == 1 && !is_over(s))
			r = reconnect(s);
	}
	return r < 0 ? -1 : 0;
}

/* The process has ended, or we leave it: pass on its remaining output. */
static void drain(struct session *s)
{
	while (session_is_passing(s) && !s->interrupt.leave) {
		struct pollfd pfds[] = {
			{ .fd = writer_pending(&s->writers[0]) ? s->writers[0].fd : -1,
			  .events = POLLOUT },
			{ .fd = writer_pending(&s->writers[1]) ? s->writers[1].fd : -1,
			  .events = POLLOUT },
			{ .fd = s->interrupt.fd, .events = POLLIN },
		};

		if (poll(pfds, ARRAY_LEN(pfds), -1) < 0 && errno != EINTR)
			return;
		if (pfds[2].revents) {
			(void)interrupt_check(&s->interrupt);
			s->interrupt.leave = true; /* no process is left for a signal */
		}
		session_pass_on(s);
	}
}

static int outcome(struct session *s)
{
	int error = session_output_error(s);

	/* Like a program that writes to a closed pipe. */
	if (error == -EPIPE) {
		if (s->end == NULL)
			interrupt_process(s->cli, s->sandbox, s->process, "PIPE");
		return 128 + SIGPIPE;
	}
	if (error < 0)
		return err_set_errno(s->err, ERR_INTERNAL, -error, "cannot write the output");
	if (s->end != NULL && s->interrupt.leave && session_is_passing(s))
		return 128 + s->interrupt.caught;
	if (s->end != NULL) {
		/* A user who typed Ctrl-C knows what ended it. */
		if (s->interrupt.count == 0 &&
		    !(s->tty && process_end_status(s->end) == 128 + SIGINT))
			process_end_print(s->cli, s->end, s->timeout_sec);
		return s->lost ? EXIT_STATUS_CAY_FAILED : process_end_status(s->end);
	}
	if (s->failed)
		return -1;
	if (s->interrupt.leave && s->process[0] != '\0')
		cli_note(s->cli, "cay: detached; the command continues as process %s", s->process);
	else if (s->process[0] != '\0')
		(void)fprintf(stderr, "%scay: detached; reattach with: cay attach %s %s\n",
			      s->tty ? "\n" : "", s->sandbox, s->process);
	if (s->interrupt.leave)
		return 128 + s->interrupt.caught;
	return s->given_up || s->lost ? EXIT_STATUS_CAY_FAILED : 0;
}

/* Prepares terminal and signals; session_run() restores them. */
static int prepare(struct session *s)
{
	sigset_t mask;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGWINCH);
	(void)sigaddset(&mask, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	s->input_open = s->input || s->tty;
	writer_init(&s->writers[0], STDOUT_FILENO);
	writer_init(&s->writers[1], STDERR_FILENO);
	buf_init(&s->typed, SESSION_TYPED_BYTES);
	buf_init(&s->bytes, EVENT_LIMIT_BYTES);
	(void)fflush(NULL);
	if (!s->tty && !s->no_signals)
		interrupt_begin(&s->interrupt, s->cli, session_send_signal, s);
	if (!s->tty)
		return 0;
	s->interrupt.fd = -1; /* Ctrl-C is an ordinary byte */
	session_make_remark(s);
	s->cli->raw = true;
	return terminal_enter(s->remark, s->err);
}

int session_run(struct session *s, struct err *err)
{
	int r;

	s->err = err;
	s->interrupt = (struct interrupt){ .cli = s->cli, .fd = -1 };
	r = prepare(s);
	if (r == 0)
		r = drive(s);
	drain(s);
	if (s->ws != NULL) {
		websocket_client_close(s->ws, WEBSOCKET_NORMAL);
		(void)!websocket_client_work(s->ws);
	}
	websocket_client_free(TAKE_PTR(s->ws));
	terminal_leave();
	s->cli->raw = false;
	if (r == 0)
		r = outcome(s);
	if (!s->tty && !s->no_signals)
		interrupt_end(&s->interrupt);
	writer_done(&s->writers[0]);
	writer_done(&s->writers[1]);
	if (s->signal_fd >= 0)
		(void)close(s->signal_fd);
	json_free(TAKE_PTR(s->end));
	buf_done(&s->typed);
	buf_done(&s->bytes);
	return r;
}
