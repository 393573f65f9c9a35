/* SPDX-License-Identifier: Apache-2.0 */
/* The output of df: numbers in blocks or with a suffix, and columns as wide as their content. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/df/df.h"

/* The number of whole units, rounded up as in df, so that nothing is shown smaller than it is. */
static uint64_t units(uint64_t bytes, uint64_t unit)
{
	return bytes / unit + (bytes % unit != 0);
}

static void with_letter(char dst[DF_TEXT_SIZE], uint64_t bytes, unsigned base)
{
	static const char letters[] = "KMGTPE";
	uint64_t unit = 1, tenths;
	size_t at = 0;

	while (at < sizeof(letters) - 1 && units(bytes, unit) >= base) {
		unit *= base;
		at++;
	}
	if (at == 0) {
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64, bytes);
		return;
	}
	tenths = bytes / unit * 10 + units(bytes % unit * 10, unit);
	if (tenths < 100)
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64 ".%" PRIu64 "%c", tenths / 10,
			       tenths % 10, base == 1000 && at == 1 ? 'k' : letters[at - 1]);
	else
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64 "%c", units(bytes, unit),
			       base == 1000 && at == 1 ? 'k' : letters[at - 1]);
}

void df_count(char dst[DF_TEXT_SIZE], uint64_t bytes, const struct df_format *format)
{
	if (format->block_bytes)
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64 "%.3s",
			       units(bytes, format->block_bytes), format->unit);
	else
		with_letter(dst, bytes, format->human_base);
}

void df_percent(char dst[DF_TEXT_SIZE], uint64_t used, uint64_t available)
{
	uint64_t all = used + available;

	while (all >= UINT64_MAX / 128) { /* the product below must fit */
		all >>= 1;
		used >>= 1;
	}
	if (all)
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64 "%%", units(used * 100, all));
	else
		(void)snprintf(dst, DF_TEXT_SIZE, "-");
}

int df_block_bytes(const char *text, uint64_t *ret)
{
	static const char letters[] = "KMGTPE";
	size_t digits = strspn(text, "0123456789");
	uint64_t value = 1, base = 1024;
	const char *letter;

	if (digits && str_to_u64((struct str){ text, digits }, UINT64_MAX, &value) < 0)
		return -EINVAL;
	text += digits;
	letter = *text ? strchr(letters, *text == 'k' ? 'K' : *text) : NULL;
	if (letter) {
		text++;
		if (strcmp(text, "B") == 0)
			base = 1000;
		else if (*text && strcmp(text, "iB") != 0)
			return -EINVAL;
		for (const char *at = letters; at <= letter; at++)
			if (__builtin_mul_overflow(value, base, &value))
				return -EINVAL;
	} else if (*text || !digits) {
		return -EINVAL;
	}
	*ret = value;
	return value ? 0 : -EINVAL;
}

static bool is_left(enum df_column column)
{
	return column == DF_SOURCE || column == DF_TYPE || column == DF_FILE || column == DF_TARGET;
}

static void heading(char dst[DF_TEXT_SIZE], enum df_column column, const struct df_format *format)
{
	static const char *const names[DF_COLUMNS] = {
		[DF_SOURCE] = "Filesystem",   [DF_TYPE] = "Type",
		[DF_INODES] = "Inodes",	      [DF_INODES_USED] = "IUsed",
		[DF_INODES_FREE] = "IFree",   [DF_INODES_PERCENT] = "IUse%",
		[DF_SIZE] = "Size",	      [DF_USED] = "Used",
		[DF_AVAILABLE] = "Available", [DF_PERCENT] = "Use%",
		[DF_FILE] = "File",	      [DF_TARGET] = "Mounted on",
	};
	const char *name = names[column];

	if (column == DF_AVAILABLE && (!format->block_bytes || format->listed))
		name = "Avail";
	else if (column == DF_PERCENT && format->posix)
		name = "Capacity";
	if (column == DF_SIZE && format->block_bytes)
		(void)snprintf(dst, DF_TEXT_SIZE, "%s%.20s-blocks", *format->unit ? "1" : "",
			       format->block_name);
	else
		(void)snprintf(dst, DF_TEXT_SIZE, "%s", name);
}

/* A number of inodes: as it is, or with a suffix. */
static void inode_count(char dst[DF_TEXT_SIZE], uint64_t count, const struct df_format *format)
{
	if (format->block_bytes)
		(void)snprintf(dst, DF_TEXT_SIZE, "%" PRIu64, count);
	else
		with_letter(dst, count, format->human_base);
}

static void number(char dst[DF_TEXT_SIZE], enum df_column column, const struct df_row *row,
		   const struct df_format *format)
{
	uint64_t inodes_used = row->inodes - MIN(row->inodes_free, row->inodes);

	if (row->unread)
		(void)snprintf(dst, DF_TEXT_SIZE, "-");
	else if (column == DF_INODES)
		inode_count(dst, row->inodes, format);
	else if (column == DF_INODES_USED)
		inode_count(dst, inodes_used, format);
	else if (column == DF_INODES_FREE)
		inode_count(dst, row->inodes_free, format);
	else if (column == DF_INODES_PERCENT)
		df_percent(dst, inodes_used, row->inodes_free);
	else if (column == DF_SIZE)
		df_count(dst, row->size, format);
	else if (column == DF_USED)
		df_count(dst, row->used, format);
	else if (column == DF_AVAILABLE)
		df_count(dst, row->available, format);
	else
		df_percent(dst, row->used, row->available);
}

/* The text of a cell; scratch is used for a number. */
static const char *cell(char scratch[DF_TEXT_SIZE], enum df_column column, const struct df_row *row,
			const struct df_format *format)
{
	if (!row)
		heading(scratch, column, format);
	else if (column == DF_SOURCE)
		return row->source;
	else if (column == DF_TYPE)
		return row->type;
	else if (column == DF_FILE)
		return row->file;
	else if (column == DF_TARGET)
		return row->target;
	else
		number(scratch, column, row, format);
	return scratch;
}

static int least_width(enum df_column column)
{
	if (column == DF_SOURCE)
		return 14;
	return column == DF_PERCENT || column == DF_INODES_PERCENT || is_left(column) ? 4 : 5;
}

static void print_row(FILE *to, const struct df_row *row, const struct df_format *format,
		      const int widths[DF_COLUMNS])
{
	char scratch[DF_TEXT_SIZE];

	for (size_t i = 0; i < format->column_count; i++) {
		enum df_column column = format->columns[i];
		const char *text = cell(scratch, column, row, format);
		bool last = i + 1 == format->column_count;
		int width = last && is_left(column) ? 0 : widths[i];

		(void)fprintf(to, is_left(column) ? "%s%-*s" : "%s%*s", i ? " " : "", width, text);
	}
	(void)fputc('\n', to);
}

int df_print(FILE *to, const struct df_row *rows, size_t count, const struct df_format *format)
{
	int widths[DF_COLUMNS];
	char scratch[DF_TEXT_SIZE];

	for (size_t i = 0; i < format->column_count; i++) {
		enum df_column column = format->columns[i];

		widths[i] =
			MAX(least_width(column), (int)strlen(cell(scratch, column, NULL, format)));
		for (size_t k = 0; k < count; k++)
			widths[i] = MAX(widths[i],
					(int)strlen(cell(scratch, column, &rows[k], format)));
	}
	print_row(to, NULL, format, widths);
	for (size_t k = 0; k < count; k++)
		print_row(to, &rows[k], format, widths);
	return fflush(to) == 0 ? 0 : -errno;
}
