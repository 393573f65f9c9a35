/* SPDX-License-Identifier: Apache-2.0 */
/* cay create, ls, info, shell, rm */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/exit.h"
#include "cli/api/request.h"
#include "cli/api/resolve.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

int create_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	struct str id;
	int r;

	r = request_sandbox(cli, args, &sandbox, err);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, sandbox, err);
	if (field(sandbox, "data") != NULL)
		return show_made(cli, sandbox);
	id = field_str(sandbox, "id");
	(void)printf("%.*s\n", (int)id.n, id.p);
	return 0;
}

/* Seconds from now until the time in a member; false if it has none. */
static bool seconds_until(const struct json *item, const char *name, int64_t *ret)
{
	int64_t at_ms;

	if (field_str(item, name).n == 0 || style_parse_time(field_str(item, name), &at_ms) < 0)
		return false;
	*ret = (at_ms - time_real_ms()) / 1000;
	return true;
}

/* 1, or 0.5. */
static void put_number(struct table *table, const struct json *value)
{
	char text[64] = "";

	if (value != NULL)
		show_value(text, sizeof(text), value);
	table_put(table, str_of(text), STYLE_PLAIN);
}

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	struct str state = show_state(item), template = field_str(item, "template_id");
	char span[STYLE_SPAN_SIZE] = "", memory[STYLE_SPAN_SIZE];
	int64_t seconds;

	table_put(table, field_str(item, "id"), STYLE_CYAN);
	table_put(table, field_str(item, "name"), STYLE_PLAIN);
	table_put(table, state, style_of_state(state));
	table_put(table, template.n > 0 ? template : field_str(item, "template"), STYLE_PLAIN);
	table_put(table, field_str(item, "engine"), STYLE_PLAIN);
	if (seconds_until(item, "created_at", &seconds))
		style_span(span, -seconds);
	table_put(table, str_of(span), STYLE_PLAIN);
	if (str_is(field_str(item, "state"), "paused")) /* its clocks are stopped */
		table_put(table, STR_LIT("-"), STYLE_DIM);
	else if (!seconds_until(item, "expires_at", &seconds))
		table_put(table, STR_LIT("never"), STYLE_DIM);
	else {
		style_span(span, seconds);
		table_put(table, str_of(span), seconds < 30 ? STYLE_YELLOW : STYLE_PLAIN);
	}
	put_number(table, field(item, "cpu_count"));
	style_bytes(memory, (uint64_t)field_int(item, "memory_mb", 0) << 20);
	table_put(table, str_of(memory), STYLE_PLAIN);
	return 0;
}

static int ls_query(const struct args *args, char query[API_PATH_MAX], struct err *err)
{
	static const struct {
		const char *option, *parameter;
	} filters[] = { { "status", "state" }, { "template", "template" }, { "engine", "engine" } };
	size_t cursor = 0;
	const char *pair;

	query[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		const char *value = args_text(args, filters[i].option);

		if (i == 0 && value != NULL && strcmp(value, "hibernated") == 0)
			value = "paused"; /* is_hibernated() checks the rest */

		if (value != NULL && api_query(query, filters[i].parameter, value, err) < 0)
			return -1;
	}
	while ((pair = args_next(args, "metadata", &cursor)) != NULL) {
		char name[300];

		(void)snprintf(name, sizeof(name), "metadata.%.*s",
			       (int)MIN(strcspn(pair, "="), 255), pair);
		if (api_query(query, name, strchr(pair, '=') + 1, err) < 0)
			return -1;
	}
	return 0;
}

static bool is_hibernated(const struct json *item)
{
	return str_is(show_state(item), "hibernated");
}

int ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "ID",  "NAME",	 "STATE", "TEMPLATE", "ENGINE",
					       "AGE", "EXPIRES", "CPU",	  "MEMORY",   NULL };
	const char *status = args_text(args, "status");
	bool asleep = status != NULL && strcmp(status, "hibernated") == 0;
	char query[API_PATH_MAX];

	if (args->operand_count > 0)
		return files_ls_run(cli, args, err);
	if (ls_query(args, query, err) < 0)
		return -1;
	return show_list(
		cli,
		&(struct show_list){ .path = "/v1/sandboxes",
				     .query = query,
				     .keep = asleep ? is_hibernated : NULL,
				     .member = "id",
				     .headers = headers,
				     .row = ls_row,
				     .when_empty = "no sandboxes; 'cay create' creates one" },
		err);
}

int info_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s", args->operands[0]) < 0 ||
	    api_call(cli, "GET", path, NULL, &sandbox, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, sandbox, err);
	show_object(stdout, sandbox, cli->color_out);
	return 0;
}

/* ---- shell ---- */

static void add_value(struct args *args, const struct option_spec *spec, const char *text)
{
	if (args->value_count < ARGS_VALUES_MAX)
		args->values[args->value_count++] =
			(struct arg_value){ .spec = spec, .text = text };
}

/* The sandbox of that name; created if it does not exist and --create is given. */
static int shell_sandbox(struct cli *cli, const struct args *args, char id[64], struct err *err)
{
	static const struct option_spec name = { .name = "name", .kind = OPTION_TEXT };
	_cleanup_json_ struct json *made = NULL;
	struct args create = *args;

	if (resolve_id(cli, "sandboxes", args->operands[0], id, err) == 0)
		return 0;
	if (err->code != ERR_SANDBOX_NOT_FOUND)
		return -1;
	if (!args_flag(args, "create"))
		return cli_hint(cli, "Create it with: cay shell --create %.100s",
				args->operands[0]);
	add_value(&create, &name, args->operands[0]);
	if (request_sandbox(cli, &create, &made, err) < 0)
		return -1;
	cli_note(cli, "cay: created sandbox %.100s", args->operands[0]);
	return str_copy(id, 64, field_str(made, "id"));
}

int shell_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const struct option_spec tty = { .name = "tty" }, user = { .name = "user" },
					cwd = { .name = "cwd" };
	struct args exec = { .command = args->command, .operand_count = 1 };
	char id[64] = "";
	const char *operands[] = { id };

	if (!isatty(STDIN_FILENO)) {
		(void)cli_hint(cli, "Commands from a pipe or file: cay exec -i %.100s -- bash",
			       args->operands[0]);
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay shell' needs a terminal on standard input");
	}
	if (shell_sandbox(cli, args, id, err) < 0)
		return -1;
	exec.operands = operands;
	add_value(&exec, &tty, NULL);
	if (args_text(args, "user") != NULL)
		add_value(&exec, &user, args_text(args, "user"));
	if (args_text(args, "cwd") != NULL)
		add_value(&exec, &cwd, args_text(args, "cwd"));
	return exec_run(cli, &exec, err);
}

/* ---- rm ---- */

/* The ids for --all, collected before the first removal so that pages do not shift. */
struct id_list {
	char (*ids)[64];
	size_t count, capacity;
	int error;
};

static int gather_id(void *arg, const struct json *item)
{
	struct id_list *list = arg;

	if (list->count == list->capacity) {
		size_t capacity = list->capacity != 0 ? list->capacity * 2 : 64;
		void *grown = reallocarray(list->ids, capacity, sizeof(*list->ids));

		if (grown == NULL)
			return -1;
		list->ids = grown;
		list->capacity = capacity;
	}
	if (str_copy(list->ids[list->count], sizeof(*list->ids), field_str(item, "id")) == 0)
		list->count++;
	return 0;
}

static int rm_one(struct cli *cli, const char *id, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s", id) < 0 ||
	    api_call(cli, "DELETE", path, NULL, NULL, err) < 0)
		return -1;
	if (!cli->quiet && !cli->json)
		(void)printf("%s\n", id);
	return 0;
}

int rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct id_list list = { 0 };
	bool all = args_flag(args, "all");
	int worst = 0, r = 0;

	if (all == (args->operand_count > 0)) {
		(void)cli_hint(cli, "cay rm --help");
		return err_set(err, ERR_INVALID_REQUEST,
			       all ? "ids and --all exclude each other"
				   : "'cay rm' needs ID... or --all");
	}
	if (all)
		r = api_list(cli, "/v1/sandboxes", NULL, gather_id, &list, err);
	for (size_t i = 0; r == 0 && i < (all ? list.count : args->operand_count); i++) {
		if (rm_one(cli, all ? list.ids[i] : args->operands[i], err) == 0)
			continue;
		/* With --all, a sandbox that was removed meanwhile is not an error. */
		if (all && cli->http_status == 404)
			continue;
		worst = cli_report(cli, err);
		if (cli->http_status == 0)
			break; /* the daemon is not reachable: the others would fail as well */
	}
	free(list.ids);
	return r < 0 ? -1 : worst;
}
