/* SPDX-License-Identifier: Apache-2.0 */
/* cay exec */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/end.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/terminal.h"

#define EXEC_DEFAULT_SEC 120 /* the daemon's own default */
/* How much longer than the command's limit the answer may take before the daemon counts as stuck.
 */
#define ANSWER_SLACK_SEC 30

int exec_read_stdin(struct buf *dst, bool *ret_has, struct err *err)
{
	char chunk[65536];

	*ret_has = false;
	if (isatty(STDIN_FILENO))
		return 0;
	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		/* A closed or unreadable standard input is no input. */
		if (n <= 0)
			break;
		if (buf_append(dst, chunk, (size_t)n) < 0)
			return err_set(err, ERR_PAYLOAD_TOO_LARGE,
				       "standard input is longer than %d bytes", REQUEST_STDIN_MAX);
	}
	*ret_has = buf_len(dst) > 0;
	return 0;
}

struct running {
	struct cli *cli;
	struct follow follow;
	struct interrupt interrupt;
};

static void on_interrupt(void *arg, const char *signal_name, int count)
{
	struct running *running = arg;

	(void)count;
	if (running->follow.process[0] == '\0')
		running->interrupt.leave = true; /* it has not begun */
	else
		interrupt_process(running->cli, running->follow.sandbox, running->follow.process,
				  signal_name);
}

static int stream_outcome(struct running *running, int r, uint64_t timeout_sec)
{
	struct follow *follow = &running->follow;

	if (r < 0 && running->interrupt.leave) {
		if (follow->process[0] != '\0')
			cli_note(running->cli, "cay: left behind; it runs on as process %s",
				 follow->process);
		return 128 + running->interrupt.caught;
	}
	/* What a pipe's writer would have got here. */
	if (r < 0 && follow->output_error == -EPIPE) {
		interrupt_process(running->cli, follow->sandbox, follow->process, "PIPE");
		return 128 + SIGPIPE;
	}
	if (r < 0)
		return -1;
	if (running->interrupt.count == 0)
		end_words(running->cli, follow->end, timeout_sec);
	return end_status(follow->end);
}

static int exec_stream(struct cli *cli, const char *id, const struct buf *body, bool forward,
		       uint64_t timeout_sec, struct err *err)
{
	struct running running = { .cli = cli };
	char path[API_PATH_MAX];
	int r;

	if (api_path(path, err, "/v1/sandboxes/%s/exec/stream", id) < 0)
		return -1;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)fflush(NULL);
	follow_init(&running.follow, cli, id, true);
	if (forward)
		interrupt_begin(&running.interrupt, cli, on_interrupt, &running);
	r = follow_start(&running.follow, path, body, err);
	r = stream_outcome(&running, r, timeout_sec);
	if (forward)
		interrupt_end(&running.interrupt);
	follow_done(&running.follow);
	return r;
}

/* The whole answer at once, as the API gives it. */
static int exec_json(struct cli *cli, const char *id, const struct buf *body, uint64_t wait_sec,
		     struct err *err)
{
	_cleanup_json_ struct json *result = NULL;
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/exec", id) < 0 || cli_connect(cli, err) < 0)
		return -1;
	http_client_set_timeout(cli->http, 5000,
				wait_sec != 0 ? (int)(wait_sec + ANSWER_SLACK_SEC) * 1000 : 0);
	if (api_call(cli, "POST", path, body, &result, err) < 0 || api_print(cli, result, err) < 0)
		return -1;
	return end_status(result);
}

int exec_call(struct cli *cli, const char *id, const struct exec_request *req, bool forward,
	      struct err *err)
{
	uint64_t wait_sec = req->timeout_sec;
	struct buf body;
	int r;

	if (wait_sec == 0 && !req->has_timeout)
		wait_sec = EXEC_DEFAULT_SEC;
	buf_init(&body, REQUEST_BODY_MAX);
	r = request_exec(req, &body, err);
	if (r == 0 && cli->json)
		r = exec_json(cli, id, &body, wait_sec, err);
	else if (r == 0)
		r = exec_stream(cli, id, &body, forward, wait_sec, err);
	buf_done(&body);
	return r;
}

/* The terminal's type, as far as a plain Debian knows it. */
static const char *term_for_inside(void)
{
	static const char *const known[] = { "xterm",	      "xterm-256color", "xterm-color",
					     "screen",	      "linux",		"screen-256color",
					     "tmux",	      "vt100",		"rxvt",
					     "tmux-256color", "vt220",		"dumb",
					     "rxvt-unicode" };
	const char *term = getenv("TERM");

	for (size_t i = 0; term != NULL && i < ARRAY_LEN(known); i++)
		if (strcmp(term, known[i]) == 0)
			return known[i];
	return "xterm-256color";
}

/* POST .../processes; the process object. */
static int process_create(struct cli *cli, const char *id, const struct exec_request *req,
			  struct json **ret, struct err *err)
{
	char path[API_PATH_MAX];
	struct buf body;
	int r;

	if (api_path(path, err, "/v1/sandboxes/%s/processes", id) < 0)
		return -1;
	buf_init(&body, REQUEST_BODY_MAX);
	r = request_exec(req, &body, err);
	if (r == 0)
		r = api_call(cli, "POST", path, &body, ret, err);
	buf_done(&body);
	return r;
}

static int exec_detached(struct cli *cli, const char *id, struct exec_request *req, struct err *err)
{
	_cleanup_json_ struct json *process = NULL;

	if (req->has_stdin)
		req->close_stdin = true;
	if (process_create(cli, id, req, &process, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, process, err);
	(void)printf("%lld\n", (long long)field_int(process, "process_id", 0));
	return 0;
}

/* Connected to the user: -i, -t. */
static int exec_session(struct cli *cli, const char *id, struct exec_request *req, bool tty,
			struct err *err)
{
	struct session session = { .cli = cli, .sandbox = id, .tty = tty, .known = true };
	_cleanup_json_ struct json *process = NULL;

	req->keep_stdin_open = true;
	if (tty) {
		terminal_size(&req->cols, &req->rows);
		req->term = term_for_inside();
	}
	if (process_create(cli, id, req, &process, err) < 0)
		return -1;
	(void)snprintf(session.process, sizeof(session.process), "%lld",
		       (long long)field_int(process, "process_id", 0));
	session.timeout_sec = req->timeout_sec;
	return session_run(&session, err);
}

/* -t without a command: the shell of the template. */
static int exec_shell(struct cli *cli, const char *id, const struct args *args, struct err *err)
{
	struct session session = { .cli = cli, .sandbox = id, .tty = true };
	char path[API_PATH_MAX], query[API_PATH_MAX] = "", full[2 * API_PATH_MAX], number[16];
	unsigned int cols, rows;

	if (args_text(args, "env") != NULL || args_text(args, "timeout") != NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "--env and --timeout want a command: cay exec -it ID -- bash");
	terminal_size(&cols, &rows);
	(void)snprintf(number, sizeof(number), "%u", cols);
	if (api_query(query, "cols", number, err) < 0)
		return -1;
	(void)snprintf(number, sizeof(number), "%u", rows);
	if (api_query(query, "rows", number, err) < 0 ||
	    (args_text(args, "user") != NULL &&
	     api_query(query, "user", args_text(args, "user"), err) < 0) ||
	    (args_text(args, "cwd") != NULL &&
	     api_query(query, "cwd", args_text(args, "cwd"), err) < 0) ||
	    api_path(path, err, "/v1/sandboxes/%s/pty", id) < 0)
		return -1;
	(void)snprintf(full, sizeof(full), "%s?%s", path, query);
	session.open_path = full;
	return session_run(&session, err);
}

/* What excludes what. */
static int check_ways(struct cli *cli, const struct args *args, struct err *err)
{
	bool tty = args_flag(args, "tty"), input = args_flag(args, "interactive");
	bool detach = args_flag(args, "detach"), window = args_text(args, "window") != NULL;

	if (window && (tty || input || detach))
		return err_set(err, ERR_INVALID_REQUEST,
			       "--window goes with none of -i, -t and -d");
	if (detach && tty)
		return err_set(err, ERR_INVALID_REQUEST, "-d and -t exclude each other");
	if (args_text(args, "name") != NULL && !detach)
		return err_set(err, ERR_INVALID_REQUEST, "--name is for -d");
	if (cli->json && (tty || (input && !detach)))
		return err_set(err, ERR_INVALID_REQUEST, "--json has no meaning with -i and -t");
	if (args->operand_count < 2 && !tty)
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay exec' needs ID [--] COMMAND [ARG...]");
	if (tty && !isatty(STDIN_FILENO)) {
		(void)cli_hint(cli, "Leave out -t; -i alone passes standard input on.");
		return err_set(err, ERR_INVALID_REQUEST, "-t needs a terminal on standard input");
	}
	return 0;
}

static int exec_way(struct cli *cli, const struct args *args, struct exec_request *req,
		    struct err *err)
{
	const char *id = args->operands[0], *window = args_text(args, "window");

	if (args->operand_count < 2)
		return exec_shell(cli, id, args, err);
	if (args_flag(args, "detach"))
		return exec_detached(cli, id, req, err);
	if (window != NULL)
		return window_exec(cli, id, window, req, err);
	if (args_flag(args, "tty") || args_flag(args, "interactive"))
		return exec_session(cli, id, req, args_flag(args, "tty"), err);
	return exec_call(cli, id, req, true, err);
}

int exec_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct exec_request req = {
		.words = args->operands + 1,
		.count = args->operand_count - 1,
		.shell = args_flag(args, "shell"),
		.user = args_text(args, "user"),
		.cwd = args_text(args, "cwd"),
		.name = args_text(args, "name"),
		.env_from = args,
	};
	bool detach = args_flag(args, "detach"), input = args_flag(args, "interactive");
	bool live = (input && !detach) || args_flag(args, "tty");
	struct buf bytes;
	int r;

	if (check_ways(cli, args, err) < 0)
		return -1;
	req.has_timeout = args_number(args, "timeout", &req.timeout_sec);
	buf_init(&bytes, REQUEST_STDIN_MAX);
	r = 0;
	/* A window's commands share its terminal; a detached one has its input to come. */
	if (!live && args_text(args, "window") == NULL && (!detach || input))
		r = exec_read_stdin(&bytes, &req.has_stdin, err);
	req.stdin_bytes = buf_str(&bytes);
	if (r < 0 && !detach)
		(void)cli_hint(cli, "cay exec -i passes standard input of any length on.");
	if (r == 0)
		r = exec_way(cli, args, &req, err);
	buf_done(&bytes);
	return r;
}
