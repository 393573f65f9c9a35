/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/df/df.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_MAX 64

struct options {
	struct df_format format;
	bool all, type, inodes, total, output;
	const char *only[TYPES_MAX], *without[TYPES_MAX];
	size_t only_count, without_count;
};

static const struct {
	const char *name;
	enum df_column column;
} fields[] = {
	{ "source", DF_SOURCE },     { "fstype", DF_TYPE },	   { "itotal", DF_INODES },
	{ "iused", DF_INODES_USED }, { "iavail", DF_INODES_FREE }, { "ipcent", DF_INODES_PERCENT },
	{ "size", DF_SIZE },	     { "used", DF_USED },	   { "avail", DF_AVAILABLE },
	{ "pcent", DF_PERCENT },     { "file", DF_FILE },	   { "target", DF_TARGET },
};
static_assert(ARRAY_LEN(fields) == DF_COLUMNS, "a column without a name");

static const char help[] =
	"Usage: df [OPTION]... [FILE]...\n"
	"Show how full the file systems are, or those that each FILE is on.\n"
	"For the sandbox's own disk: its limit, and what it uses of it.\n\n"
	"  -a, --all              also file systems without a size, and duplicates\n"
	"  -B, --block-size=SIZE  count in blocks of SIZE: 512, K, 1M, GB, ...\n"
	"  -h, --human-readable   with a letter, in powers of 1024 (1.5G)\n"
	"  -H, --si               with a letter, in powers of 1000\n"
	"  -i, --inodes           inodes instead of blocks\n"
	"  -k, -m                 in blocks of 1 KiB, of 1 MiB\n"
	"  -l, --local            accepted: all file systems of a sandbox are local\n"
	"      --output[=FIELDS]  only these columns: source, fstype, itotal, iused, iavail,\n"
	"                         ipcent, size, used, avail, pcent, file, target\n"
	"  -P, --portability      the headings of POSIX\n"
	"  -t, --type=TYPE        only file systems of TYPE\n"
	"  -T, --print-type       with the type\n"
	"      --total            with a sum\n"
	"  -x, --exclude-type=T   no file systems of type T\n"
	"      --sync, --no-sync, -v  accepted, without effect\n";

static int usage_error(void)
{
	(void)fputs("Try 'df --help' for more information.\n", stderr);
	return -EINVAL;
}

static int add_fields(struct options *o, const char *list)
{
	struct str rest = str_of(list), name;

	o->output = o->format.listed = true;
	while (rest.n) {
		size_t i = 0;

		if (!str_cut(rest, ',', &name, &rest)) {
			name = rest;
			rest.n = 0;
		}
		while (i < ARRAY_LEN(fields) && !str_is(name, fields[i].name))
			i++;
		if (i == ARRAY_LEN(fields) || o->format.column_count == DF_COLUMNS) {
			(void)fprintf(stderr, "df: option --output: field '%.*s' unknown\n",
				      (int)MIN(name.n, (size_t)64), name.p);
			return usage_error();
		}
		o->format.columns[o->format.column_count++] = fields[i].column;
	}
	return 0;
}

static int set_block(struct options *o, const char *text)
{
	if (df_block_bytes(text, &o->format.block_bytes) < 0) {
		(void)fprintf(stderr, "df: invalid --block-size argument '%.64s'\n", text);
		return -EINVAL;
	}
	o->format.block_name = text;
	o->format.unit = *text >= '0' && *text <= '9' ? "" : text;
	return 0;
}

static void set_letters(struct options *o, unsigned base)
{
	o->format.block_bytes = 0;
	o->format.human_base = base;
}

static int add_type(const char **types, size_t *count, const char *type)
{
	if (*count == TYPES_MAX) {
		(void)fputs("df: too many types\n", stderr);
		return -EINVAL;
	}
	types[(*count)++] = type;
	return 0;
}

enum { OPTION_OUTPUT = 256, OPTION_TOTAL, OPTION_HELP, OPTION_VERSION, OPTION_IGNORED };

static const struct option long_options[] = {
	{ "all", no_argument, NULL, 'a' },
	{ "block-size", required_argument, NULL, 'B' },
	{ "human-readable", no_argument, NULL, 'h' },
	{ "si", no_argument, NULL, 'H' },
	{ "inodes", no_argument, NULL, 'i' },
	{ "local", no_argument, NULL, 'l' },
	{ "output", optional_argument, NULL, OPTION_OUTPUT },
	{ "portability", no_argument, NULL, 'P' },
	{ "print-type", no_argument, NULL, 'T' },
	{ "type", required_argument, NULL, 't' },
	{ "exclude-type", required_argument, NULL, 'x' },
	{ "total", no_argument, NULL, OPTION_TOTAL },
	{ "sync", no_argument, NULL, OPTION_IGNORED },
	{ "no-sync", no_argument, NULL, OPTION_IGNORED },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ 0 },
};

/* 1: done. */
static int take_option(struct options *o, int option)
{
	switch (option) {
	case 'a':
		o->all = true;
		return 0;
	case 'B':
		return set_block(o, optarg);
	case 'h':
		set_letters(o, 1024);
		return 0;
	case 'H':
		set_letters(o, 1000);
		return 0;
	case 'i':
		o->inodes = true;
		return 0;
	case 'k':
		return set_block(o, "1K");
	case 'm':
		return set_block(o, "1M");
	case 'P':
		o->format.posix = true;
		return 0;
	case 'T':
		o->type = true;
		return 0;
	case 't':
		return add_type(o->only, &o->only_count, optarg);
	case 'x':
		return add_type(o->without, &o->without_count, optarg);
	case OPTION_OUTPUT:
		return add_fields(o, optarg ? optarg
					    : "source,fstype,itotal,iused,iavail,ipcent,size,used,"
					      "avail,pcent,file,target");
	case OPTION_TOTAL:
		o->total = true;
		return 0;
	case OPTION_HELP:
		(void)fputs(help, stdout);
		return 1;
	case OPTION_VERSION:
		(void)puts("df (cay)");
		return 1;
	case 'l':
	case 'v':
	case OPTION_IGNORED:
		return 0;
	default: /* getopt has printed the error */
		return usage_error();
	}
}

static void choose_columns(struct options *o)
{
	static const enum df_column blocks[] = { DF_SIZE, DF_USED, DF_AVAILABLE, DF_PERCENT },
				    inodes[] = { DF_INODES, DF_INODES_USED, DF_INODES_FREE,
						 DF_INODES_PERCENT };
	struct df_format *f = &o->format;

	f->columns[f->column_count++] = DF_SOURCE;
	if (o->type)
		f->columns[f->column_count++] = DF_TYPE;
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		f->columns[f->column_count++] = o->inodes ? inodes[i] : blocks[i];
	f->columns[f->column_count++] = DF_TARGET;
}

static int parse(struct options *o, int argc, char **argv)
{
	static char name[] = "df";
	int option, r;

	argv[0] = name; /* the name in getopt's messages */
	while ((option = getopt_long(argc, argv, "aB:hHiklmPTt:vx:", long_options, NULL)) != -1) {
		r = take_option(o, option);
		if (r != 0)
			return r;
	}
	if (o->output && (o->inodes || o->type || o->format.posix)) {
		(void)fputs("df: --output cannot be combined with -i, -P or -T\n", stderr);
		return usage_error();
	}
	if (!o->output)
		choose_columns(o);
	if (o->format.posix && o->format.block_bytes == 1024)
		o->format.block_name = "1024";
	return 0;
}

static bool has_type(const char *const *types, size_t count, const char *type)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(types[i], type) == 0)
			return true;
	return false;
}

static bool wanted(const struct options *o, const struct df_row *row)
{
	return (!o->only_count || has_type(o->only, o->only_count, row->type)) &&
	       !has_type(o->without, o->without_count, row->type);
}

/* Of several mounts of one file system, the one nearest to the root is shown. */
static bool is_duplicate(struct df_row *rows, size_t count, const struct df_row *row)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].device != row->device)
			continue;
		if (strlen(row->target) < strlen(rows[i].target))
			rows[i] = *row;
		return true;
	}
	return false;
}

static size_t choose_mounts(const struct options *o, struct df_row *mounts, size_t count,
			    struct df_row *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct df_row row = mounts[i];

		/* A mount that is covered by another cannot be inspected. */
		if (df_mounts_find(mounts + i, count - i, row.target) != &mounts[i])
			continue;
		df_row_measure(&row, row.target);
		if (!wanted(o, &row))
			continue;
		if (!o->all && (row.unread || !row.size || is_duplicate(rows, kept, &row)))
			continue;
		rows[kept++] = row;
	}
	return kept;
}

static int choose_files(const struct options *o, char **files, size_t file_count,
			struct df_row *mounts, size_t mount_count, struct df_row *rows,
			size_t *ret_count)
{
	int status = 0;

	*ret_count = 0;
	for (size_t i = 0; i < file_count; i++) {
		char *path = realpath(files[i], NULL);
		struct df_row *mount = path ? df_mounts_find(mounts, mount_count, path) : NULL;
		struct df_row row;

		if (mount) {
			row = *mount;
			row.file = files[i];
			df_row_measure(&row, path);
			if (wanted(o, &row))
				rows[(*ret_count)++] = row;
		} else {
			(void)fprintf(stderr, "df: %s: %s\n", files[i],
				      strerror(path ? ENOENT : errno));
			status = 1;
		}
		free(path);
	}
	return status;
}

static struct df_row sum(const struct df_row *rows, size_t count)
{
	struct df_row total = { .source = "total", .type = "-", .target = "-", .file = "-" };

	for (size_t i = 0; i < count; i++) {
		if (rows[i].unread)
			continue;
		total.size += rows[i].size;
		total.used += rows[i].used;
		total.available += rows[i].available;
		total.inodes += rows[i].inodes;
		total.inodes_free += rows[i].inodes_free;
	}
	return total;
}

static int show(const struct options *o, struct df_row *rows, size_t count, int status)
{
	if (count == 0) {
		if (!status)
			(void)fputs("df: no file systems processed\n", stderr);
		return 1;
	}
	if (o->total) { /* one row more than mounts or files */
		rows[count] = sum(rows, count);
		count++;
	}
	return df_print(stdout, rows, count, &o->format) < 0 ? 1 : status;
}

int df_main(int argc, char **argv)
{
	static struct options o = { .format = { .block_bytes = 1024,
						.human_base = 1024,
						.block_name = "1K",
						.unit = "" } };
	static struct df_row *mounts, *rows; /* live until the process ends */
	size_t mount_count, file_count, count;
	int r = parse(&o, argc, argv), status = 0;

	if (r != 0)
		return r < 0;
	r = df_mounts_read(&mounts, &mount_count);
	if (r < 0) {
		(void)fprintf(stderr, "df: cannot read the table of mounts: %s\n", strerror(-r));
		return 1;
	}
	file_count = (size_t)(argc - optind);
	rows = calloc(MAX(mount_count, file_count) + 1, sizeof(*rows));
	if (!rows) {
		(void)fputs("df: out of memory\n", stderr);
		return 1;
	}
	if (file_count) {
		status = choose_files(&o, argv + optind, file_count, mounts, mount_count, rows,
				      &count);
	} else {
		count = choose_mounts(&o, mounts, mount_count, rows);
	}
	return show(&o, rows, count, status);
}
