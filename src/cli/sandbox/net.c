/* SPDX-License-Identifier: Apache-2.0 */
/* cay net allow, deny, mode, denials, learn: what a sandbox may reach */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/line/args.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define BODY_MAX (1024 * 1024)

static int get_network(struct cli *cli, const char *id, struct json **ret_doc,
		       const struct json **ret_network, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s", id) < 0 ||
	    api_call(cli, "GET", path, NULL, ret_doc, err) < 0)
		return -1;
	*ret_network = field(*ret_doc, "network");
	return *ret_network != NULL
		       ? 0
		       : err_set(err, ERR_INTERNAL, "the daemon's reply has no network");
}

static bool has_entry(const struct args *args, struct str entry)
{
	for (size_t i = 1; i < args->operand_count; i++)
		if (str_is(entry, args->operands[i]))
			return true;
	return false;
}

/* The current list with the operands added or removed. */
static void put_list(struct json_writer *w, const char *key, const struct json *list,
		     const struct args *args, bool add)
{
	size_t count = list != NULL ? json_size(list) : 0;

	json_begin_array(w, key);
	for (size_t i = 0; i < count; i++)
		if (!has_entry(args, json_str(json_at(list, i))))
			json_put_str(w, NULL, json_str(json_at(list, i)));
	for (size_t i = 1; add && i < args->operand_count; i++)
		json_put_text(w, NULL, args->operands[i]);
	json_end_array(w);
}

/* PATCH with the content of w's "network"; shows the resulting policy. */
static int send_patch(struct cli *cli, const char *id, struct json_writer *w, struct buf *body,
		      struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	char path[API_PATH_MAX];
	int r;

	json_end_object(w);
	r = api_path(path, err, "/v1/sandboxes/%s", id);
	if (r == 0)
		r = api_body_send(cli, "PATCH", path, w, body, &sandbox, err);
	else
		buf_done(body);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, field(sandbox, "network"), err);
	if (!cli->quiet)
		show_object(stdout, field(sandbox, "network"), cli->color_out);
	return 0;
}

static struct json_writer begin_patch(struct buf *body)
{
	struct json_writer w = api_body_begin(body, BODY_MAX);

	json_begin_object(&w, "network");
	return w;
}

static int change(struct cli *cli, const struct args *args, const char *list, struct err *err)
{
	_cleanup_json_ struct json *doc = NULL;
	const struct json *network;
	const char *id = args->operands[0];
	bool add = !args_flag(args, "remove");
	struct json_writer w;
	struct buf body;

	if (get_network(cli, id, &doc, &network, err) < 0)
		return -1;
	if (args->operand_count == 1) {
		if (cli->json)
			return api_print(cli, network, err);
		show_object(stdout, network, cli->color_out);
		return 0;
	}
	w = begin_patch(&body);
	if (add && str_is(field_str(network, "mode"), "none"))
		json_put_text(&w, "mode", "restricted");
	put_list(&w, list, field(network, list), args, add);
	return send_patch(cli, id, &w, &body, err);
}

int net_allow_run(struct cli *cli, const struct args *args, struct err *err)
{
	return change(cli, args, "allow", err);
}

int net_deny_run(struct cli *cli, const struct args *args, struct err *err)
{
	return change(cli, args, "deny", err);
}

int net_mode_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const modes[] = { "none", "restricted", "full", NULL };
	const char *mode = args->operands[1];
	struct json_writer w;
	struct buf body;
	size_t i = 0;

	while (modes[i] != NULL && strcmp(modes[i], mode) != 0)
		i++;
	if (modes[i] == NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "the mode cannot be '%.60s'; choose none, restricted or full", mode);
	w = begin_patch(&body);
	json_put_text(&w, "mode", mode);
	return send_patch(cli, args->operands[0], &w, &body, err);
}

/* ---- denials ---- */

static int denial_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	const struct json *port = field(item, "port");
	char span[STYLE_SPAN_SIZE] = "";
	int64_t at_ms;

	if (style_parse_time(field_str(item, "last_at"), &at_ms) == 0)
		style_span(span, (time_real_ms() - at_ms) / 1000);
	table_put(table, field_str(item, "host"), STYLE_CYAN);
	if (port != NULL && json_type(port) == JSON_INT)
		table_printf(table, STYLE_PLAIN, "%lld", (long long)json_int(port));
	else
		table_put(table, str_of(""), STYLE_PLAIN);
	table_put(table, field_str(item, "protocol"), STYLE_PLAIN);
	table_put(table, field_str(item, "reason"),
		  field_bool(item, "passed") ? STYLE_YELLOW : STYLE_RED);
	table_put(table, field_str(item, "rule"), STYLE_PLAIN);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(item, "count", 0));
	table_put(table, str_of(span), STYLE_PLAIN);
	return 0;
}

int net_denials_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "HOST", "PORT",	"PROTOCOL", "REASON",
					       "RULE", "COUNT", "AGO",	    NULL };
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/denials", args->operands[0]) < 0)
		return -1;
	return show_list(cli,
			 &(struct show_list){ .path = path,
					      .member = "host",
					      .headers = headers,
					      .row = denial_row,
					      .when_empty = "no connection was refused" },
			 err);
}

/* ---- learning ---- */

struct suggestions {
	struct str seen[512];
	size_t count;
};

/* DNS reports a name without a port, which is then also reported with its port. */
static bool has_entry_with_port(const struct suggestions *s, struct str entry)
{
	for (size_t i = 0; i < s->count; i++) {
		struct str other = s->seen[i];

		if (str_eq(other, entry) || (other.n > entry.n && other.p[entry.n] == ':' &&
					     memcmp(other.p, entry.p, entry.n) == 0))
			return true;
	}
	return false;
}

static void gather(struct suggestions *s, const struct json *list, bool with_port)
{
	for (size_t i = 0; list != NULL && i < json_size(list); i++) {
		const struct json *item = json_at(list, i), *port = field(item, "port");
		struct str entry = field_str(item, "suggestion");

		if (!entry.n || (port != NULL && json_type(port) == JSON_INT) != with_port ||
		    s->count == ARRAY_LEN(s->seen) || has_entry_with_port(s, entry))
			continue;
		s->seen[s->count++] = entry;
	}
}

static int print_learned(struct cli *cli, const char *id, struct err *err)
{
	_cleanup_json_ struct json *doc = NULL;
	struct suggestions s = { .count = 0 };
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/denials", id) < 0 ||
	    api_call(cli, "GET", path, NULL, &doc, err) < 0)
		return -1;
	gather(&s, field(doc, "data"), true);
	gather(&s, field(doc, "data"), false);
	if (cli->json)
		(void)printf("[");
	for (size_t i = 0; i < s.count; i++)
		(void)printf(cli->json ? "%s\"%.*s\"" : "%s%.*s\n", cli->json && i ? "," : "",
			     (int)s.seen[i].n, s.seen[i].p);
	if (cli->json)
		(void)printf("]\n");
	else if (!s.count)
		cli_note(cli, "So far allow lacks nothing.");
	return 0;
}

int net_learn_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *id = args->operands[0];
	const char *what = args->operand_count > 1 ? args->operands[1] : NULL;
	_cleanup_json_ struct json *doc = NULL;
	const struct json *network;
	struct json_writer w;
	struct buf body;

	if (what == NULL)
		return print_learned(cli, id, err);
	if (strcmp(what, "on") != 0 && strcmp(what, "off") != 0)
		return err_set(err, ERR_INVALID_REQUEST, "'%s' is neither on nor off", what);
	if (get_network(cli, id, &doc, &network, err) < 0)
		return -1;
	w = begin_patch(&body);
	if (strcmp(what, "on") == 0 && str_is(field_str(network, "mode"), "none"))
		json_put_text(&w, "mode", "restricted");
	json_put_bool(&w, "learn", strcmp(what, "on") == 0);
	return send_patch(cli, id, &w, &body, err);
}
