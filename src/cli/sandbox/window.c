/* SPDX-License-Identifier: Apache-2.0 */
/* cay exec -w, cay windows */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/session/process_end.h"
#include "cli/api/exit.h"
#include "cli/session/follow.h"
#include "cli/session/interrupt.h"
#include "cli/api/request.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define FIRST_WAIT_MS 50     /* a command that ends sooner needs no second call */
#define WHOLE_WAIT_MS 600000 /* with --json: the API's maximum */
#define LEAST_DELAY_MS 20    /* between two requests */
#define MOST_DELAY_MS 250
#define READ_BYTES 1048576

/* A command in a window, polled until it has ended. */
struct window {
	struct cli *cli;
	const char *sandbox, *name;
	int64_t run;
	int64_t cursor;
	bool idle;  /* it had ended at the last poll */
	bool other; /* another command replaced it */
	bool all;   /* all output was read */
	int output_error;
	struct buf bytes;
	struct interrupt interrupt;
	struct retry retry;
};

static int pass_on(struct window *w, const struct json *doc)
{
	int64_t gap = field_int(doc, "gap_bytes", 0);
	struct str bytes;

	if (follow_bytes(doc, "output", "output_b64", &w->bytes, &bytes) < 0)
		return -EPROTO;
	if (gap > 0)
		(void)fprintf(
			stderr,
			"cay: output lost: %lld bytes were overwritten before they were read\n",
			(long long)gap);
	w->cursor = field_int(doc, "cursor", w->cursor);
	w->all = bytes.n == 0;
	return follow_write(STDOUT_FILENO, bytes);
}

static int run_body(const struct exec_request *req, int wait_ms, struct buf *body, struct err *err)
{
	struct json_writer w;
	struct buf command;
	int r = 0;

	if (req->shell && req->count != 1)
		return err_set(err, ERR_INVALID_REQUEST,
			       "-c takes the command as one argument, not %zu", req->count);
	buf_init(&command, REQUEST_BODY_MAX);
	/* A window is a shell: one argument is its text, as with ssh; several are words. */
	r = req->count == 1 ? buf_puts(&command, req->words[0])
			    : request_quote(req->words, req->count, &command);
	if (r == 0 && !str_is_utf8(buf_data(&command), buf_len(&command))) {
		buf_done(&command);
		return err_set(err, ERR_INVALID_REQUEST, "the command is not valid UTF-8");
	}
	json_writer_init(&w, body);
	json_begin_object(&w, NULL);
	json_put_str(&w, "command", buf_str(&command));
	json_put_int(&w, "wait_ms", wait_ms);
	json_put_int(&w, "max_output_bytes", READ_BYTES);
	if (req->user != NULL)
		json_put_text(&w, "user", req->user);
	if (req->cwd != NULL)
		json_put_text(&w, "cwd", req->cwd);
	if (req->env_from != NULL)
		request_pairs(&w, req->env_from, "env", "env");
	json_end_object(&w);
	if (r == 0)
		r = json_writer_end(&w);
	buf_done(&command);
	return r < 0 ? err_set(err, ERR_PAYLOAD_TOO_LARGE, "the command is too long") : 0;
}

/* First a Ctrl-C in the window, then an empty command that replaces it. */
static void on_interrupt(void *arg, const char *signal_name, int count)
{
	struct window *w = arg;
	struct cli other = *w->cli;
	struct err err = { 0 };
	char path[API_PATH_MAX];
	struct buf body;

	(void)signal_name;
	other.http = NULL;
	other.error_body = NULL;
	other.wake_fd = -1;
	buf_init(&body, 128);
	if (api_path(path, &err,
		     count == 1 ? "/v1/sandboxes/%s/windows/%s/input"
				: "/v1/sandboxes/%s/windows/%s/run",
		     w->sandbox, w->name) == 0 &&
	    buf_puts(&body, count == 1 ? "{\"data\":\"\\u0003\"}"
				       : "{\"command\":\":\",\"wait_ms\":0}") == 0)
		(void)!api_call(&other, "POST", path, &body, NULL, &err);
	buf_done(&body);
	cli_done(&other);
}

static int read_more(struct window *w, struct json **ret, struct err *err)
{
	char path[API_PATH_MAX], number[32], query[API_PATH_MAX] = "";
	char full[2 * API_PATH_MAX];

	(void)snprintf(number, sizeof(number), "%lld", (long long)w->cursor);
	if (api_path(path, err, "/v1/sandboxes/%s/windows/%s", w->sandbox, w->name) < 0 ||
	    api_query(query, "cursor", number, err) < 0)
		return -1;
	(void)snprintf(full, sizeof(full), "%s?%s&max_bytes=%d", path, query, READ_BYTES);
	return api_call(w->cli, "GET", full, NULL, ret, err);
}

/* One poll; *last becomes the newest reply. 0, or -1 with err set. */
static int look(struct window *w, struct json **last, struct err *err)
{
	struct json *doc = NULL;
	int r;

	while (read_more(w, &doc, err) < 0)
		if (!w->cli->lost || !retry_wait(&w->retry, w->cli))
			return -1;
	retry_connected(&w->retry, w->cli);
	json_free(*last);
	*last = doc;
	w->other = field_int(doc, "run", 0) != w->run;
	w->idle = !str_is(field_str(doc, "state"), "busy");
	if (w->other)
		return 0;
	r = pass_on(w, doc);
	if (r == -EPROTO)
		return err_set(err, ERR_INTERNAL, "the daemon's reply has malformed base64");
	w->output_error = r;
	return 0;
}

static int watch(struct window *w, struct json **last, struct err *err)
{
	int delay_ms = LEAST_DELAY_MS;

	while (!(w->idle && w->all) && !w->other && w->output_error == 0) {
		struct pollfd pfd = { .fd = w->interrupt.fd, .events = POLLIN };

		if (w->all && poll(&pfd, 1, delay_ms) > 0 && interrupt_check(&w->interrupt) < 0)
			return 0;
		if (look(w, last, err) < 0)
			return w->interrupt.leave ? 0 : -1;
		delay_ms = w->all ? MIN(delay_ms * 2, MOST_DELAY_MS) : LEAST_DELAY_MS;
	}
	return 0;
}

static int outcome(struct window *w, const struct json *last, struct err *err)
{
	if (w->interrupt.leave) {
		cli_note(w->cli, "cay: detached; the command continues in window %s", w->name);
		return 128 + w->interrupt.caught;
	}
	if (w->output_error == -EPIPE) {
		on_interrupt(w, "PIPE", 1);
		return 128 + SIGPIPE;
	}
	if (w->output_error < 0)
		return err_set_errno(err, ERR_INTERNAL, -w->output_error,
				     "cannot write the output");
	if (w->other) {
		cli_note(w->cli, "cay: the command was cancelled by another one in this window");
		return 128 + SIGINT;
	}
	if (w->interrupt.count == 0)
		process_end_print(w->cli, last, 0);
	return process_end_status(last);
}

static int start(struct window *w, const struct exec_request *req, int wait_ms, struct json **ret,
		 struct err *err)
{
	char path[API_PATH_MAX];
	struct buf body;
	int r;

	if (api_path(path, err, "/v1/sandboxes/%s/windows/%s/run", w->sandbox, w->name) < 0 ||
	    cli_connect(w->cli, err) < 0)
		return -1;
	http_client_set_timeout(w->cli->http, 5000, WHOLE_WAIT_MS + 30000);
	buf_init(&body, REQUEST_BODY_MAX);
	r = run_body(req, wait_ms, &body, err);
	if (r == 0)
		r = api_call(w->cli, "POST", path, &body, ret, err);
	buf_done(&body);
	return r;
}

static int run_live(struct window *w, const struct exec_request *req, struct err *err)
{
	struct json *last = NULL;
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)fflush(NULL);
	buf_init(&w->bytes, API_BODY_LIMIT_BYTES);
	interrupt_begin(&w->interrupt, w->cli, on_interrupt, w);
	r = start(w, req, FIRST_WAIT_MS, &last, err);
	if (r == 0) {
		w->run = field_int(last, "run", 0);
		w->idle = str_is(field_str(last, "state"), "exited");
		if (field_bool(last, "cancelled"))
			cli_note(w->cli, "cay: the command that ran in this window was cancelled");
		w->output_error = pass_on(w, last);
		w->all = w->all || (w->idle && !field_bool(last, "truncated"));
		r = watch(w, &last, err);
	}
	if (r == 0)
		r = outcome(w, last, err);
	interrupt_end(&w->interrupt);
	json_free(last);
	buf_done(&w->bytes);
	return r;
}

int window_exec(struct cli *cli, const char *id, const char *window, const struct exec_request *req,
		struct err *err)
{
	struct window w = { .cli = cli, .sandbox = id, .name = window };
	_cleanup_json_ struct json *answer = NULL;

	if (req->has_timeout)
		return err_set(err, ERR_INVALID_REQUEST,
			       "--window and --timeout exclude each other");
	if (!cli->json)
		return run_live(&w, req, err);
	if (start(&w, req, WHOLE_WAIT_MS, &answer, err) < 0 || api_print(cli, answer, err) < 0)
		return -1;
	return str_is(field_str(answer, "state"), "exited") ? process_end_status(answer)
							    : EXIT_STATUS_TIMED_OUT;
}

/* A number of seconds, with or without its fraction. */
static int64_t whole_seconds(const struct json *value)
{
	char text[64] = "";
	uint64_t seconds = 0;
	struct str whole;

	if (value != NULL)
		show_value(text, sizeof(text), value);
	whole = (struct str){ text, strcspn(text, ".") };
	return str_to_u64(whole, INT64_MAX, &seconds) == 0 ? (int64_t)seconds : 0;
}

static int window_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	struct str state = field_str(item, "state");
	char span[STYLE_SPAN_SIZE];
	bool busy = str_is(state, "busy");

	table_put(table, field_str(item, "name"), STYLE_CYAN);
	table_put(table, state, busy ? STYLE_GREEN : STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "run", 0));
	if (busy || field(item, "exit_code") == NULL)
		table_put(table, STR_LIT(""), STYLE_PLAIN);
	else
		table_printf(table, STYLE_PLAIN, "%d", process_end_status(item));
	style_span(span, whole_seconds(field(item, "idle_sec")));
	table_put(table, str_of(span), STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "process_id", 0));
	return 0;
}

static int windows_list(struct cli *cli, const char *id, struct err *err)
{
	static const char *const headers[] = { "NAME", "STATE",	  "RUN", "STATUS",
					       "IDLE", "PROCESS", NULL };
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/windows", id) < 0)
		return -1;
	return show_list(
		cli,
		&(struct show_list){ .path = path,
				     .member = "name",
				     .headers = headers,
				     .row = window_row,
				     .when_empty = "no windows; 'cay exec -w NAME' creates one" },
		err);
}

/* The output of the last command so far, or everything from a cursor on. */
static int windows_read(struct cli *cli, const struct args *args, struct err *err)
{
	struct window w = { .cli = cli, .sandbox = args->operands[0], .name = args->operands[2] };
	_cleanup_json_ struct json *doc = NULL;
	char path[API_PATH_MAX], full[2 * API_PATH_MAX];
	uint64_t cursor;
	int r;

	if (api_path(path, err, "/v1/sandboxes/%s/windows/%s", w.sandbox, w.name) < 0)
		return -1;
	(void)snprintf(full, sizeof(full), "%s?max_bytes=%d", path, READ_BYTES);
	if (args_number(args, "cursor", &cursor))
		(void)snprintf(full, sizeof(full), "%s?max_bytes=%d&cursor=%llu", path, READ_BYTES,
			       (unsigned long long)cursor);
	if (api_call(cli, "GET", full, NULL, &doc, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, doc, err);
	buf_init(&w.bytes, API_BODY_LIMIT_BYTES);
	r = pass_on(&w, doc);
	while (r == 0 && !w.all) {
		struct json *more = NULL;

		if (read_more(&w, &more, err) < 0) {
			buf_done(&w.bytes);
			return -1;
		}
		r = pass_on(&w, more);
		json_free(more);
	}
	buf_done(&w.bytes);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, -r, "cannot write the output") : 0;
}

int windows_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *verb = args->operand_count > 1 ? args->operands[1] : NULL;
	char path[API_PATH_MAX];

	if (verb == NULL)
		return windows_list(cli, args->operands[0], err);
	if (args->operand_count != 3 || (strcmp(verb, "read") != 0 && strcmp(verb, "close") != 0)) {
		(void)cli_hint(cli, "cay windows --help");
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay windows ID' takes 'read NAME' or 'close NAME'");
	}
	if (strcmp(verb, "read") == 0)
		return windows_read(cli, args, err);
	if (api_path(path, err, "/v1/sandboxes/%s/windows/%s", args->operands[0],
		     args->operands[2]) < 0)
		return -1;
	return api_call(cli, "DELETE", path, NULL, NULL, err);
}
