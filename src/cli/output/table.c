/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/table.h"

#include <errno.h>
#include <stdarg.h>

void table_init(struct table *table, const char *const *headers)
{
	*table = (struct table){ .headers = headers };
	arena_init(&table->arena, TABLE_LIMIT_BYTES);
	while (headers[table->columns] != NULL && table->columns < TABLE_COLUMNS_MAX)
		table->columns++;
}

void table_done(struct table *table)
{
	arena_done(&table->arena);
}

static struct table_row *next_row(struct table *table)
{
	struct table_row *row = arena_alloc(&table->arena, sizeof(*row));

	if (row == NULL)
		return NULL;
	if (table->last != NULL)
		table->last->next = row;
	else
		table->first = row;
	table->last = row;
	table->rows++;
	return row;
}

void table_put(struct table *table, struct str text, enum style style)
{
	char clean[TABLE_CELL_MAX];
	struct table_row *row = table->last;
	struct table_cell *cell;

	if (table->error != 0)
		return;
	if (table->next_cell == 0)
		row = next_row(table);
	style_clean(clean, sizeof(clean), text.n > 0 ? text : STR_LIT("-"));
	if (row == NULL) {
		table->error = -ENOBUFS;
		return;
	}
	cell = &row->cells[table->next_cell];
	cell->text = arena_strdup(&table->arena, clean);
	if (cell->text == NULL) {
		table->error = -ENOBUFS;
		return;
	}
	cell->width = style_width(str_of(clean));
	cell->style = text.n > 0 ? style : STYLE_DIM;
	table->next_cell = (table->next_cell + 1) % table->columns;
}

void table_printf(struct table *table, enum style style, const char *fmt, ...)
{
	char text[TABLE_CELL_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_put(table, str_of(text), style);
}

static void print_cell(FILE *out, const char *text, size_t width, size_t column_width, bool last,
		       const char *on, const char *off)
{
	(void)fprintf(out, "%s%s%s", on, text, on[0] != '\0' ? off : "");
	if (!last)
		(void)fprintf(out, "%*s", (int)(column_width - width) + 2, "");
}

int table_print(const struct table *table, FILE *out, bool color)
{
	size_t widths[TABLE_COLUMNS_MAX];

	if (table->error != 0)
		return table->error;
	for (size_t c = 0; c < table->columns; c++)
		widths[c] = style_width(str_of(table->headers[c]));
	for (const struct table_row *row = table->first; row != NULL; row = row->next)
		for (size_t c = 0; c < table->columns; c++)
			widths[c] = MAX(widths[c], row->cells[c].width);
	for (size_t c = 0; c < table->columns; c++)
		print_cell(out, table->headers[c], style_width(str_of(table->headers[c])),
			   widths[c], c + 1 == table->columns, style_on(color, STYLE_BOLD),
			   style_off(color));
	(void)fputc('\n', out);
	for (const struct table_row *row = table->first; row != NULL; row = row->next) {
		for (size_t c = 0; c < table->columns; c++)
			print_cell(out, row->cells[c].text ? row->cells[c].text : "",
				   row->cells[c].width, widths[c], c + 1 == table->columns,
				   style_on(color, row->cells[c].style), style_off(color));
		(void)fputc('\n', out);
	}
	return 0;
}
