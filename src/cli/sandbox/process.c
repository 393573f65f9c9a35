/* SPDX-License-Identifier: Apache-2.0 */
/* cay ps, logs, attach, kill */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/session/process_end.h"
#include "cli/api/exit.h"
#include "cli/session/follow.h"
#include "cli/session/session.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define ATTACH_BACK_BYTES 65536 /* earlier output shown for a process without a terminal */

struct ps {
	struct table table;
	bool all;
	bool ids_only;
};

static void put_age(struct table *table, const struct json *item)
{
	char span[STYLE_SPAN_SIZE] = "";
	int64_t at_ms;

	if (style_parse_time(field_str(item, "started_at"), &at_ms) == 0)
		style_span(span, (time_real_ms() - at_ms) / 1000);
	table_put(table, str_of(span), STYLE_PLAIN);
}

/* "0", "137 oom", "143 SIGTERM": the status, and the reason if it did not end by itself. */
static void put_end(struct table *table, const struct json *item)
{
	struct str reason = field_str(item, "reason");
	int status;

	if (!str_is(field_str(item, "state"), "exited")) {
		table_put(table, STR_LIT(""), STYLE_PLAIN);
		return;
	}
	status = process_end_status(item);
	if (str_is(reason, "exited") || reason.n == 0)
		table_printf(table, status == 0 ? STYLE_PLAIN : STYLE_YELLOW, "%d", status);
	else
		table_printf(table, STYLE_YELLOW, "%d %.*s", status, (int)MIN(reason.n, 40),
			     reason.p);
}

static int ps_row(void *arg, const struct json *item)
{
	struct ps *ps = arg;
	struct str state = field_str(item, "state"), name = field_str(item, "name");
	struct str window = field_str(item, "window");
	bool runs = str_is(state, "running");

	if (!runs && !ps->all)
		return 0;
	if (ps->ids_only) {
		(void)printf("%lld\n", (long long)field_int(item, "process_id", 0));
		return 0;
	}
	table_printf(&ps->table, STYLE_CYAN, "%lld", (long long)field_int(item, "process_id", 0));
	if (window.n > 0)
		table_printf(&ps->table, STYLE_PLAIN, "window %.*s", (int)MIN(window.n, 64),
			     window.p);
	else
		table_put(&ps->table, name, STYLE_PLAIN);
	table_put(&ps->table, state, runs ? STYLE_GREEN : STYLE_DIM);
	table_put(&ps->table, field_str(item, "user"), STYLE_PLAIN);
	table_put(&ps->table, field_bool(item, "tty") ? STR_LIT("yes") : STR_LIT(""), STYLE_PLAIN);
	put_age(&ps->table, item);
	put_end(&ps->table, item);
	table_put(&ps->table, field_str(item, "command"), STYLE_PLAIN);
	return 0;
}

/* "pid:123" as cay kill takes it. */
static void orphan_row(struct ps *ps, const struct json *item)
{
	if (ps->ids_only) {
		(void)printf("pid:%lld\n", (long long)field_int(item, "pid", 0));
		return;
	}
	table_printf(&ps->table, STYLE_CYAN, "pid:%lld", (long long)field_int(item, "pid", 0));
	table_put(&ps->table, STR_LIT(""), STYLE_PLAIN);
	table_put(&ps->table, STR_LIT("orphan"), STYLE_YELLOW);
	table_put(&ps->table, field_str(item, "user"), STYLE_PLAIN);
	table_put(&ps->table, STR_LIT(""), STYLE_PLAIN);
	put_age(&ps->table, item);
	table_put(&ps->table, STR_LIT(""), STYLE_PLAIN);
	table_put(&ps->table, field_str(item, "command"), STYLE_PLAIN);
}

static void ps_rows(struct ps *ps, const struct json *doc)
{
	const struct json *data = field(doc, "data"), *orphans = field(doc, "orphans");

	for (size_t i = 0; data && i < json_size(data); i++)
		(void)ps_row(ps, json_at(data, i));
	for (size_t i = 0; orphans && i < json_size(orphans); i++)
		orphan_row(ps, json_at(orphans, i));
}

int ps_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "ID",  "NAME", "STATE",	 "USER", "TTY",
					       "AGE", "END",  "COMMAND", NULL };
	struct ps ps = { .all = args_flag(args, "all"), .ids_only = cli->quiet };
	_cleanup_json_ struct json *doc = NULL;
	char path[API_PATH_MAX];
	int r = 0;

	if (api_path(path, err, "/v1/sandboxes/%s/processes", args->operands[0]) < 0)
		return -1;
	if (api_call(cli, "GET", path, NULL, &doc, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, doc, err);
	table_init(&ps.table, headers);
	ps_rows(&ps, doc);
	if (!ps.ids_only)
		r = show_table(cli, &ps.table,
			       ps.all ? "no processes"
				      : "no running processes; -a shows finished ones, too",
			       err);
	table_done(&ps.table);
	return r;
}

/* "N" or "N:M". */
static int parse_cursor(const char *text, uint64_t *ret_out, uint64_t *ret_err, struct err *err)
{
	struct str out = str_of(text), errs;
	bool both = str_cut(out, ':', &out, &errs);

	*ret_err = 0;
	if (str_to_u64(out, INT64_MAX, ret_out) < 0 ||
	    (both && str_to_u64(errs, INT64_MAX, ret_err) < 0))
		return err_set(err, ERR_INVALID_REQUEST,
			       "--cursor takes a number of bytes, or two as OUT:ERR, not '%s'",
			       text);
	return 0;
}

static int logs_query(const struct args *args, char query[API_PATH_MAX], struct err *err)
{
	const char *cursor = args_text(args, "cursor"), *tail = args_text(args, "tail");
	uint64_t out, errs;

	query[0] = '\0';
	if (cursor != NULL && tail != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "--cursor and --tail exclude each other");
	if (cursor != NULL && (parse_cursor(cursor, &out, &errs, err) < 0 ||
			       api_query(query, "cursor", cursor, err) < 0))
		return -1;
	return tail != NULL ? api_query(query, "tail", tail, err) : 0;
}

static int logs_json(struct cli *cli, const struct args *args, const char *query, struct err *err)
{
	_cleanup_json_ struct json *doc = NULL;
	char path[API_PATH_MAX], full[2 * API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/processes/%s/output", args->operands[0],
		     args->operands[1]) < 0)
		return -1;
	(void)snprintf(full, sizeof(full), "%s?format=json%s%s", path, query[0] != '\0' ? "&" : "",
		       query);
	if (api_call(cli, "GET", full, NULL, &doc, err) < 0)
		return -1;
	return api_print(cli, doc, err);
}

int logs_run(struct cli *cli, const struct args *args, struct err *err)
{
	bool live = args_flag(args, "follow");
	char query[API_PATH_MAX];
	struct follow follow;
	int r;

	if (logs_query(args, query, err) < 0)
		return -1;
	if (cli->json && !live)
		return logs_json(cli, args, query, err);
	follow_init(&follow, cli, args->operands[0], live);
	(void)snprintf(follow.query, sizeof(follow.query), "%s", query);
	if (str_copy(follow.process, sizeof(follow.process), str_of(args->operands[1])) < 0)
		r = err_set(err, ERR_INVALID_REQUEST, "the name of the process is too long");
	else
		r = follow_run(&follow, err);
	follow_done(&follow);
	return r == 0 && follow.lost ? EXIT_STATUS_CAY_FAILED : r;
}

static void attach_from(struct session *session, const struct json *process)
{
	int64_t out = field_int(process, "stdout_cursor", 0) - ATTACH_BACK_BYTES;
	int64_t errs = field_int(process, "stderr_cursor", 0) - ATTACH_BACK_BYTES;

	session->known = true;
	session->out_cursor = (uint64_t)MAX(out, field_int(process, "stdout_begin", 0));
	session->err_cursor = (uint64_t)MAX(errs, field_int(process, "stderr_begin", 0));
}

int attach_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct session session = { .cli = cli,
				   .sandbox = args->operands[0],
				   .input = true,
				   .keep_stdin_open = !isatty(STDIN_FILENO) };
	const char *cursor = args_text(args, "cursor");
	_cleanup_json_ struct json *process = NULL;
	char path[API_PATH_MAX];

	if (cli->json)
		return err_set(err, ERR_INVALID_REQUEST,
			       "--json is not supported here; use 'cay logs --json'");
	if (str_copy(session.process, sizeof(session.process), str_of(args->operands[1])) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the name of the process is too long");
	if (api_path(path, err, "/v1/sandboxes/%s/processes/%s", args->operands[0],
		     args->operands[1]) < 0 ||
	    api_call(cli, "GET", path, NULL, &process, err) < 0)
		return -1;
	session.tty = field_bool(process, "tty") && isatty(STDIN_FILENO);
	if (cursor != NULL) {
		if (parse_cursor(cursor, &session.out_cursor, &session.err_cursor, err) < 0)
			return -1;
		session.known = true;
	} else if (!field_bool(process, "tty")) {
		attach_from(&session, process);
	}
	return session_run(&session, err);
}

static int kill_one(struct cli *cli, const struct args *args, const char *process, int signum,
		    struct err *err)
{
	bool stop = args_flag(args, "stop");
	char path[API_PATH_MAX];
	struct buf body;
	int r;

	if (api_path(path, err,
		     stop ? "/v1/sandboxes/%s/processes/%s"
			  : "/v1/sandboxes/%s/processes/%s/signal",
		     args->operands[0], process) < 0)
		return -1;
	if (stop)
		return api_call(cli, "DELETE", path, NULL, NULL, err);
	buf_init(&body, 64);
	r = buf_printf(&body, "{\"signal\":%d}", signum);
	r = r == 0 ? api_call(cli, "POST", path, &body, NULL, err) : -1;
	buf_done(&body);
	return r;
}

static int kill_all(struct cli *cli, const struct args *args, struct err *err)
{
	char path[API_PATH_MAX];

	if (args->operand_count > 1 || args_text(args, "signal") != NULL || args_flag(args, "stop"))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"--all ends every process with KILL; it takes no PROCESS and neither "
			"--signal nor --stop");
	if (api_path(path, err, "/v1/sandboxes/%s/processes", args->operands[0]) < 0)
		return -1;
	return api_call(cli, "DELETE", path, NULL, NULL, err);
}

int kill_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *given = args_text(args, "signal");
	char name[32] = "TERM";
	int signum, worst = 0;

	if (args_flag(args, "all"))
		return kill_all(cli, args, err);
	if (args->operand_count < 2)
		return err_set(err, ERR_INVALID_REQUEST,
			       "cay kill needs a PROCESS (see 'cay ps %s'), or --all",
			       args->operands[0]);

	if (given != NULL && args_flag(args, "stop"))
		return err_set(err, ERR_INVALID_REQUEST, "--signal and --stop exclude each other");
	if (given != NULL && str_copy(name, sizeof(name), str_of(given)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "there is no such signal");
	for (char *p = name; *p != '\0'; p++)
		*p = (char)toupper((unsigned char)*p);
	signum = signal_number(str_of(name));
	if (signum == 0)
		return err_set(err, ERR_INVALID_REQUEST, "there is no signal '%s'", name);
	for (size_t i = 1; i < args->operand_count; i++) {
		if (kill_one(cli, args, args->operands[i], signum, err) == 0)
			continue;
		worst = cli_report(cli, err);
		if (cli->http_status == 0)
			break; /* the daemon is not reachable: the others would fail as well */
	}
	return worst;
}
