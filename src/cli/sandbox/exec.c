/* SPDX-License-Identifier: Apache-2.0 */
/* cay exec */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/session/process_end.h"
#include "cli/api/exit.h"
#include "cli/api/request.h"
#include "cli/session/session.h"
#include "cli/session/terminal.h"

#define EXEC_DEFAULT_SEC 120 /* same as the daemon's default */
/* How much longer than the command's limit the reply may take before the daemon counts as stuck. */
#define ANSWER_SLACK_SEC 30

/* Reads everything; nothing if it is a terminal. */
static int exec_read_stdin(struct buf *dst, bool *ret_has, struct err *err)
{
	char chunk[65536];

	*ret_has = false;
	if (isatty(STDIN_FILENO))
		return 0;
	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		/* A closed or unreadable standard input counts as empty. */
		if (n <= 0)
			break;
		if (buf_append(dst, chunk, (size_t)n) < 0)
			return err_set(err, ERR_PAYLOAD_TOO_LARGE,
				       "standard input is longer than %d bytes", REQUEST_STDIN_MAX);
	}
	*ret_has = buf_len(dst) > 0;
	return 0;
}

/* The whole reply at once, as the API returns it. */
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
	return process_end_status(result);
}

/* The terminal's type, if a plain Debian knows it. */
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

/* POST .../processes; returns the process object. */
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

/* With -i the input is ours; otherwise it stays open for later. */
static int exec_detached(struct cli *cli, const char *id, struct exec_request *req, bool input,
			 struct err *err)
{
	_cleanup_json_ struct json *process = NULL;
	struct buf bytes;
	int r = 0;

	buf_init(&bytes, REQUEST_STDIN_MAX);
	if (input)
		r = exec_read_stdin(&bytes, &req->has_stdin, err);
	req->stdin_bytes = buf_str(&bytes);
	req->close_stdin = input;
	if (r == 0)
		r = process_create(cli, id, req, &process, err);
	buf_done(&bytes);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, process, err);
	(void)printf("%lld\n", (long long)field_int(process, "process_id", 0));
	return 0;
}

/*
 * Starts the command and passes on its output. The output is held from its first byte on, so
 * nothing is lost between the two requests.
 */
static int exec_session(struct cli *cli, const char *id, struct exec_request *req,
			const struct exec_way *way, struct err *err)
{
	struct session session = { .cli = cli,
				   .sandbox = id,
				   .tty = way->tty,
				   .input = way->input,
				   .known = true,
				   .no_signals = way->ephemeral,
				   .no_detach = way->ephemeral };
	_cleanup_json_ struct json *process = NULL;

	req->keep_stdin_open = way->input || way->tty;
	req->close_stdin = !req->keep_stdin_open;
	req->hold = true;
	if (way->tty) {
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

int exec_call(struct cli *cli, const char *id, struct exec_request *req, const struct exec_way *way,
	      struct err *err)
{
	struct buf body, input;
	int r = 0;

	if (!req->has_timeout && !way->input && !way->tty) {
		req->timeout_sec = EXEC_DEFAULT_SEC;
		req->has_timeout = true;
	}
	if (!cli->json)
		return exec_session(cli, id, req, way, err);
	buf_init(&body, REQUEST_BODY_MAX);
	buf_init(&input, REQUEST_STDIN_MAX);
	if (way->input)
		r = exec_read_stdin(&input, &req->has_stdin, err);
	req->stdin_bytes = buf_str(&input);
	if (r == 0)
		r = request_exec(req, &body, err);
	if (r == 0)
		r = exec_json(cli, id, &body, req->timeout_sec, err);
	buf_done(&input);
	buf_done(&body);
	return r;
}

/* -t without a command: the shell of the template. */
static int exec_shell(struct cli *cli, const char *id, const struct args *args, struct err *err)
{
	struct session session = { .cli = cli, .sandbox = id, .tty = true };
	char path[API_PATH_MAX], query[API_PATH_MAX] = "", full[2 * API_PATH_MAX], number[16];
	unsigned int cols, rows;

	if (args_text(args, "env") != NULL || args_text(args, "timeout") != NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "--env and --timeout need a command: cay exec -it ID -- bash");
	terminal_size(&cols, &rows);
	(void)snprintf(number, sizeof(number), "%u", cols);
	if (api_query(query, "cols", number, err) < 0 || api_query(query, "ack", "true", err) < 0)
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

/* Rejects options that exclude each other. */
static int check_ways(struct cli *cli, const struct args *args, struct err *err)
{
	bool tty = args_flag(args, "tty"), input = args_flag(args, "interactive");
	bool detach = args_flag(args, "detach"), window = args_text(args, "window") != NULL;

	if (window && (tty || input || detach))
		return err_set(err, ERR_INVALID_REQUEST, "--window excludes -i, -t and -d");
	if (detach && tty)
		return err_set(err, ERR_INVALID_REQUEST, "-d and -t exclude each other");
	if (args_text(args, "name") != NULL && !detach)
		return err_set(err, ERR_INVALID_REQUEST, "--name needs -d");
	if (args->operand_count < 2 && !tty)
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay exec' needs ID [--] COMMAND [ARG...]");
	return exec_check_tty(cli, tty, err);
}

int exec_check_tty(struct cli *cli, bool tty, struct err *err)
{
	if (cli->json && tty)
		return err_set(err, ERR_INVALID_REQUEST, "--json and -t exclude each other");
	if (tty && !isatty(STDIN_FILENO)) {
		(void)cli_hint(cli, "Leave out -t; -i alone passes standard input on.");
		return err_set(err, ERR_INVALID_REQUEST, "-t needs a terminal on standard input");
	}
	return 0;
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
	const struct exec_way way = { .input = args_flag(args, "interactive"),
				      .tty = args_flag(args, "tty") };
	const char *id = args->operands[0], *window = args_text(args, "window");

	if (check_ways(cli, args, err) < 0)
		return -1;
	req.has_timeout = args_number(args, "timeout", &req.timeout_sec);
	if (args->operand_count < 2)
		return exec_shell(cli, id, args, err);
	if (args_flag(args, "detach"))
		return exec_detached(cli, id, &req, way.input, err);
	if (window != NULL)
		return window_exec(cli, id, window, &req, err);
	return exec_call(cli, id, &req, &way, err);
}
