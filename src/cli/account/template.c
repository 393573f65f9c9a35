/* SPDX-License-Identifier: Apache-2.0 */
/* cay template ls, build, info, rm */
#include "cli/account/template.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define POLL_US 300000

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	char text[STYLE_SPAN_SIZE] = "";
	int64_t version = field_int(item, "version", -1), created_ms;
	struct str hash = field_str(item, "hash");

	table_put(table, field_str(item, "name"), STYLE_CYAN);
	if (version >= 0)
		table_printf(table, STYLE_PLAIN, "%" PRId64, version);
	else
		table_put(table, field_str(item, "version"), STYLE_PLAIN);
	hash.n = MIN(hash.n, 12);
	table_put(table, hash, STYLE_DIM);
	if (field_int(item, "size_bytes", -1) >= 0)
		style_bytes(text, (uint64_t)field_int(item, "size_bytes", 0));
	table_put(table, str_of(text), STYLE_PLAIN);
	text[0] = '\0';
	if (style_parse_time(field_str(item, "created_at"), &created_ms) == 0)
		style_span(text, (time_real_ms() - created_ms) / 1000);
	table_put(table, str_of(text), STYLE_PLAIN);
	return 0;
}

int template_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "NAME", "VERSION", "HASH", "SIZE", "AGE", NULL };

	return show_list(
		cli,
		&(struct show_list){
			.path = "/v1/templates",
			.member = "name",
			.headers = headers,
			.row = ls_row,
			.when_empty =
				"no templates; 'cay template build base' builds the first one" },
		err);
}

int template_info_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *template = NULL;
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/templates/%s", args->operands[0]) < 0 ||
	    api_call(cli, "GET", path, NULL, &template, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, template, err);
	show_object(stdout, template, cli->color_out);
	return 0;
}

int template_rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	return api_delete_each(cli, args, "/v1/templates", err);
}

/* A build that is being followed. */
struct build_watch {
	const char *name;
	char id[64];
	int64_t cursor; /* bytes of its log shown so far */
	char line[512]; /* the incomplete line; longer ones are truncated */
	size_t line_len;
	char last[512]; /* the last complete line, for the progress line */
	struct progress progress;
};

/* On a terminal the log is the progress line; otherwise every line is printed. */
static void show_log(const struct cli *cli, struct build_watch *watch, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] != '\n') {
			if (watch->line_len < sizeof(watch->line))
				watch->line[watch->line_len++] = text.p[i];
			continue;
		}
		struct str line = { watch->line, watch->line_len };

		watch->line_len = 0;
		if (str_trim(line, " \r\t").n == 0)
			continue;
		style_clean(watch->last, sizeof(watch->last), str_trim(line, "\r"));
		if (!watch->progress.live)
			cli_note(cli, "%s", watch->last);
	}
}

/* Gets the build's state and the new part of its log. */
static int poll_build(struct cli *cli, const struct build_watch *watch, struct json **build,
		      struct err *err)
{
	char path[API_PATH_MAX], cursor[32];
	struct json *next = NULL;

	(void)snprintf(cursor, sizeof(cursor), "%" PRId64, watch->cursor);
	if (api_path(path, err, "/v1/templates/%s/builds/%s?cursor=%s", watch->name, watch->id,
		     cursor) < 0 ||
	    api_call(cli, "GET", path, NULL, &next, err) < 0)
		return -1;
	json_free(*build);
	*build = next;
	return 0;
}

static int follow(struct cli *cli, struct build_watch *watch, struct json **build, struct err *err)
{
	if (field_str(*build, "id").n == 0 ||
	    str_copy(watch->id, sizeof(watch->id), field_str(*build, "id")) < 0)
		return err_set(err, ERR_INTERNAL, "the daemon returned a build without a valid id");
	(void)snprintf(watch->last, sizeof(watch->last), "building template %s", watch->name);
	for (;;) {
		struct str log, state;

		if (poll_build(cli, watch, build, err) < 0)
			return -1;
		log = field_str(*build, "log");
		state = field_str(*build, "state");
		show_log(cli, watch, log);
		watch->cursor = field_int(*build, "log_cursor", watch->cursor);
		/* The log arrives in pieces: after the end there may be more of it. */
		if (log.n == 0 && (str_is(state, "ready") || str_is(state, "failed")))
			return 0;
		progress_update(&watch->progress, str_of(watch->last));
		if (log.n == 0)
			(void)usleep(POLL_US);
	}
}

/* Starts a build, or finds the one in progress. */
static int start_build(struct cli *cli, const char *name, struct json **build, struct err *err)
{
	_cleanup_json_ struct json *list = NULL;
	struct json_writer w;
	struct err ignored = { 0 };
	const struct json *data;
	char path[API_PATH_MAX];
	struct buf copy;
	int r;

	if (api_path(path, err, "/v1/templates/%s/builds", name) < 0)
		return -1;
	if (api_call(cli, "POST", path, NULL, build, err) == 0)
		return *build != NULL ? 0
				      : err_set(err, ERR_INTERNAL, "the daemon returned no build");
	if (cli->http_status != 409)
		return -1;
	cli_note(cli, "a build of %s is already running; following it", name);
	if (api_call(cli, "GET", path, NULL, &list, &ignored) < 0)
		return -1;
	data = field(list, "data");
	if (data == NULL || json_type(data) != JSON_ARRAY || json_size(data) == 0)
		return -1;
	buf_init(&copy, API_BODY_LIMIT_BYTES);
	json_writer_init(&w, &copy);
	json_put_value(&w, NULL, json_at(data, 0));
	r = json_writer_end(&w);
	*build = r == 0 ? json_parse(buf_str(&copy), err) : NULL;
	buf_done(&copy);
	return *build != NULL ? 0 : -1;
}

int template_build(struct cli *cli, const char *name, struct err *err)
{
	_cleanup_json_ struct json *build = NULL;
	struct build_watch watch = { .name = name };
	int64_t start_us = time_mono_us();
	struct str reason;
	int r;

	if (start_build(cli, name, &build, err) < 0)
		return -1;
	progress_start(&watch.progress, cli);
	r = follow(cli, &watch, &build, err);
	progress_clear(&watch.progress);
	if (r < 0)
		return -1;
	if (!str_is(field_str(build, "state"), "ready")) {
		reason = field_str(build, "error");
		if (watch.progress.live && watch.last[0] != '\0')
			cli_note(cli, "%s", watch.last);
		(void)cli_hint(cli, "See the whole log with: cay template build %s 2>&1 | cat",
			       name);
		return err_set(err, ERR_ENGINE_FAILED, "the build of template %s failed%s%.*s",
			       name, reason.n > 0 ? ": " : "", (int)MIN(reason.n, 200), reason.p);
	}
	cli_note(cli, "built template %s (%.1f s)", name,
		 (double)(time_mono_us() - start_us) / 1e6);
	if (cli->json && strcmp(cli->command->name, "template build") == 0)
		return api_print(cli, build, err);
	return 0;
}

/* The daemon builds its own recipes; it never sees a file of ours. */
static int check_recipe_name(struct cli *cli, const char *name, struct err *err)
{
	const char *base = strrchr(name, '/'), *end = strstr(name, ".recipe");

	if (base == NULL && (end == NULL || end[7] != '\0'))
		return 0;
	base = base != NULL ? base + 1 : name;
	(void)cli_hint(
		cli,
		"Recipes are in share/cay/templates of the installation. Put the file there, "
		"then: cay template build %.*s",
		(int)strcspn(base, "."), base);
	return err_set(
		err, ERR_INVALID_REQUEST,
		"'%.100s' is a file; 'cay template build' takes the name of a recipe that the "
		"daemon's host has",
		name);
}

int template_build_run(struct cli *cli, const struct args *args, struct err *err)
{
	if (check_recipe_name(cli, args->operands[0], err) < 0)
		return -1;
	return template_build(cli, args->operands[0], err);
}
