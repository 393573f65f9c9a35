/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/time.h"
#include "cli/end.h"
#include "cli/exit.h"
#include "cli/resolve.h"
#include "cli/terminal.h"

#define SILENCE_MS 60000   /* the daemon pings every 15 s */
#define CONNECT_MS 15000   /* a sandbox whose agent is found again may take a while */
#define HOLD_MS 300	   /* Ctrl-P alone goes on after this */
#define INPUT_BYTES 65536  /* one message */
#define TYPED_BYTES 131072 /* then the keyboard is not read any more */
#define CTRL_C 0x03
#define CTRL_P 0x10
#define CTRL_Q 0x11

/* What a signal handler says last. */
static void make_remark(struct session *s)
{
	char name[128];

	style_clean(name, sizeof(name), str_of(s->sandbox));
	if (s->process[0] != '\0')
		(void)snprintf(
			s->remark, sizeof(s->remark),
			"\r\ncay: ended by a signal; the command runs on: cay attach %s %s\r\n",
			name, s->process);
	else
		(void)snprintf(s->remark, sizeof(s->remark),
			       "\r\ncay: ended by a signal; the command runs on: cay ps %s\r\n",
			       name);
}

static void say_size(struct session *s, unsigned int cols, unsigned int rows)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols,
		       rows);
	(void)!websocket_client_send(s->ws, true, str_of(text));
}

static void send_size(struct session *s)
{
	unsigned int cols, rows;

	terminal_size(&cols, &rows);
	say_size(s, cols, rows);
}

/* ---- what the daemon sends ---- */

static void write_out(struct session *s, int fd, struct str bytes)
{
	int r;

	if (s->tty)
		terminal_watch(bytes); /* before it shows: a signal may come between the two */
	r = follow_write(fd, bytes);
	if (r < 0 && s->output_error == 0)
		s->output_error = r;
}

static void on_failure(struct session *s, const struct json *doc)
{
	struct str message = field_str(doc, "message");
	char name[64];

	if (str_copy(name, sizeof(name), field_str(doc, "code")) < 0)
		name[0] = '\0';
	s->cli->exit_status = exit_of_answer(name, 500);
	s->failed = true;
	(void)err_set(s->err, err_from_name(name), "%.*s",
		      (int)MIN(message.n, (size_t)ERR_MESSAGE_MAX), message.p);
}

/* Our remarks may stand in the middle of a full screen: two changes of size have it drawn again. */
static void have_redrawn(struct session *s)
{
	unsigned int cols, rows;

	terminal_size(&cols, &rows);
	say_size(s, cols, rows > 1 ? rows - 1 : rows + 1);
	say_size(s, cols, rows);
}

static void on_started(struct session *s, const struct json *doc)
{
	(void)snprintf(s->process, sizeof(s->process), "%lld",
		       (long long)field_int(doc, "process_id", 0));
	make_remark(s);
	if (!s->known)
		s->out_cursor = (uint64_t)MAX(field_int(doc, "cursor", 0), (int64_t)0);
	s->known = true;
	if (s->tty && s->retry.until_ms != 0)
		have_redrawn(s);
	retry_connected(&s->retry, s->cli);
}

static void on_stderr(struct session *s, const struct json *doc)
{
	struct str bytes;

	if (follow_bytes(doc, "data", "data_b64", &s->bytes, &bytes) < 0)
		return;
	s->err_cursor += bytes.n;
	write_out(s, STDERR_FILENO, bytes);
}

static void on_gap(struct session *s, const struct json *doc)
{
	bool is_err = str_is(field_str(doc, "stream"), "stderr");
	int64_t bytes = MAX(field_int(doc, "bytes", 0), (int64_t)0);

	*(is_err ? &s->err_cursor : &s->out_cursor) += (uint64_t)bytes;
	(void)fprintf(stderr, "%scay: %lld bytes of %s are missing here: they were dropped%s\n",
		      s->tty ? "\r\n" : "", (long long)bytes, is_err ? "stderr" : "stdout",
		      s->tty ? "\r" : "");
}

static void on_message(void *arg, bool is_text, struct str bytes)
{
	struct session *s = arg;
	struct err err = { 0 };
	struct json *doc;
	struct str type;

	if (!is_text) {
		s->out_cursor += bytes.n;
		write_out(s, STDOUT_FILENO, bytes);
		return;
	}
	doc = json_parse(bytes, &err);
	type = field_str(doc, "type");
	if (str_is(type, "started"))
		on_started(s, doc);
	else if (str_is(type, "stderr"))
		on_stderr(s, doc);
	else if (str_is(type, "gap"))
		on_gap(s, doc);
	else if (str_is(type, "error"))
		on_failure(s, doc);
	else if (str_is(type, "exit") && s->end == NULL)
		s->end = TAKE_PTR(doc);
	json_free(doc);
}

/* ---- what goes there ---- */

static void send_signal(void *arg, const char *name, int count)
{
	struct session *s = arg;
	char text[64];

	(void)count;
	if (s->process[0] == '\0') {
		s->interrupt.leave = true;
		return;
	}
	(void)snprintf(text, sizeof(text), "{\"type\":\"signal\",\"signal\":\"%s\"}", name);
	if (s->ws == NULL || websocket_client_send(s->ws, true, str_of(text)) < 0)
		interrupt_process(s->cli, s->sandbox, s->process, name);
}

/* Ctrl-P Ctrl-Q detaches. A Ctrl-P is held back until it is clear what it begins. */
static void take_keys(struct session *s, const char *p, size_t n)
{
	for (size_t i = 0; i < n && !s->detached; i++) {
		if (s->held && p[i] == CTRL_Q) {
			s->detached = true;
			break;
		}
		if (s->held)
			(void)!buf_putc(&s->typed, CTRL_P);
		s->held = p[i] == CTRL_P;
		if (!s->held)
			(void)!buf_putc(&s->typed, p[i]);
		if (p[i] == CTRL_C && s->ws == NULL)
			s->given_up = true; /* who waits for the daemon may stop waiting */
	}
}

static void read_input(struct session *s)
{
	char bytes[INPUT_BYTES];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		s->input_open = false;
		s->close_wanted = !s->tty && (s->input_seen || !s->keep_stdin_open);
		return;
	}
	s->input_seen = true;
	if (s->tty)
		take_keys(s, bytes, (size_t)n);
	else
		(void)!buf_append(&s->typed, bytes, (size_t)n);
}

static void send_input(struct session *s)
{
	struct str typed = buf_str(&s->typed);

	if (s->ws == NULL || s->end != NULL)
		return;
	while (typed.n > 0) {
		struct str piece = { typed.p, MIN(typed.n, (size_t)INPUT_BYTES) };

		if (websocket_client_send(s->ws, false, piece) < 0)
			return;
		buf_consume(&s->typed, piece.n);
		typed = buf_str(&s->typed);
	}
	if (s->close_wanted &&
	    websocket_client_send(s->ws, true, STR_LIT("{\"type\":\"close_stdin\"}")) == 0)
		s->close_wanted = false;
}

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
	if (s->known)
		(void)snprintf(
			path + n, API_PATH_MAX - n, s->tty ? "?cursor=%llu" : "?cursor=%llu:%llu",
			(unsigned long long)s->out_cursor, (unsigned long long)s->err_cursor);
	return 0;
}

/* 0 connected, 1 lost: try again, -1 err. */
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
				  on_message, s, &s->ws);
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
	if (s->tty)
		send_size(s);
	return 0;
}

/* Waits for the daemon to come back; keys are still looked at, for who wants to leave. */
static int wait_again(struct session *s, int delay_ms)
{
	struct pollfd pfds[] = {
		{ .fd = s->input_open && s->tty && buf_len(&s->typed) < 4096 ? STDIN_FILENO : -1,
		  .events = POLLIN },
		{ .fd = s->interrupt.fd, .events = POLLIN },
	};

	if (poll(pfds, ARRAY_LEN(pfds), delay_ms) <= 0)
		return 0;
	if (pfds[0].revents)
		read_input(s);
	return interrupt_check(&s->interrupt);
}

/* Bytes of a pipe that were on their way are lost without a trace: going on would be a lie. */
static int check_input_loss(struct session *s)
{
	if (s->tty || !s->input_seen)
		return 0;
	(void)cli_hint(s->cli, "It runs on: cay logs %s %s", s->sandbox, s->process);
	return err_set(s->err, ERR_UNAVAILABLE,
		       "the connection broke after input was sent: the command may have got only "
		       "part of it");
}

static int reconnect(struct session *s)
{
	int r = 1;

	websocket_client_free(TAKE_PTR(s->ws));
	if (s->process[0] == '\0')
		return err_set(s->err, ERR_UNAVAILABLE, "the daemon ended before it answered");
	if (check_input_loss(s) < 0)
		return -1;
	while (r == 1) {
		int delay = retry_delay(&s->retry, s->cli);

		if (delay < 0)
			return err_set(s->err, ERR_UNAVAILABLE,
				       "the daemon does not come back; the command may run on");
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
		send_size(s);
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
	       s->output_error < 0;
}

/* 0 go on, 1 lost, -1 err. */
static int wait_for_more(struct session *s)
{
	bool room =
		buf_len(&s->typed) < TYPED_BYTES - INPUT_BYTES && !websocket_client_is_full(s->ws);
	struct pollfd pfds[] = {
		{ .fd = websocket_client_fd(s->ws), .events = websocket_client_events(s->ws) },
		{ .fd = s->input_open && room ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->interrupt.fd, .events = POLLIN },
	};
	int r = poll(pfds, ARRAY_LEN(pfds), poll_timeout(s));

	if (r < 0)
		return errno == EINTR ? 0
				      : err_set_errno(s->err, ERR_INTERNAL, errno, "cannot wait");
	if (r == 0 && !s->held)
		return 1; /* not even a ping */
	if (r == 0) {
		s->held = false;
		(void)!buf_putc(&s->typed, CTRL_P);
	}
	if (pfds[1].revents)
		read_input(s);
	if (pfds[2].revents)
		on_signals(s);
	if (pfds[3].revents)
		(void)interrupt_check(&s->interrupt);
	return 0;
}

/* The connection first: with the answer to the opening, messages may have come already. */
static int turn(struct session *s)
{
	int r;

	send_input(s);
	r = websocket_client_work(s->ws);
	if (is_over(s))
		return 0;
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

static int outcome(struct session *s)
{
	if (s->end != NULL) {
		/* Who typed Ctrl-C knows what ended it. */
		if (s->interrupt.count == 0 && !(s->tty && end_status(s->end) == 128 + SIGINT))
			end_words(s->cli, s->end, s->timeout_sec);
		return end_status(s->end);
	}
	if (s->failed)
		return -1;
	if (s->output_error == -EPIPE) {
		interrupt_process(s->cli, s->sandbox, s->process, "PIPE");
		return 128 + SIGPIPE;
	}
	if (s->output_error < 0)
		return err_set_errno(s->err, ERR_INTERNAL, -s->output_error,
				     "cannot pass the output on");
	if (s->process[0] != '\0')
		(void)fprintf(stderr, "%scay: detached; come back with: cay attach %s %s\n",
			      s->tty ? "\n" : "", s->sandbox, s->process);
	if (s->interrupt.leave)
		return 128 + s->interrupt.caught;
	return s->given_up ? EXIT_STATUS_RUNTIME : 0;
}

/* Terminal and signals; what is taken here is given back in session_run(). */
static int prepare(struct session *s)
{
	sigset_t mask;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGWINCH);
	(void)sigaddset(&mask, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	s->input_open = true;
	buf_init(&s->typed, TYPED_BYTES);
	buf_init(&s->bytes, EVENT_LIMIT_BYTES);
	(void)fflush(NULL);
	if (!s->tty) {
		interrupt_begin(&s->interrupt, s->cli, send_signal, s);
		return 0;
	}
	s->interrupt.fd = -1; /* Ctrl-C is a byte like any other */
	make_remark(s);
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
	if (s->ws != NULL) {
		websocket_client_close(s->ws, WEBSOCKET_NORMAL);
		(void)!websocket_client_work(s->ws);
	}
	websocket_client_free(TAKE_PTR(s->ws));
	terminal_leave();
	s->cli->raw = false;
	if (r == 0)
		r = outcome(s);
	if (!s->tty)
		interrupt_end(&s->interrupt);
	if (s->signal_fd >= 0)
		(void)close(s->signal_fd);
	json_free(TAKE_PTR(s->end));
	buf_done(&s->typed);
	buf_done(&s->bytes);
	return r;
}
