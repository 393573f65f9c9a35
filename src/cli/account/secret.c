/* SPDX-License-Identifier: Apache-2.0 */
/* cay secret set, ls, rotate, rm */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/line/args.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

#define VALUE_MAX (16 * 1024)

/* ---- the value: never from the command line, which every user of the host can read ---- */

static int read_all(int fd, const char *what, struct buf *value, struct err *err)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, ERR_INVALID_REQUEST, errno, "cannot read %s",
					     what);
		if (buf_append(value, chunk, (size_t)n) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "%s is longer than %d bytes", what,
				       VALUE_MAX);
	}
	explicit_bzero(chunk, sizeof(chunk));
	return 0;
}

static int ask(const char *name, struct buf *value, struct err *err)
{
	struct termios before, quiet;
	char line[4096];
	ssize_t n;

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "the terminal");
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	(void)fprintf(stderr, "value of %s: ", name);
	n = read(STDIN_FILENO, line, sizeof(line));
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	(void)fprintf(stderr, "\n");
	if (n > 0 && buf_append(value, line, (size_t)n) < 0)
		n = -1;
	explicit_bzero(line, sizeof(line));
	return n > 0 ? 0 : err_set(err, ERR_INVALID_REQUEST, "no value was given");
}

static int from_env(const char *variable, struct buf *value, struct err *err)
{
	const char *text = getenv(variable);

	if (text == NULL)
		return err_set(err, ERR_INVALID_REQUEST, "the variable %s is not set", variable);
	return buf_puts(value, text) < 0
		       ? err_set(err, ERR_INVALID_REQUEST, "%s is too long", variable)
		       : 0;
}

static int from_file(const char *path, struct buf *value, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set_errno(err, ERR_INVALID_REQUEST, errno, "%s", path);
	return read_all(fd, path, value, err);
}

static int read_value(const struct args *args, struct buf *value, struct err *err)
{
	const char *file = args_text(args, "from-file"), *variable = args_text(args, "from-env");
	int r;

	if (file != NULL && variable != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "--from-file or --from-env, not both");
	if (file != NULL)
		r = from_file(file, value, err);
	else if (variable != NULL)
		r = from_env(variable, value, err);
	else if (isatty(STDIN_FILENO))
		r = ask(args->operands[0], value, err);
	else
		r = read_all(STDIN_FILENO, "standard input", value, err);
	if (r < 0)
		return -1;
	/* A final newline, as editors and echo add it, is not part of the value. */
	if (buf_len(value) && buf_data(value)[buf_len(value) - 1] == '\n')
		value->tail--;
	if (!str_is_utf8(buf_data(value), buf_len(value)))
		return err_set(err, ERR_INVALID_REQUEST,
			       "the value is not UTF-8 text; encode it, for example with base64");
	return 0;
}

static void forget(struct buf *value)
{
	if (value->base)
		explicit_bzero(value->base, value->capacity);
	buf_done(value);
}

/* ---- set, rotate ---- */

struct wanted {
	const char *name, *scope, *scope_member, *scope_id;
	char id[64];
};

static int match(void *arg, const struct json *item)
{
	struct wanted *want = arg;

	if (!str_is(field_str(item, "name"), want->name) ||
	    !str_is(field_str(item, "scope"), want->scope))
		return 0;
	if (want->scope_member != NULL &&
	    !str_is(field_str(item, want->scope_member), want->scope_id))
		return 0;
	(void)!str_copy(want->id, sizeof(want->id), field_str(item, "id"));
	return 1;
}

static int send_value(struct cli *cli, const char *path, const struct args *args,
		      const struct wanted *want, struct str value, struct err *err)
{
	_cleanup_json_ struct json *answer = NULL;
	bool first = want != NULL && want->id[0] == '\0';
	const char *host;
	struct json_writer w;
	struct buf body;
	size_t cursor = 0;
	int r = 0;

	buf_init(&body, VALUE_MAX * 8);
	json_writer_init(&w, &body);
	json_begin_object(&w, NULL);
	if (first) {
		json_put_text(&w, "name", want->name);
		json_put_text(&w, "scope", want->scope);
		if (want->scope_member != NULL)
			json_put_text(&w, want->scope_member, want->scope_id);
		json_begin_array(&w, "hosts");
		while ((host = args_next(args, "host", &cursor)) != NULL)
			json_put_text(&w, NULL, host);
		json_end_array(&w);
	}
	json_put_str(&w, "value", value);
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		r = err_set(err, ERR_PAYLOAD_TOO_LARGE, "the value is too long");
	if (r == 0)
		r = api_call(cli, "POST", path, &body, &answer, err);
	forget(&body);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, answer, err);
	if (!cli->quiet)
		(void)printf("%.*s version %lld\n", (int)field_str(answer, "name").n,
			     field_str(answer, "name").p,
			     (long long)field_int(answer, "version", 1));
	if (!field_bool(answer, "scrubbed"))
		cli_note(cli, "A value of less than 8 bytes is not scrubbed from output.");
	return 0;
}

int secret_set_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *workspace = args_text(args, "workspace"), *box = args_text(args, "sandbox");
	struct wanted want = { .name = args->operands[0], .scope = "global" };
	char path[API_PATH_MAX] = "/v1/secrets";
	struct buf value;
	int r;

	if (workspace != NULL && box != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "--workspace or --sandbox, not both");
	if (workspace != NULL || box != NULL) {
		want.scope = workspace != NULL ? "workspace" : "sandbox";
		want.scope_member = workspace != NULL ? "external_workspace_id" : "sandbox_id";
		want.scope_id = workspace != NULL ? workspace : box;
	}
	buf_init(&value, VALUE_MAX);
	r = read_value(args, &value, err);
	if (r == 0)
		r = api_list(cli, "/v1/secrets", NULL, match, &want, err);
	if (r == 0 && want.id[0] != '\0')
		r = api_path(path, err, "/v1/secrets/%s/rotate", want.id);
	if (r == 0)
		r = send_value(cli, path, args, &want, buf_str(&value), err);
	forget(&value);
	return r;
}

int secret_rotate_run(struct cli *cli, const struct args *args, struct err *err)
{
	char path[API_PATH_MAX];
	struct buf value;
	int r;

	buf_init(&value, VALUE_MAX);
	r = read_value(args, &value, err);
	if (r == 0)
		r = api_path(path, err, "/v1/secrets/%s/rotate", args->operands[0]);
	if (r == 0)
		r = send_value(cli, path, args, NULL, buf_str(&value), err);
	forget(&value);
	return r;
}

/* ---- ls, rm ---- */

static int ls_row(void *arg, const struct json *item)
{
	struct table *table = arg;
	const struct json *hosts = field(item, "hosts");
	char text[TABLE_CELL_MAX] = "", span[STYLE_SPAN_SIZE] = "";
	struct str of = field_str(item, "external_workspace_id");
	int64_t at_ms;

	if (of.n == 0)
		of = field_str(item, "sandbox_id");
	table_put(table, field_str(item, "name"), STYLE_CYAN);
	(void)snprintf(text, sizeof(text), "%lld", (long long)field_int(item, "version", 0));
	table_put(table, str_of(text), STYLE_PLAIN);
	(void)snprintf(text, sizeof(text), "%.*s%s%.*s", (int)field_str(item, "scope").n,
		       field_str(item, "scope").p, of.n ? " " : "", (int)of.n, of.n ? of.p : "");
	table_put(table, str_of(text), STYLE_PLAIN);
	text[0] = '\0';
	if (hosts != NULL)
		show_value(text, sizeof(text), hosts);
	table_put(table, str_of(text), STYLE_PLAIN);
	if (style_parse_time(field_str(item, "updated_at"), &at_ms) == 0)
		style_span(span, (time_real_ms() - at_ms) / 1000);
	table_put(table, str_of(span), STYLE_PLAIN);
	table_put(table, field_str(item, "id"), STYLE_PLAIN);
	return 0;
}

int secret_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const char *const headers[] = { "NAME",	  "VERSION", "SCOPE", "HOSTS",
					       "UPDATED", "ID",	     NULL };

	(void)args;
	return show_list(cli,
			 &(struct show_list){ .path = "/v1/secrets",
					      .member = "name",
					      .headers = headers,
					      .row = ls_row,
					      .when_empty = "no secrets" },
			 err);
}

int secret_rm_run(struct cli *cli, const struct args *args, struct err *err)
{
	return api_delete_each(cli, args, "/v1/secrets", err);
}
