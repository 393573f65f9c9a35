/* SPDX-License-Identifier: Apache-2.0 */
/* cay top: the resource use of every sandbox, refreshed on a terminal, once elsewhere. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/output/show.h"
#include "cli/output/table.h"
#include "cli/session/terminal.h"

#define ROWS_MAX 1000 /* further ones are counted, not shown */
#define FIRST_MS 500  /* interval of the two samples that a CPU share needs */
#define INTERVAL_SEC 2
#define SCREEN_ON "\033[?1049h\033[?25l"

struct top_row {
	char id[64], name[64], state[16];
	bool measured;
	double cpu_percent; /* negative: unknown */
	int64_t cpu_us, at_us;
	int64_t memory_bytes, memory_limit_bytes, pids, disk_bytes;
};

struct top {
	struct cli *cli;
	struct top_row *rows, *before;
	size_t count, before_count, beyond;
};

static int on_sandbox(void *arg, const struct json *item)
{
	struct top *top = arg;
	struct top_row *row;

	if (top->count == ROWS_MAX) {
		top->beyond++;
		return 0;
	}
	row = &top->rows[top->count++];
	*row = (struct top_row){ .cpu_percent = -1 };
	style_clean(row->id, sizeof(row->id), field_str(item, "id"));
	style_clean(row->name, sizeof(row->name), field_str(item, "name"));
	style_clean(row->state, sizeof(row->state), field_str(item, "state"));
	row->memory_limit_bytes = field_int(item, "memory_mb", 0) << 20;
	return 0;
}

/* It may end meanwhile and then has no values. */
static int measure(struct top *top, struct top_row *row, struct err *err)
{
	_cleanup_json_ struct json *doc = NULL;
	char path[API_PATH_MAX];

	if (strcmp(row->state, "running") != 0 && strcmp(row->state, "paused") != 0)
		return 0;
	if (api_path(path, err, "/v1/sandboxes/%s/metrics", row->id) < 0)
		return -1;
	if (api_call(top->cli, "GET", path, NULL, &doc, err) < 0) {
		if (top->cli->lost)
			return -1;
		api_forget(top->cli);
		return 0;
	}
	row->measured = true;
	row->at_us = time_mono_us();
	row->cpu_us = field_int(doc, "cpu_us", 0);
	row->memory_bytes = field_int(doc, "memory_bytes", 0);
	row->pids = field_int(doc, "pids", 0);
	row->disk_bytes = field_int(doc, "disk_bytes", 0);
	for (size_t i = 0; i < top->before_count; i++) {
		const struct top_row *old = &top->before[i];

		if (!old->measured || strcmp(old->id, row->id) != 0 || old->at_us >= row->at_us ||
		    old->cpu_us > row->cpu_us)
			continue;
		row->cpu_percent = 100.0 * (double)(row->cpu_us - old->cpu_us) /
				   (double)(row->at_us - old->at_us);
		break;
	}
	return 0;
}

static int by_use(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	if (x->cpu_percent != y->cpu_percent)
		return x->cpu_percent < y->cpu_percent ? 1 : -1;
	if (x->memory_bytes != y->memory_bytes)
		return x->memory_bytes < y->memory_bytes ? 1 : -1;
	return strcmp(x->id, y->id);
}

static int look(struct top *top, struct err *err)
{
	struct top_row *old = top->before;

	top->before = top->rows;
	top->before_count = top->count;
	top->rows = old;
	top->count = top->beyond = 0;
	if (api_list(top->cli, "/v1/sandboxes", "limit=1000", on_sandbox, top, err) < 0)
		return -1;
	for (size_t i = 0; i < top->count; i++)
		if (measure(top, &top->rows[i], err) < 0)
			return -1;
	qsort(top->rows, top->count, sizeof(*top->rows), by_use);
	return 0;
}

static void put_bytes(struct table *table, bool known, int64_t bytes)
{
	char text[STYLE_SPAN_SIZE] = "";

	if (known)
		style_bytes(text, (uint64_t)MAX(bytes, 0));
	table_put(table, str_of(text), STYLE_PLAIN);
}

static int print(const struct top *top, FILE *out, size_t most)
{
	static const char *const headers[] = { "ID",	"NAME", "STATE", "CPU %", "MEMORY",
					       "LIMIT", "PIDS", "DISK",	 NULL };
	struct table table;
	int r;

	table_init(&table, headers);
	for (size_t i = 0; i < MIN(top->count, most); i++) {
		const struct top_row *row = &top->rows[i];

		table_put(&table, str_of(row->id), STYLE_CYAN);
		table_put(&table, str_of(row->name), STYLE_PLAIN);
		table_put(&table, str_of(row->state), style_of_state(str_of(row->state)));
		if (row->cpu_percent >= 0)
			table_printf(&table, STYLE_PLAIN, "%.1f", row->cpu_percent);
		else
			table_put(&table, STR_LIT(""), STYLE_PLAIN);
		put_bytes(&table, row->measured, row->memory_bytes);
		put_bytes(&table, true, row->memory_limit_bytes);
		if (row->measured)
			table_printf(&table, STYLE_PLAIN, "%lld", (long long)row->pids);
		else
			table_put(&table, STR_LIT(""), STYLE_PLAIN);
		put_bytes(&table, row->measured, row->disk_bytes);
	}
	r = table_print(&table, out, top->cli->color_out);
	table_done(&table);
	return r;
}

static int print_json(const struct top *top, struct err *err)
{
	struct json_writer w;
	struct buf out;
	int r;

	buf_init(&out, API_BODY_LIMIT_BYTES);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_begin_array(&w, "data");
	for (size_t i = 0; i < top->count; i++) {
		const struct top_row *row = &top->rows[i];

		json_begin_object(&w, NULL);
		json_put_text(&w, "id", row->id);
		json_put_text(&w, "name", row->name[0] != '\0' ? row->name : NULL);
		json_put_text(&w, "state", row->state);
		if (row->cpu_percent >= 0)
			json_put_real(&w, "cpu_percent", row->cpu_percent);
		else
			json_put_null(&w, "cpu_percent");
		json_put_int(&w, "memory_bytes", row->memory_bytes);
		json_put_int(&w, "memory_limit_bytes", row->memory_limit_bytes);
		json_put_int(&w, "pids", row->pids);
		json_put_int(&w, "disk_bytes", row->disk_bytes);
		json_end_object(&w);
	}
	json_end_array(&w);
	json_end_object(&w);
	r = json_writer_end(&w);
	if (r == 0)
		(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, -r, "cannot print") : 0;
}

/* ---- live ---- */

/* The terminal is raw: every line needs a CR, and the rest of a longer old line is cleared. */
static void draw(const struct top *top, unsigned rows)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	if (out == NULL)
		return;
	if (print(top, out, rows > 4 ? rows - 4 : 1) < 0)
		(void)fputs("the table cannot be drawn\n", out);
	(void)fclose(out);
	(void)fputs("\033[H", stdout);
	(void)printf("cay top: %zu sandbox%s   q quits\033[K\r\n\033[K\r\n",
		     top->count + top->beyond, top->count + top->beyond == 1 ? "" : "es");
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\n')
			(void)fputs("\033[K\r\n", stdout);
		else
			(void)putchar(text[i]);
	}
	(void)fputs("\033[J", stdout);
	(void)fflush(stdout);
	free(text);
}

/* True: quit. */
static bool wait_key(int64_t wait_ms)
{
	struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
	char key = 0;

	if (poll(&pfd, 1, (int)wait_ms) <= 0)
		return false;
	return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3;
}

static int live(struct top *top, int64_t interval_ms, struct err *err)
{
	unsigned cols, rows;
	int r;

	if (terminal_enter("", err) < 0)
		return -1;
	terminal_watch(STR_LIT(SCREEN_ON));
	(void)fputs(SCREEN_ON, stdout);
	top->cli->raw = true;
	do {
		r = look(top, err);
		terminal_size(&cols, &rows);
		if (r == 0)
			draw(top, rows);
	} while (r == 0 && !wait_key(top->before_count ? interval_ms : FIRST_MS));
	top->cli->raw = false;
	terminal_leave();
	return r;
}

static int once(struct top *top, struct err *err)
{
	if (look(top, err) < 0)
		return -1;
	(void)usleep(FIRST_MS * 1000);
	if (look(top, err) < 0)
		return -1;
	if (top->cli->json)
		return print_json(top, err);
	return print(top, stdout, ROWS_MAX) < 0 ? err_set(err, ERR_INTERNAL, "cannot print") : 0;
}

int top_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct top top = { .cli = cli };
	uint64_t interval_sec = INTERVAL_SEC;
	int r;

	(void)args_number(args, "interval", &interval_sec);
	top.rows = calloc(ROWS_MAX, sizeof(*top.rows));
	top.before = calloc(ROWS_MAX, sizeof(*top.before));
	if (top.rows == NULL || top.before == NULL)
		r = err_set(err, ERR_INTERNAL, "out of memory");
	else if (!cli->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO))
		r = live(&top, (int64_t)interval_sec * 1000, err);
	else
		r = once(&top, err);
	free(top.rows);
	free(top.before);
	return r;
}
