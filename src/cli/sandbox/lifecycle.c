/* SPDX-License-Identifier: Apache-2.0 */
/* cay pause, hibernate, resume, extend, update, snapshot, restore, fork */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/request.h"
#include "cli/api/resolve.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define BODY_MAX 65536

static void print_text(const struct json *item, const char *member)
{
	struct str text = field_str(item, member);

	(void)printf("%.*s\n", (int)text.n, text.p);
}

/* POST /v1/sandboxes/ID/what; takes ownership of the body. */
static int post(struct cli *cli, const char *id, const char *what, struct json_writer *w,
		struct buf *body, struct json **ret, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/%s", id, what) == 0)
		return api_body_send(cli, "POST", path, w, body, ret, err);
	buf_done(body);
	return -1;
}

/* ---- pause, hibernate, resume, extend: for one or several ---- */

static int move_one(struct cli *cli, const char *id, const char *what, const char *kind,
		    const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	struct json_writer w;
	struct buf body;
	uint64_t timeout;

	w = api_body_begin(&body, BODY_MAX);
	if (kind != NULL)
		json_put_text(&w, "kind", kind);
	else if (args_number(args, "timeout", &timeout))
		json_put_int(&w, "timeout_sec", (int64_t)timeout);
	if (kind == NULL && strcmp(what, "resume") == 0 && args_flag(args, "no-memory"))
		json_put_bool(&w, "memory", false);
	if (post(cli, id, what, &w, &body, &sandbox, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, sandbox, err);
	if (!cli->quiet)
		print_text(sandbox, "id");
	return 0;
}

static int move_all(struct cli *cli, const char *what, const char *kind, const struct args *args,
		    struct err *err)
{
	int worst = 0;

	for (size_t i = 0; i < args->operand_count; i++) {
		if (move_one(cli, args->operands[i], what, kind, args, err) == 0)
			continue;
		worst = cli_report(cli, err);
		if (cli->http_status == 0)
			break; /* the daemon is not reachable: the others would fail as well */
	}
	return worst;
}

int pause_run(struct cli *cli, const struct args *args, struct err *err)
{
	return move_all(cli, "pause", "freeze", args, err);
}

int hibernate_run(struct cli *cli, const struct args *args, struct err *err)
{
	return move_all(cli, "pause", "hibernate", args, err);
}

int resume_run(struct cli *cli, const struct args *args, struct err *err)
{
	return move_all(cli, "resume", NULL, args, err);
}

int extend_run(struct cli *cli, const struct args *args, struct err *err)
{
	return move_all(cli, "extend", NULL, args, err);
}

static void put_switch(struct json_writer *w, const struct args *args, const char *option,
		       const char *member)
{
	if (args_text(args, option) != NULL)
		json_put_bool(w, member, strcmp(args_text(args, option), "on") == 0);
}

static int update_one(struct cli *cli, const char *id, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	char path[API_PATH_MAX];
	struct json_writer w;
	struct buf body;
	uint64_t seconds;

	if (api_path(path, err, "/v1/sandboxes/%s", id) < 0)
		return -1;
	w = api_body_begin(&body, BODY_MAX);
	if (args_text(args, "name") != NULL)
		json_put_text(&w, "name", args_text(args, "name"));
	if (args_number(args, "timeout", &seconds))
		json_put_int(&w, "timeout_sec", (int64_t)seconds);
	if (args_number(args, "idle-timeout", &seconds))
		json_put_int(&w, "idle_timeout_sec", (int64_t)seconds);
	put_switch(&w, args, "always-on", "always_on");
	put_switch(&w, args, "auto-resume", "auto_resume");
	if (args_text(args, "on-timeout") != NULL)
		json_put_text(&w, "on_timeout", args_text(args, "on-timeout"));
	request_pairs(&w, args, "metadata", "metadata");
	if (api_body_send(cli, "PATCH", path, &w, &body, &sandbox, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, sandbox, err);
	if (!cli->quiet)
		print_text(sandbox, "id");
	return 0;
}

int update_run(struct cli *cli, const struct args *args, struct err *err)
{
	int worst = 0;
	bool any = false;

	for (const struct option_spec *o = args->command->options; o->name != NULL; o++)
		any = any || args_flag(args, o->name);
	if (!any)
		return err_set(err, ERR_INVALID_REQUEST, "nothing to change: no option is given");
	if (args->operand_count > 1 && args_text(args, "name") != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "--name needs exactly one sandbox");
	for (size_t i = 0; i < args->operand_count; i++) {
		if (update_one(cli, args->operands[i], args, err) == 0)
			continue;
		worst = cli_report(cli, err);
		if (cli->http_status == 0)
			break;
	}
	return worst;
}

/* ---- snapshots ---- */

/* Warns that requested memory is missing. */
static void warn_memory(struct str why)
{
	(void)fprintf(stderr, "cay: memory was not saved: %.*s\n", (int)why.n, why.p);
}

int snapshot_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *snapshot = NULL;
	const char *comment = args_text(args, "comment");
	struct json_writer w;
	struct buf body;
	uint64_t number;

	w = api_body_begin(&body, BODY_MAX);
	if (args_flag(args, "memory"))
		json_put_bool(&w, "memory", true);
	if (comment != NULL)
		json_put_text(&w, "comment", comment);
	if (args_number(args, "expires", &number))
		json_put_int(&w, "expires_in_sec", (int64_t)number);
	if (args_number(args, "keep-last", &number))
		json_put_int(&w, "keep_last", (int64_t)number);
	if (post(cli, args->operands[0], "snapshots", &w, &body, &snapshot, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, snapshot, err);
	print_text(snapshot, "id");
	if (field_str(snapshot, "memory_error").n)
		warn_memory(field_str(snapshot, "memory_error"));
	return 0;
}

static int snapshot_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	struct str state = field_str(item, "state");
	char size[STYLE_SPAN_SIZE], span[STYLE_SPAN_SIZE] = "";
	int64_t at_ms;

	table_put(table, field_str(item, "id"), STYLE_CYAN);
	table_put(table, field_str(item, "sandbox_id"), STYLE_PLAIN);
	table_put(table, field_str(item, "kind"), STYLE_PLAIN);
	table_put(table, state, str_is(state, "ready") ? STYLE_GREEN : STYLE_RED);
	style_bytes(size, (uint64_t)field_int(item, "size_bytes", 0));
	table_put(table, str_of(size), STYLE_PLAIN);
	if (style_parse_time(field_str(item, "created_at"), &at_ms) == 0)
		style_span(span, (time_real_ms() - at_ms) / 1000);
	table_put(table, str_of(span), STYLE_PLAIN);
	table_put(table, field_str(item, "comment"), STYLE_PLAIN);
	return 0;
}

int snapshot_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "ID",   "SANDBOX", "KIND",    "STATE",
					       "SIZE", "AGE",	  "COMMENT", NULL };
	char path[API_PATH_MAX] = "/v1/snapshots";

	if (args->operand_count > 0 &&
	    api_path(path, err, "/v1/sandboxes/%s/snapshots", args->operands[0]) < 0)
		return -1;
	return show_list(
		cli,
		&(struct show_list){ .path = path,
				     .member = "id",
				     .headers = headers,
				     .row = snapshot_row,
				     .when_empty = "no snapshots; 'cay snapshot ID' creates one" },
		err);
}

int snapshot_rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	return api_delete_each(cli, args, "/v1/snapshots", err);
}

int restore_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	struct json_writer w;
	struct buf body;
	char snapshot[64];

	if (resolve_id(cli, "snapshots", args->operands[1], snapshot, err) < 0)
		return -1;
	w = api_body_begin(&body, BODY_MAX);
	json_put_text(&w, "snapshot_id", snapshot);
	if (args_flag(args, "no-memory"))
		json_put_bool(&w, "memory", false);
	if (post(cli, args->operands[0], "restore", &w, &body, &sandbox, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, sandbox, err);
	if (!cli->quiet)
		print_text(sandbox, "id");
	return 0;
}

/* ---- fork ---- */

int fork_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *answer = NULL;
	const char *name = args_text(args, "name");
	struct json_writer w;
	struct buf body;
	uint64_t number;

	w = api_body_begin(&body, BODY_MAX);
	if (args_number(args, "count", &number))
		json_put_int(&w, "count", (int64_t)number);
	if (args_number(args, "timeout", &number))
		json_put_int(&w, "timeout_sec", (int64_t)number);
	if (args_flag(args, "memory"))
		json_put_bool(&w, "memory", true);
	if (name != NULL)
		json_put_text(&w, "name", name);
	request_pairs(&w, args, "metadata", "metadata");
	if (post(cli, args->operands[0], "fork", &w, &body, &answer, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, answer, err);
	return show_made(cli, answer);
}
