/* SPDX-License-Identifier: Apache-2.0 */
/* cay preview, tunnel, ports */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/api/api.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define BODY_MAX 4096
#define TUNNEL_SEC 3600

static int print_member(struct cli *cli, const struct json *answer, const char *member,
			struct err *err)
{
	struct str text = field_str(answer, member);

	if (cli->json)
		return api_print(cli, answer, err);
	(void)printf("%.*s\n", (int)text.n, text.p);
	return 0;
}

/* A share token, and the address with it. */
static int share(struct cli *cli, const char *id, const char *preview, const struct args *args,
		 struct err *err)
{
	_cleanup_json_ struct json *answer = NULL;
	char path[API_PATH_MAX];
	struct json_writer w;
	struct buf body;
	uint64_t seconds;

	if (api_path(path, err, "/v1/sandboxes/%s/previews/%s/share", id, preview) < 0)
		return -1;
	w = api_body_begin(&body, BODY_MAX);
	if (args_number(args, "expires", &seconds))
		json_put_int(&w, "ttl_sec", (int64_t)seconds);
	if (api_body_send(cli, "POST", path, &w, &body, &answer, err) < 0)
		return -1;
	return print_member(cli, answer, "url", err);
}

static int show_port(struct cli *cli, const struct args *args, uint64_t expires_sec,
		     struct err *err)
{
	_cleanup_json_ struct json *preview = NULL;
	const char *id = args->operands[0];
	char path[API_PATH_MAX], preview_id[64];
	struct json_writer w;
	struct buf body;
	uint64_t port;

	if (str_to_u64(str_of(args->operands[1]), UINT16_MAX, &port) < 0 || port == 0)
		return err_set(err, ERR_INVALID_REQUEST, "'%s' is not a port (1 to 65535)",
			       args->operands[1]);
	if (api_path(path, err, "/v1/sandboxes/%s/previews", id) < 0)
		return -1;
	w = api_body_begin(&body, BODY_MAX);
	json_put_int(&w, "port", (int64_t)port);
	json_put_text(&w, "visibility", args_flag(args, "private") ? "private" : "public");
	if (args_flag(args, "localhost"))
		json_put_text(&w, "host_header", "localhost");
	if (args_flag(args, "reserved"))
		json_put_bool(&w, "allow_reserved", true);
	(void)args_number(args, "expires", &expires_sec);
	if (expires_sec)
		json_put_int(&w, "expires_in_sec", (int64_t)expires_sec);
	if (api_body_send(cli, "POST", path, &w, &body, &preview, err) < 0)
		return -1;
	if (!args_flag(args, "private") || cli->json)
		return print_member(cli, preview, "url", err);
	if (str_copy(preview_id, sizeof(preview_id), field_str(preview, "id")) < 0)
		return err_set(err, ERR_INTERNAL, "the daemon's reply is malformed");
	return share(cli, id, preview_id, args, err);
}

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	long long port = field_int(item, "port", 0);

	table_put(table, field_str(item, "id"), STYLE_CYAN);
	if (port)
		table_printf(table, STYLE_PLAIN, "%lld", port);
	else
		table_put(table, STR_LIT("all"), STYLE_PLAIN); /* created by an E2B client */
	table_put(table, field_str(item, "visibility"), STYLE_PLAIN);
	table_put(table, field_str(item, "url"), STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "requests", 0));
	table_put(table, field_str(item, "expires_at"), STYLE_DIM);
	return 0;
}

static int list(struct cli *cli, const char *id, struct err *err)
{
	static const char *const headers[] = { "ID",	   "PORT",    "VISIBILITY", "URL",
					       "REQUESTS", "EXPIRES", NULL };
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/previews", id) < 0)
		return -1;
	return show_list(cli,
			 &(struct show_list){
				 .path = path,
				 .member = "id",
				 .headers = headers,
				 .row = ls_row,
				 .when_empty = "no previews; 'cay preview ID PORT' creates one" },
			 err);
}

static int drop(struct cli *cli, const char *id, const char *preview, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/previews/%s", id, preview) < 0)
		return -1;
	return api_call(cli, "DELETE", path, NULL, NULL, err);
}

int preview_run(struct cli *cli, const struct args *args, struct err *err)
{
	if (args->operand_count == 1)
		return list(cli, args->operands[0], err);
	if (args->operand_count == 2)
		return show_port(cli, args, 0, err);
	if (strcmp(args->operands[1], "rm") == 0)
		return drop(cli, args->operands[0], args->operands[2], err);
	if (strcmp(args->operands[1], "share") == 0)
		return share(cli, args->operands[0], args->operands[2], args, err);
	return err_set(err, ERR_INVALID_REQUEST, "'%s': expected rm or share", args->operands[1]);
}

int tunnel_run(struct cli *cli, const struct args *args, struct err *err)
{
	return show_port(cli, args, TUNNEL_SEC, err);
}

static int port_row(void *arg, const struct json *item)
{
	struct table *table = arg;

	table_printf(table, STYLE_CYAN, "%lld", (long long)field_int(item, "port", 0));
	table_put(table, field_str(item, "address"), STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "uid", 0));
	if (field_int(item, "pid", 0))
		table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "pid", 0));
	else
		table_put(table, STR_LIT(""), STYLE_PLAIN);
	table_put(table, field_str(item, "process"), STYLE_PLAIN);
	return 0;
}

int ports_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "PORT", "ADDRESS", "UID", "PID", "PROCESS", NULL };
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/ports", args->operands[0]) < 0)
		return -1;
	return show_list(cli,
			 &(struct show_list){ .path = path,
					      .member = "port",
					      .headers = headers,
					      .row = port_row,
					      .when_empty = "no port is listening" },
			 err);
}
