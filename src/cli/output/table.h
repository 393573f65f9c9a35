/* SPDX-License-Identifier: Apache-2.0 */
/* Rows with aligned columns. Cells are sanitized copies; the last column is never padded. */
#ifndef CAY_CLI_OUTPUT_TABLE_H
#define CAY_CLI_OUTPUT_TABLE_H

#include "base/arena.h"
#include "cli/output/style.h"

#define TABLE_COLUMNS_MAX 12
#define TABLE_CELL_MAX 160		     /* longer text is truncated */
#define TABLE_LIMIT_BYTES (64 * 1024 * 1024) /* more rows than that are refused */

struct table_cell {
	const char *text;
	size_t width;
	enum style style;
};

struct table_row {
	struct table_row *next;
	struct table_cell cells[TABLE_COLUMNS_MAX];
};

struct table {
	struct arena arena;
	const char *const *headers; /* NULL-terminated */
	size_t columns;
	size_t next_cell;
	struct table_row *first, *last;
	size_t rows;
	int error; /* the first one is kept */
};

void table_init(struct table *table, const char *const *headers);
void table_done(struct table *table);
/* Fills the next cell; after the last column the next row starts. */
void table_put(struct table *table, struct str text, enum style style);
void table_printf(struct table *table, enum style style, const char *fmt, ...) _printf_(3, 4);
/* 0 or -errno */
int table_print(const struct table *table, FILE *out, bool color) _must_check_;

#endif
