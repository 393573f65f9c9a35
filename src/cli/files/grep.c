/* SPDX-License-Identifier: Apache-2.0 */
/* cay grep, watch */
#include <errno.h>
#include <stdio.h>

#include "cli/api/sse.h"
#include "cli/files/files.h"

/* ---- grep ---- */

static void put_flag(struct json_writer *w, const struct args *args, const char *option,
		     const char *member)
{
	if (args_flag(args, option))
		json_put_bool(w, member, true);
}

static void put_text(struct json_writer *w, const struct args *args, const char *option)
{
	if (args_text(args, option) != NULL)
		json_put_text(w, option, args_text(args, option));
}

static void put_number(struct json_writer *w, const struct args *args, const char *option,
		       const char *member)
{
	uint64_t value;

	if (args_number(args, option, &value))
		json_put_int(w, member, (int64_t)value);
}

static int grep_body(const struct args *args, const char *path, struct buf *body, struct err *err)
{
	struct json_writer w;

	json_writer_init(&w, body);
	json_begin_object(&w, NULL);
	json_put_text(&w, "pattern", args->operands[1]);
	if (path != NULL)
		files_put_path(&w, path);
	put_flag(&w, args, "ignore-case", "ignore_case");
	put_flag(&w, args, "fixed", "fixed");
	put_flag(&w, args, "gitignore", "gitignore");
	put_text(&w, args, "include");
	put_text(&w, args, "exclude");
	put_number(&w, args, "context", "context");
	put_number(&w, args, "max-matches", "max_matches");
	put_number(&w, args, "timeout", "timeout_sec");
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the pattern is too long");
	return 0;
}

static void print_line(struct cli *cli, const struct json *match, int64_t line, char mark,
		       struct str text)
{
	bool color = cli->color_out;

	(void)fputs(style_on(color, STYLE_CYAN), stdout);
	files_print(stdout, field_str(match, "path"));
	(void)printf("%s%c%lld%c", style_off(color), mark, (long long)line, mark);
	files_print(stdout, text);
	(void)putchar('\n');
}

static void print_match(struct cli *cli, const struct json *match)
{
	const struct json *before = field(match, "before"), *after = field(match, "after");
	int64_t line = field_int(match, "line", 0);

	for (size_t i = 0; before != NULL && i < json_size(before); i++)
		print_line(cli, match, line - (int64_t)(json_size(before) - i), '-',
			   json_str(json_at(before, i)));
	print_line(cli, match, line, ':', field_str(match, "text"));
	for (size_t i = 0; after != NULL && i < json_size(after); i++)
		print_line(cli, match, line + (int64_t)i + 1, '-', json_str(json_at(after, i)));
}

int grep_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *found = NULL;
	const struct json *data;
	const char *path = args->operand_count > 2 ? args->operands[2] : NULL;
	char url[API_PATH_MAX];
	struct place place;
	struct buf body;
	uint64_t context = 0;
	struct str reason;
	int r;

	if (place_around(args->operands[0], path, &place, err) < 0 ||
	    api_path(url, err, "/v1/sandboxes/%s/files/grep", place.id) < 0)
		return -1;
	buf_init(&body, 256 * 1024);
	r = grep_body(args, place.path, &body, err);
	if (r == 0)
		r = api_call(cli, "POST", url, &body, &found, err);
	buf_done(&body);
	if (r < 0)
		return -1;
	data = field(found, "data");
	if (data == NULL || json_type(data) != JSON_ARRAY)
		return err_set(err, ERR_INTERNAL, "the daemon's reply has no data");
	if (cli->json)
		return api_print(cli, found, err);
	(void)args_number(args, "context", &context);
	for (size_t i = 0; i < json_size(data); i++) {
		if (context > 0 && i > 0)
			(void)puts("--");
		print_match(cli, json_at(data, i));
	}
	reason = field_str(found, "reason");
	if (field_bool(found, "truncated"))
		cli_note(cli, "cay: the result is incomplete (%.*s)", (int)reason.n, reason.p);
	return json_size(data) > 0 ? 0 : 1; /* as grep(1) */
}

/* ---- watch ---- */

struct watching {
	struct cli *cli;
	struct event_reader events;
	struct err *err;
	bool failed;
};

static void print_event(struct watching *watching, struct str name, const struct json *data)
{
	bool color = watching->cli->color_out;
	enum style style = str_is(name, "deleted")   ? STYLE_RED
			   : str_is(name, "created") ? STYLE_GREEN
						     : STYLE_YELLOW;
	struct str from = field_str(data, "from"), hint = field_str(data, "hint");

	(void)printf("%s%-9.*s%s", style_on(color, style), (int)name.n, name.p, style_off(color));
	if (from.n > 0) {
		files_print(stdout, from);
		(void)fputs(" -> ", stdout);
	}
	files_print(stdout, field_str(data, "path"));
	if (hint.n > 0)
		(void)printf("  (%.*s)", (int)hint.n, hint.p);
	(void)putchar('\n');
	(void)fflush(stdout);
}

static int on_event(void *arg, struct str name, struct str id, struct str data)
{
	struct watching *watching = arg;
	_cleanup_json_ struct json *doc = NULL;
	struct err parse_err;

	(void)id;
	if (watching->cli->json && !str_is(name, "error")) {
		(void)printf("{\"event\":\"%.*s\",\"data\":%.*s}\n", (int)name.n, name.p,
			     (int)data.n, data.p);
		return fflush(stdout) == 0 ? 0 : -EPIPE;
	}
	doc = json_parse(data, &parse_err);
	if (str_is(name, "error")) {
		char code[64];
		struct str message = field_str(doc, "message");

		watching->failed = true;
		if (str_copy(code, sizeof(code), field_str(doc, "code")) < 0)
			code[0] = '\0';
		return err_set(watching->err, err_from_name(code), "%.*s",
			       (int)MIN(message.n, ERR_MESSAGE_MAX), message.p);
	}
	if (str_is(name, "started"))
		cli_note(watching->cli, "cay: watching; Ctrl-C ends it");
	else
		print_event(watching, name, doc);
	return ferror(stdout) ? -EPIPE : 0;
}

static int take(void *arg, const char *p, size_t n)
{
	struct watching *watching = arg;

	return event_feed(&watching->events, p, n);
}

int watch_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct watching watching = { .cli = cli, .err = err };
	struct place place;
	struct buf url;
	int r;

	if (place_around(args->operands[0], args->operand_count > 1 ? args->operands[1] : NULL,
			 &place, err) < 0)
		return -1;
	if (place.path == NULL)
		place.path = ".";
	if (files_url(&url, &place, "watch", err, "recursive",
		      args_flag(args, "recursive") ? "true" : "false", NULL) < 0)
		return -1;
	event_init(&watching.events, on_event, &watching);
	r = files_receive(cli, &url, take, &watching, err);
	event_done(&watching.events);
	buf_done(&url);
	if (watching.failed)
		return -1;
	if (r == -EPIPE)
		return 0;
	if (r == -EPROTO)
		return err_set(err, ERR_INTERNAL, "the daemon's events are malformed");
	return r;
}
