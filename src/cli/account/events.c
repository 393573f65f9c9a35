/* SPDX-License-Identifier: Apache-2.0 */
/* cay events, usage */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/api/api.h"
#include "cli/api/sse.h"
#include "cli/api/retry.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define SILENCE_MS 60000 /* the daemon sends something every 15 s */

/* Members of an event's data that are shown in a line. */
static const char *const shown_fields[] = { "name",	 "host",	 "port",       "protocol",
					    "kind",	 "process_id",	 "window",     "run",
					    "exit_code", "signal",	 "reason",     "pause_kind",
					    "message",	 "remaining_ms", "snapshot_id" };

static void print_line(const struct cli *cli, const struct json *event)
{
	const struct json *data = field(event, "data");
	struct str type = field_str(event, "type"), id = field_str(event, "sandbox_id");
	struct str at = field_str(event, "at");
	char text[256], clean[256];
	enum style style = STYLE_PLAIN;

	if (str_is(type, "sandbox.error"))
		style = STYLE_RED;
	else if (str_is(type, "sandbox.deadline"))
		style = STYLE_YELLOW;
	if (cli->quiet) {
		(void)printf("%lld\n", (long long)field_int(event, "id", 0));
		return;
	}
	style_clean(clean, sizeof(clean), at);
	(void)printf("%s%s%s  ", style_on(cli->color_out, STYLE_DIM), clean,
		     style_off(cli->color_out));
	style_clean(clean, sizeof(clean), id);
	(void)printf("%s%-20s%s  ", style_on(cli->color_out, STYLE_CYAN), clean,
		     style_off(cli->color_out));
	style_clean(clean, sizeof(clean), type);
	(void)printf("%s%-20s%s", style_on(cli->color_out, style), clean,
		     style_off(cli->color_out));
	for (size_t i = 0; data != NULL && i < ARRAY_LEN(shown_fields); i++) {
		const struct json *value = field(data, shown_fields[i]);

		if (value == NULL || json_type(value) == JSON_NULL)
			continue;
		show_value(text, sizeof(text), value);
		style_clean(clean, sizeof(clean), str_of(text));
		(void)printf("  %s=%s", shown_fields[i], clean);
	}
	(void)putchar('\n');
}

/* ---- stored events ---- */

static int on_item(void *arg, const struct json *item)
{
	print_line(arg, item);
	return ferror(stdout);
}

static int make_query(const struct args *args, char query[API_PATH_MAX], bool follow,
		      struct err *err)
{
	const char *type = args_text(args, "type"), *after = args_text(args, "after");

	query[0] = '\0';
	if (api_query(query, "format", follow ? "sse" : "json", err) < 0 ||
	    (type != NULL && api_query(query, "type", type, err) < 0))
		return -1;
	if (follow) /* printed again after every reconnect */
		return 0;
	if (after != NULL && api_query(query, "after", after, err) < 0)
		return -1;
	return api_query(query, "limit", "1000", err);
}

/* ---- live events ---- */

struct following {
	struct cli *cli;
	struct err *err;
	struct event_reader events;
	struct retry retry;
	char after[24]; /* the last one seen; empty: none */
	bool ended;	/* the sandbox was removed */
	bool one;
};

static int on_event(void *arg, struct str name, struct str id, struct str data)
{
	struct following *f = arg;
	_cleanup_json_ struct json *doc = json_parse(data, f->err);

	if (doc == NULL)
		return -EPROTO;
	if (id.n > 0 && str_copy(f->after, sizeof(f->after), id) < 0)
		return -EPROTO;
	retry_connected(&f->retry, f->cli);
	if (str_is(name, "gap") && !f->cli->json)
		(void)fprintf(stderr,
			      "cay: %lld events are missing: the daemon no longer stores them\n",
			      (long long)field_int(doc, "events", 0));
	else if (f->cli->json)
		(void)printf("%.*s\n", (int)data.n, data.p);
	else
		print_line(f->cli, doc);
	f->ended = f->one && str_is(name, "sandbox.destroyed");
	return fflush(stdout) == 0 ? 0 : -EPIPE;
}

static int on_piece(void *arg, const char *p, size_t n)
{
	struct following *f = arg;

	return event_feed(&f->events, p, n);
}

/* 0: complete. 1: the connection was lost. -1: err. */
static int stream_once(struct following *f, const char *path, const char *query, struct err *err)
{
	char params[API_PATH_MAX], full[API_PATH_MAX * 2];
	int r;

	(void)snprintf(params, sizeof(params), "%s", query);
	if (f->after[0] != '\0' && api_query(params, "after", f->after, err) < 0)
		return -1;
	(void)snprintf(full, sizeof(full), "%s?%s", path, params);
	event_reset(&f->events);
	if (cli_connect(f->cli, err) == 0)
		http_client_set_timeout(f->cli->http, 5000, SILENCE_MS);
	r = api_stream(f->cli, "GET", full, NULL, on_piece, f, err);
	if (f->ended || r == -EPIPE)
		return 0;
	if (r == -EPROTO)
		return err_set(err, ERR_INTERNAL, "the daemon sent a malformed stream");
	if (r == 0 && f->one)
		return 0; /* it had ended before */
	return r == 0 || f->cli->lost ? 1 : -1;
}

static int follow(struct cli *cli, const struct args *args, const char *path, const char *query,
		  struct err *err)
{
	struct following f = { .cli = cli, .err = err, .one = args->operand_count > 0 };
	const char *after = args_text(args, "after");
	bool first = true;
	int r;

	if (after != NULL && str_copy(f.after, sizeof(f.after), str_of(after)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "--after takes the id of an event");
	event_init(&f.events, on_event, &f);
	while ((r = stream_once(&f, path, query, err)) > 0) {
		/* The daemon was not running from the start: this is not a restart. */
		if (first && cli->lost_error == -ECONNREFUSED) {
			r = -1;
			break;
		}
		first = false;
		if (!retry_wait(&f.retry, cli)) {
			r = err_set(err, ERR_UNAVAILABLE, "the daemon did not restart in time");
			break;
		}
	}
	event_done(&f.events);
	return r;
}

int events_run(struct cli *cli, const struct args *args, struct err *err)
{
	bool live = args_flag(args, "follow");
	char path[API_PATH_MAX] = "/v1/events", query[API_PATH_MAX];

	if (args->operand_count > 0 &&
	    api_path(path, err, "/v1/sandboxes/%s/events", args->operands[0]) < 0)
		return -1;
	if (make_query(args, query, live, err) < 0)
		return -1;
	if (live)
		return follow(cli, args, path, query, err);
	if (cli->json)
		return api_print_list(cli, path, query, NULL, err);
	return api_list(cli, path, query, on_item, cli, err);
}

/* ---- usage ---- */

static void put_value(struct table *table, const struct json *row, const char *name)
{
	char text[64];
	const struct json *value = field(row, name);

	text[0] = '\0';
	if (value != NULL && json_type(value) != JSON_NULL)
		show_value(text, sizeof(text), value);
	if (value != NULL && json_type(value) == JSON_REAL) /* avoids 1.4e-07 */
		(void)snprintf(text, sizeof(text), "%.3f", strtod(text, NULL));
	table_put(table, str_of(text), STYLE_PLAIN);
}

static void put_row(struct table *table, const struct json *row, const char *label)
{
	static const char *const members[] = { "sandboxes",	 "running_seconds",
					       "vcpu_seconds",	 "memory_gib_seconds",
					       "paused_seconds", "paused_storage_gib_seconds" };

	if (label != NULL)
		table_put(table, str_of(label), STYLE_BOLD);
	else
		table_put(table, field_str(row, "key_id"), STYLE_CYAN);
	table_put(table, field_str(row, "external_workspace_id"), STYLE_PLAIN);
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		put_value(table, row, members[i]);
}

int usage_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "KEY",	    "WORKSPACE",  "SANDBOXES",
					       "RUNNING S", "VCPU S",	  "MEM GIB S",
					       "PAUSED S",  "DISK GIB S", NULL };
	static const struct {
		const char *option, *parameter;
	} filters[] = { { "from", "from" },
			{ "to", "to" },
			{ "owner", "key" },
			{ "workspace", "external_workspace_id" } };
	char path[API_PATH_MAX] = "/v1/usage", query[API_PATH_MAX] = "", full[API_PATH_MAX * 2];
	_cleanup_json_ struct json *doc = NULL;
	const struct json *data;
	struct table table;
	int r;

	if (args->operand_count > 0 &&
	    api_path(path, err, "/v1/sandboxes/%s/usage", args->operands[0]) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		const char *value = args_text(args, filters[i].option);

		if (value != NULL && api_query(query, filters[i].parameter, value, err) < 0)
			return -1;
	}
	(void)snprintf(full, sizeof(full), "%s%s%s", path, query[0] != '\0' ? "?" : "", query);
	if (api_call(cli, "GET", full, NULL, &doc, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, doc, err);
	if (args->operand_count > 0) {
		show_object(stdout, doc, cli->color_out);
		return 0;
	}
	table_init(&table, headers);
	data = field(doc, "data");
	for (size_t i = 0; data != NULL && i < json_size(data); i++)
		put_row(&table, json_at(data, i), NULL);
	if (data != NULL && json_size(data) > 1)
		put_row(&table, field(doc, "total"), "total");
	r = show_table(cli, &table, "no usage was recorded", err);
	table_done(&table);
	return r;
}
