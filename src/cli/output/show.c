/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/show.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/ioctl.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/api/exit.h"

#define DEPTH_MAX 3
#define NAME_WIDTH 22

static void show_array(char *dst, size_t size, const struct json *value)
{
	size_t used = 0;

	dst[0] = '\0';
	for (size_t i = 0; i < json_size(value) && used + 4 < size; i++) {
		char part[128];

		show_value(part, sizeof(part), json_at(value, i));
		(void)snprintf(dst + used, size - used, "%s%s", i > 0 ? ", " : "", part);
		used = strlen(dst);
	}
}

void show_value(char *dst, size_t size, const struct json *value)
{
	struct json_writer w;
	struct buf out;

	switch (json_type(value)) {
	case JSON_STRING:
		style_clean(dst, size, json_str(value));
		return;
	case JSON_BOOL:
		(void)snprintf(dst, size, "%s", json_bool(value) ? "yes" : "no");
		return;
	case JSON_INT:
		(void)snprintf(dst, size, "%" PRId64, json_int(value));
		return;
	case JSON_ARRAY:
		show_array(dst, size, value);
		return;
	case JSON_NULL:
		(void)snprintf(dst, size, "-");
		return;
	case JSON_REAL:
	case JSON_OBJECT:
		break;
	}
	buf_init(&out, size);
	json_writer_init(&w, &out);
	json_put_value(&w, NULL, value);
	if (json_writer_end(&w) == 0)
		style_clean(dst, size, buf_str(&out));
	else
		(void)snprintf(dst, size, "...");
	buf_done(&out);
}

static void show_members(FILE *out, const struct json *object, bool color, int depth)
{
	const struct json *value;
	const char *key;
	void *it = NULL;

	while (json_next(object, &it, &key, &value)) {
		char name[64], text[512];
		enum style style = STYLE_PLAIN;

		if (strcmp(key, "state") == 0 && json_type(value) == JSON_STRING)
			style = style_of_state(json_str(value));
		if (json_type(value) == JSON_NULL)
			continue;
		style_clean(name, sizeof(name), str_of(key));
		if (json_type(value) == JSON_OBJECT && depth < DEPTH_MAX) {
			if (json_size(value) == 0)
				continue;
			(void)fprintf(out, "%*s%s%s%s\n", depth * 2, "", style_on(color, STYLE_DIM),
				      name, style_off(color));
			show_members(out, value, color, depth + 1);
			continue;
		}
		show_value(text, sizeof(text), value);
		(void)fprintf(out, "%*s%s%-*s%s  %s%s%s\n", depth * 2, "",
			      style_on(color, STYLE_DIM), NAME_WIDTH - depth * 2, name,
			      style_off(color), style_on(color, style), text, style_off(color));
	}
}

struct str show_state(const struct json *sandbox)
{
	struct str state = field_str(sandbox, "state");

	if (str_is(state, "paused") && str_is(field_str(sandbox, "pause_kind"), "hibernate"))
		return STR_LIT("hibernated");
	return state;
}

void show_age(char dst[STYLE_SPAN_SIZE], const struct json *item, const char *member)
{
	int64_t at_ms;

	dst[0] = '\0';
	if (style_parse_time(field_str(item, member), &at_ms) == 0)
		style_span(dst, (time_real_ms() - at_ms) / 1000);
}

void show_object(FILE *out, const struct json *object, bool color)
{
	if (object != NULL && json_type(object) == JSON_OBJECT)
		show_members(out, object, color, 0);
}

int show_table(struct cli *cli, const struct table *table, const char *when_empty, struct err *err)
{
	int r;

	if (table->rows == 0) {
		cli_note(cli, "%s", when_empty);
		return 0;
	}
	r = table_print(table, stdout, cli->color_out);
	if (r < 0)
		return err_set_errno(err, ERR_PAYLOAD_TOO_LARGE, -r,
				     "the list is too long to print");
	return 0;
}

void progress_start(struct progress *progress, const struct cli *cli)
{
	const char *term = getenv("TERM");

	*progress = (struct progress){ .start_us = time_mono_us() };
	progress->live = !cli->quiet && !cli->json && isatty(STDERR_FILENO) && term != NULL &&
			 strcmp(term, "dumb") != 0;
}

void progress_update(struct progress *progress, struct str message)
{
	static const char *const marks[] = { "|", "/", "-", "\\" };
	struct winsize size = { 0 };
	char text[256];
	size_t columns = 80;

	if (!progress->live)
		return;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
		columns = size.ws_col;
	style_clean(text, MIN(sizeof(text), columns - 12), message);
	(void)fprintf(stderr, "\r\033[K%s %4llds  %s", marks[progress->turn++ % ARRAY_LEN(marks)],
		      (long long)(time_mono_us() - progress->start_us) / 1000000, text);
	(void)fflush(stderr);
	progress->shown = true;
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		(void)fputs("\r\033[K", stderr);
	progress->shown = false;
}

/* How the items of a list are shown. */
struct listing {
	api_keep_fn keep;
	const char *member; /* with -q: only this */
	bool terminal;	    /* names must be sanitized for it */
	api_each_fn row;
	struct table table;
};

static int print_name(void *arg, const struct json *item)
{
	const struct listing *listing = arg;
	const struct json *value = field(item, listing->member);
	struct str name = field_str(item, listing->member);
	char clean[1024];

	if (value == NULL || (listing->keep != NULL && !listing->keep(item)))
		return 0;
	if (json_type(value) == JSON_STRING && !listing->terminal) {
		(void)printf("%.*s\n", (int)name.n, name.p);
		return 0;
	}
	show_value(clean, sizeof(clean), value);
	(void)printf("%s\n", clean);
	return 0;
}

static int put_row(void *arg, const struct json *item)
{
	struct listing *listing = arg;

	if (listing->keep != NULL && !listing->keep(item))
		return 0;
	return listing->row(&listing->table, item);
}

int show_list(struct cli *cli, const struct show_list *list, struct err *err)
{
	struct listing listing = { .keep = list->keep,
				   .member = list->member,
				   .terminal = isatty(STDOUT_FILENO),
				   .row = list->row };
	int r;

	if (cli->json)
		return api_print_list(cli, list->path, list->query, list->keep, err);
	if (cli->quiet)
		return api_list(cli, list->path, list->query, print_name, &listing, err);
	table_init(&listing.table, list->headers);
	r = api_list(cli, list->path, list->query, put_row, &listing, err);
	if (r == 0)
		r = show_table(cli, &listing.table, list->when_empty, err);
	table_done(&listing.table);
	return r;
}

int show_made(struct cli *cli, const struct json *answer)
{
	const struct json *data = field(answer, "data");
	int worst = 0;

	for (size_t i = 0; data != NULL && i < json_size(data); i++) {
		const struct json *child = json_at(data, i), *error = field(child, "error");
		struct str message = error != NULL ? field_str(error, "message") : STR_LIT("");

		if (error == NULL) {
			struct str id = field_str(child, "id");

			(void)printf("%.*s\n", (int)id.n, id.p);
			continue;
		}
		cli_note(cli, "number %zu: %.*s", i + 1, (int)message.n, message.p);
		worst = EXIT_STATUS_RUNTIME;
	}
	return worst;
}
