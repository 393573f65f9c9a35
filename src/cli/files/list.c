/* SPDX-License-Identifier: Apache-2.0 */
/* cay ls ID:PATH, tree, glob */
#include <stdio.h>

#include "cli/files/files.h"
#include "cli/output/show.h"
#include "cli/output/table.h"

static const char *kind_mark(struct str type)
{
	static const struct {
		const char *type, *mark;
	} marks[] = { { "directory", "d" },
		      { "symlink", "l" },
		      { "fifo", "p" },
		      { "socket", "s" },
		      { "device", "c" } };

	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (str_is(type, marks[i].type))
			return marks[i].mark;
	return "-";
}

static enum style kind_style(struct str type)
{
	return str_is(type, "directory") ? STYLE_BOLD
	       : str_is(type, "symlink") ? STYLE_CYAN
	       : str_is(type, "file")	 ? STYLE_PLAIN
					 : STYLE_YELLOW;
}

/* "rwxr-x---" with the set-id and sticky bits as ls(1) shows them. */
static void mode_text(char dst[10], struct str octal)
{
	unsigned int mode = octal.n > 0 ? (unsigned int)strtoul(octal.p, NULL, 8) : 0;
	static const char letters[] = "rwxrwxrwx";

	for (int i = 0; i < 9; i++)
		dst[i] = mode >> (8 - i) & 1 ? letters[i] : '-';
	if (mode & 04000)
		dst[2] = dst[2] == 'x' ? 's' : 'S';
	if (mode & 02000)
		dst[5] = dst[5] == 'x' ? 's' : 'S';
	if (mode & 01000)
		dst[8] = dst[8] == 'x' ? 't' : 'T';
	dst[9] = '\0';
}

static void put_owner(struct table *table, const struct json *entry, const char *name,
		      const char *number)
{
	struct str text = field_str(entry, name);

	if (text.n > 0)
		table_put(table, text, STYLE_PLAIN);
	else
		table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(entry, number, 0));
}

static void long_row(struct table *table, const struct json *entry)
{
	struct str type = field_str(entry, "type"), target = field_str(entry, "target");
	struct str at = field_str(entry, "modified_at"), name = field_str(entry, "name");
	char mode[10];

	mode_text(mode, field_str(entry, "mode"));
	table_printf(table, STYLE_PLAIN, "%s%s", kind_mark(type), mode);
	put_owner(table, entry, "user", "uid");
	put_owner(table, entry, "group", "gid");
	table_printf(table, STYLE_PLAIN, "%lld", (long long)field_int(entry, "size", 0));
	/* Seconds are precise enough for people. */
	table_put(table, (struct str){ at.p, MIN(at.n, 19) }, STYLE_DIM);
	if (target.n > 0)
		table_printf(table, kind_style(type), "%.*s -> %.*s", (int)name.n, name.p,
			     (int)target.n, target.p);
	else
		table_put(table, name, kind_style(type));
}

static int print_long(struct cli *cli, const struct json *data, struct err *err)
{
	static const char *const headers[] = { "MODE",	   "USER", "GROUP", "SIZE",
					       "MODIFIED", "NAME", NULL };
	struct table table;
	int r;

	table_init(&table, headers);
	for (size_t i = 0; i < json_size(data); i++)
		long_row(&table, json_at(data, i));
	r = show_table(cli, &table, "the directory is empty", err);
	table_done(&table);
	return r;
}

static void print_names(struct cli *cli, const struct json *data, const char *name,
			const char *name_b64)
{
	struct buf bytes;

	buf_init(&bytes, 65536);
	for (size_t i = 0; i < json_size(data); i++) {
		const struct json *entry = json_at(data, i);
		enum style style = kind_style(field_str(entry, "type"));
		struct str text;

		if (files_name(entry, name, name_b64, &bytes, &text) < 0)
			continue;
		(void)fputs(style_on(cli->color_out, style), stdout);
		files_print(stdout, text);
		(void)fputs(style_off(cli->color_out), stdout);
		(void)putchar('\n');
	}
	buf_done(&bytes);
}

static void note_cut(struct cli *cli, const struct json *answer)
{
	struct str reason = field_str(answer, "reason");

	if (field_bool(answer, "truncated"))
		cli_note(cli, "cay: the result is incomplete (%.*s)", (int)reason.n, reason.p);
}

/* A file is listed as itself, as ls(1) does. */
static int list_file(struct cli *cli, const struct place *place, const struct json *entry,
		     bool detail, struct err *err)
{
	static const char *const headers[] = { "MODE",	   "USER", "GROUP", "SIZE",
					       "MODIFIED", "NAME", NULL };
	struct table table;
	int r;

	if (cli->json)
		return api_print(cli, entry, err);
	if (!detail) {
		files_print(stdout, str_of(place->path));
		(void)putchar('\n');
		return 0;
	}
	table_init(&table, headers);
	long_row(&table, entry);
	r = show_table(cli, &table, "", err);
	table_done(&table);
	return r;
}

int files_ls_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *entry = NULL, *list = NULL;
	bool detail = args_flag(args, "long");
	struct place place;

	if (place_inside(args->operands[0], &place, err) < 0 ||
	    files_get(cli, &place, "stat", "follow", "true", &entry, err) < 0)
		return -1;
	if (!str_is(field_str(entry, "type"), "directory"))
		return list_file(cli, &place, entry, detail, err);
	if (files_get(cli, &place, "", "limit", "10000", &list, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, list, err);
	if (detail && print_long(cli, field(list, "data"), err) < 0)
		return -1;
	if (!detail)
		print_names(cli, field(list, "data"), "name", "name_b64");
	note_cut(cli, list);
	return 0;
}

/* ---- tree ---- */

static size_t depth_of(struct str path, size_t base)
{
	size_t depth = 0;

	for (size_t i = base; i < path.n; i++)
		depth += path.p[i] == '/';
	return depth;
}

static bool has_sibling(const struct json *data, size_t i, size_t base, size_t depth)
{
	for (size_t k = i + 1; k < json_size(data); k++) {
		size_t d = depth_of(field_str(json_at(data, k), "path"), base);

		if (d < depth)
			return false;
		if (d == depth)
			return true;
	}
	return false;
}

static void print_tree(struct cli *cli, const struct json *data, size_t base)
{
	bool open[64] = { false };

	for (size_t i = 0; i < json_size(data); i++) {
		const struct json *entry = json_at(data, i);
		struct str type = field_str(entry, "type"), target = field_str(entry, "target");
		size_t depth = MIN(depth_of(field_str(entry, "path"), base), 63);

		open[depth] = has_sibling(data, i, base, depth);
		for (size_t d = 0; d < depth; d++)
			(void)fputs(open[d] ? "│   " : "    ", stdout);
		(void)fputs(open[depth] ? "├── " : "└── ", stdout);
		(void)fputs(style_on(cli->color_out, kind_style(type)), stdout);
		files_print(stdout, field_str(entry, "name"));
		(void)fputs(style_off(cli->color_out), stdout);
		if (target.n > 0) {
			(void)fputs(" -> ", stdout);
			files_print(stdout, target);
		}
		(void)putchar('\n');
	}
}

/* An empty directory at the last level cannot be distinguished from one that was not read. */
static void note_depth(const struct cli *cli, const struct json *data, size_t base, size_t levels)
{
	size_t closed = 0;

	for (size_t i = 0; i < json_size(data); i++) {
		const struct json *entry = json_at(data, i);

		closed += str_is(field_str(entry, "type"), "directory") &&
			  depth_of(field_str(entry, "path"), base) + 1 >= levels;
	}
	if (closed > 0)
		cli_note(cli,
			 "cay: stopped at depth %zu; %zu %s there may have more: --depth N (up to "
			 "16)",
			 levels, closed, closed == 1 ? "directory" : "directories");
}

int tree_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *list = NULL;
	char depth[16] = "3";
	struct place place;
	struct buf url;
	uint64_t levels;
	size_t base;
	int r;

	if (place_inside(args->operands[0], &place, err) < 0)
		return -1;
	if (args_number(args, "depth", &levels))
		(void)snprintf(depth, sizeof(depth), "%llu", (unsigned long long)levels);
	if (files_url(&url, &place, "", err, "depth", depth, "limit", "10000", NULL) < 0)
		return -1;
	r = api_call(cli, "GET", buf_data(&url), NULL, &list, err);
	buf_done(&url);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, list, err);
	base = strcmp(place.path, ".") == 0 ? 0 : strlen(place.path);
	if (base > 0 && place.path[base - 1] != '/')
		base++;
	files_print(stdout, str_of(place.path));
	(void)putchar('\n');
	print_tree(cli, field(list, "data"), base);
	note_cut(cli, list);
	note_depth(cli, field(list, "data"), base, strtoul(depth, NULL, 10));
	return 0;
}

/* ---- glob ---- */

int glob_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *found = NULL;
	const char *path = args->operand_count > 2 ? args->operands[2] : NULL;
	char url[API_PATH_MAX];
	struct json_writer w;
	struct place place;
	struct buf body;
	uint64_t limit;
	int r;

	if (place_around(args->operands[0], path, &place, err) < 0 ||
	    api_path(url, err, "/v1/sandboxes/%s/files/glob", place.id) < 0)
		return -1;
	buf_init(&body, 256 * 1024);
	json_writer_init(&w, &body);
	json_begin_object(&w, NULL);
	json_put_text(&w, "pattern", args->operands[1]);
	if (place.path != NULL)
		files_put_path(&w, place.path);
	if (args_number(args, "limit", &limit))
		json_put_int(&w, "limit", (int64_t)limit);
	if (args_flag(args, "gitignore"))
		json_put_bool(&w, "gitignore", true);
	json_end_object(&w);
	r = json_writer_end(&w) < 0 ? err_set(err, ERR_INVALID_REQUEST, "the pattern is too long")
				    : api_call(cli, "POST", url, &body, &found, err);
	buf_done(&body);
	if (r < 0)
		return -1;
	if (cli->json)
		return api_print(cli, found, err);
	print_names(cli, field(found, "data"), "path", "path_b64");
	note_cut(cli, found);
	return json_size(field(found, "data")) > 0 ? 0 : 1;
}
