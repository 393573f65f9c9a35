/* SPDX-License-Identifier: Apache-2.0 */
/* cay webhook add, ls, info, set, rm, test, deliveries, redeliver */
#include <stdio.h>
#include <string.h>

#include "cli/api/api.h"
#include "cli/api/exit.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define BODY_MAX 65536

static void put_text(struct json_writer *w, const struct args *args, const char *option,
		     const char *member)
{
	if (args_text(args, option) != NULL)
		json_put_text(w, member, args_text(args, option));
}

static void put_options(struct json_writer *w, const struct args *args)
{
	const char *event;
	size_t cursor = 0;

	if (args_text(args, "event") != NULL) {
		json_begin_array(w, "events");
		while ((event = args_next(args, "event", &cursor)) != NULL)
			json_put_text(w, NULL, event);
		json_end_array(w);
	}
	put_text(w, args, "workspace", "external_workspace_id");
	put_text(w, args, "description", "description");
	put_text(w, args, "secret", "secret");
}

int webhook_add_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *hook = NULL;
	struct json_writer w;
	struct buf body;
	struct str text;

	w = api_body_begin(&body, BODY_MAX);
	json_put_text(&w, "url", args->operands[0]);
	put_options(&w, args);
	if (args_flag(args, "disabled"))
		json_put_bool(&w, "enabled", false);
	if (api_body_send(cli, "POST", "/v1/webhooks", &w, &body, &hook, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, hook, err);
	text = field_str(hook, "id");
	(void)printf("%.*s\n", (int)text.n, text.p);
	if (args_text(args, "secret") == NULL) {
		text = field_str(hook, "secret");
		(void)printf("%.*s\n", (int)text.n, text.p);
		cli_note(cli, "Save the second line, the secret: it is not shown again.");
	}
	return 0;
}

int webhook_set_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *hook = NULL;
	char path[API_PATH_MAX];
	struct json_writer w;
	struct buf body;

	if (api_path(path, err, "/v1/webhooks/%s", args->operands[0]) < 0)
		return -1;
	if (args_flag(args, "enable") && args_flag(args, "disable"))
		return err_set(err, ERR_INVALID_REQUEST,
			       "--enable and --disable exclude each other");
	w = api_body_begin(&body, BODY_MAX);
	put_text(&w, args, "to", "url");
	put_options(&w, args);
	if (args_flag(args, "enable") || args_flag(args, "disable"))
		json_put_bool(&w, "enabled", args_flag(args, "enable"));
	if (api_body_send(cli, "PATCH", path, &w, &body, &hook, err) < 0)
		return -1;
	return cli->json ? api_print(cli, hook, err) : 0;
}

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	const struct json *events = field(item, "events"), *enabled = field(item, "enabled");
	bool on = enabled != NULL && json_bool(enabled);
	char text[TABLE_CELL_MAX] = "";

	table_put(table, field_str(item, "id"), STYLE_CYAN);
	table_put(table, field_str(item, "url"), STYLE_PLAIN);
	if (events != NULL && json_size(events) > 0)
		show_value(text, sizeof(text), events);
	table_put(table, text[0] ? str_of(text) : STR_LIT("all"), STYLE_PLAIN);
	if (!on)
		table_put(table, STR_LIT("disabled"), STYLE_DIM);
	else if (field_str(item, "failing_since").n > 0)
		table_put(table, STR_LIT("failing"), STYLE_YELLOW);
	else
		table_put(table, STR_LIT("ok"), STYLE_GREEN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "dead", 0));
	table_put(table, field_str(item, on ? "last_error" : "disabled_reason"), STYLE_PLAIN);
	return 0;
}

int webhook_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "ID",   "URL",	     "EVENTS", "STATE",
					       "DEAD", "LAST ERROR", NULL };

	(void)args;
	return show_list(cli,
			 &(struct show_list){
				 .path = "/v1/webhooks",
				 .member = "id",
				 .headers = headers,
				 .row = ls_row,
				 .when_empty = "no webhooks; 'cay webhook add URL' creates one" },
			 err);
}

int webhook_info_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *hook = NULL;
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/webhooks/%s", args->operands[0]) < 0 ||
	    api_call(cli, "GET", path, NULL, &hook, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, hook, err);
	show_object(stdout, hook, cli->color_out);
	return 0;
}

int webhook_rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	return api_delete_each(cli, args, "/v1/webhooks", err);
}

/* One attempt now; its result is the exit status. */
static int try_path(struct cli *cli, const char *path, struct err *err)
{
	_cleanup_json_ struct json *result = NULL;
	const struct json *delivered;
	struct json_writer w;
	struct buf body;
	struct str why;
	bool ok;

	w = api_body_begin(&body, BODY_MAX);
	if (api_body_send(cli, "POST", path, &w, &body, &result, err) < 0)
		return -1;
	delivered = field(result, "delivered");
	ok = delivered != NULL && json_bool(delivered);
	if (cli->json) {
		if (api_print(cli, result, err) < 0)
			return -1;
	} else if (ok) {
		(void)printf("delivered, status %lld\n", (long long)field_int(result, "status", 0));
	} else {
		why = field_str(result, "error");
		(void)printf("not delivered: %.*s\n", (int)why.n, why.p);
	}
	return ok ? 0 : EXIT_STATUS_RUNTIME;
}

int webhook_test_run(struct cli *cli, const struct args *args, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/webhooks/%s/test", args->operands[0]) < 0)
		return -1;
	return try_path(cli, path, err);
}

int webhook_redeliver_run(struct cli *cli, const struct args *args, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/webhooks/%s/deliveries/%s/redeliver", args->operands[0],
		     args->operands[1]) < 0)
		return -1;
	return try_path(cli, path, err);
}

static int delivery_row(void *arg, const struct json *item)
{
	struct table *table = arg;

	table_printf(table, STYLE_CYAN, "%lld", (long long)field_int(item, "event_id", 0));
	table_put(table, field_str(item, "type"), STYLE_PLAIN);
	table_put(table, field_str(item, "state"), STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "attempts", 0));
	table_put(table, field_str(item, "last_attempt_at"), STYLE_PLAIN);
	table_put(table, field_str(item, "error"), STYLE_PLAIN);
	return 0;
}

int webhook_deliveries_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "EVENT",	       "TYPE",	"STATE", "ATTEMPTS",
					       "LAST ATTEMPT", "ERROR", NULL };
	char path[API_PATH_MAX], query[API_PATH_MAX] = "";

	if (api_path(path, err, "/v1/webhooks/%s/deliveries", args->operands[0]) < 0 ||
	    (args_text(args, "status") != NULL &&
	     api_query(query, "state", args_text(args, "status"), err) < 0))
		return -1;
	return show_list(
		cli,
		&(struct show_list){ .path = path,
				     .query = query,
				     .member = "event_id",
				     .headers = headers,
				     .row = delivery_row,
				     .when_empty = "no delivery is in progress or abandoned" },
		err);
}
