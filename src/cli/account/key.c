/* SPDX-License-Identifier: Apache-2.0 */
/* cay key create, set, info, ls, rm */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

/* The default scopes: what an ordinary client needs. */
static const char *const default_scopes[] = { "sandboxes:read", "sandboxes:write", "exec",
					      "templates:read" };

/* Options max-* become members max_*: a number, 'none' or 'default'. */
static int put_limits(const struct args *args, struct json_writer *w, struct err *err)
{
	static const char *const options[] = { "max-sandboxes", "max-vcpus",
					       "max-memory-mb", "max-disk-mb",
					       "max-snapshots", "max-creates-per-sec" };

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const char *text = args_text(args, options[i]);
		char name[32];
		uint64_t number = 0;

		if (text == NULL)
			continue;
		(void)snprintf(name, sizeof(name), "%s", options[i]);
		for (char *c = name; *c; c++)
			*c = (char)(*c == '-' ? '_' : *c);
		if (strcmp(text, "none") == 0)
			json_put_int(w, name, -1);
		else if (strcmp(text, "default") == 0)
			json_put_int(w, name, 0);
		else if (str_to_u64(str_of(text), INT64_MAX, &number) == 0)
			json_put_int(w, name, (int64_t)number);
		else
			return err_set(err, ERR_INVALID_REQUEST,
				       "--%s takes a number, 'none' or 'default'", options[i]);
	}
	return 0;
}

static int create_body(const struct args *args, struct buf *body, struct err *err)
{
	const char *scope, *name = args_text(args, "name");
	struct json_writer w;
	size_t cursor = 0;

	json_writer_init(&w, body);
	json_begin_object(&w, NULL);
	json_put_text(&w, "name", name != NULL ? name : "cli");
	json_begin_array(&w, "scopes");
	while ((scope = args_next(args, "scope", &cursor)) != NULL)
		json_put_text(&w, NULL, scope);
	for (size_t i = 0; args_text(args, "scope") == NULL && i < ARRAY_LEN(default_scopes); i++)
		json_put_text(&w, NULL, default_scopes[i]);
	json_end_array(&w);
	if (put_limits(args, &w, err) < 0)
		return -1;
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the request is too large");
	return 0;
}

int key_create_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *key = NULL;
	struct str secret;
	struct buf body;
	int r;

	buf_init(&body, 65536);
	r = create_body(args, &body, err);
	if (r == 0)
		r = api_call(cli, "POST", "/v1/keys", &body, &key, err);
	buf_done(&body);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, key, err);
	secret = field_str(key, "key");
	(void)printf("%.*s\n", (int)secret.n, secret.p);
	cli_note(cli, "Save it: it is not shown again.");
	return 0;
}

int key_set_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *key = NULL;
	const char *name = args_text(args, "name");
	char path[API_PATH_MAX];
	struct json_writer w;
	struct buf body;
	int r;

	buf_init(&body, 65536);
	json_writer_init(&w, &body);
	json_begin_object(&w, NULL);
	if (name != NULL)
		json_put_text(&w, "name", name);
	r = put_limits(args, &w, err);
	json_end_object(&w);
	if (r == 0 && json_writer_end(&w) < 0)
		r = err_set(err, ERR_PAYLOAD_TOO_LARGE, "the request is too large");
	if (r == 0)
		r = api_path(path, err, "/v1/keys/%s", args->operands[0]);
	if (r == 0)
		r = api_call(cli, "PATCH", path, &body, &key, err);
	buf_done(&body);
	if (r < 0)
		return -1;
	return cli->json ? api_print(cli, key, err) : 0;
}

int key_info_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *id = args->operand_count > 0 ? args->operands[0] : "self";
	_cleanup_json_ struct json *key = NULL;
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/keys/%s", id) < 0 ||
	    api_call(cli, "GET", path, NULL, &key, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, key, err);
	show_object(stdout, key, cli->color_out);
	return 0;
}

static void put_age(struct table *table, const struct json *item, const char *member)
{
	char span[STYLE_SPAN_SIZE] = "";
	int64_t at_ms;

	if (style_parse_time(field_str(item, member), &at_ms) == 0)
		style_span(span, (time_real_ms() - at_ms) / 1000);
	table_put(table, str_of(span), STYLE_PLAIN);
}

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	const struct json *scopes = field(item, "scopes");
	char text[TABLE_CELL_MAX] = "";

	table_put(table, field_str(item, "id"), STYLE_CYAN);
	table_put(table, field_str(item, "name"), STYLE_PLAIN);
	if (scopes != NULL)
		show_value(text, sizeof(text), scopes);
	table_put(table, str_of(text), STYLE_PLAIN);
	put_age(table, item, "created_at");
	put_age(table, item, "last_used_at");
	return 0;
}

int key_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "ID", "NAME", "SCOPES", "AGE", "LAST USED", NULL };

	return show_list(cli,
			 &(struct show_list){ .path = "/v1/keys",
					      .member = "id",
					      .headers = headers,
					      .row = ls_row,
					      .when_empty = "no keys" },
			 err);
}

int key_rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	return api_delete_each(cli, args, "/v1/keys", err);
}
