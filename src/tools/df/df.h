/* SPDX-License-Identifier: Apache-2.0 */
/*
 * df(1) for sandboxes. The kernel's statfs(2) shows the host's storage pool for the sandbox's root,
 * because it does not consider quotas. This program shows the sandbox's own limit and use, which
 * the agent keeps in a file (docs/guides/inside.md). For every other file system it shows the
 * kernel's values. Options and output are those of GNU df.
 */
#ifndef CAY_TOOLS_DF_DF_H
#define CAY_TOOLS_DF_DF_H

#include <stdio.h>

#include "base/str.h"

#define DF_DISK_FILE "/sys/fs/disk"
#define DF_TEXT_SIZE 32
#define DF_MOUNTS_MAX 4096

enum df_column {
	DF_SOURCE,
	DF_TYPE,
	DF_INODES,
	DF_INODES_USED,
	DF_INODES_FREE,
	DF_INODES_PERCENT,
	DF_SIZE,
	DF_USED,
	DF_AVAILABLE,
	DF_PERCENT,
	DF_FILE,
	DF_TARGET,
	DF_COLUMNS
};

/* Strings belong to the mount table or argv. */
struct df_row {
	const char *source, *type, *target;
	const char *file; /* the argument; "-": none */
	uint64_t device;
	uint64_t size, used, available; /* bytes */
	uint64_t inodes, inodes_free;
	bool unread; /* statfs failed: no numbers */
};

struct df_format {
	enum df_column columns[DF_COLUMNS];
	size_t column_count;
	uint64_t block_bytes;	/* 0: with a suffix, in powers of human_base */
	unsigned human_base;	/* 1024 or 1000 */
	const char *block_name; /* for the heading: "1K", "1M" */
	const char *unit;	/* suffix of every count in blocks: "", or "M" for -B M */
	bool listed;		/* the columns were selected by name */
	bool posix;
};

/* table.c */
void df_count(char dst[DF_TEXT_SIZE], uint64_t bytes, const struct df_format *format);
void df_percent(char dst[DF_TEXT_SIZE], uint64_t used, uint64_t available);
/* "M", "1M", "MB", "10k", "512": bytes, or -EINVAL. */
int df_block_bytes(const char *text, uint64_t *ret) _must_check_;
int df_print(FILE *to, const struct df_row *rows, size_t count,
	     const struct df_format *format) _must_check_;

/* mounts.c */
/* "LIMIT USED" in bytes; false: malformed, or without a limit. */
bool df_disk_parse(struct str text, uint64_t *ret_limit, uint64_t *ret_used);
/*
 * All mounts in the order of the kernel's table. The rows and their strings live until the process
 * ends.
 */
int df_mounts_read(struct df_row **ret_rows, size_t *ret_count) _must_check_;
/* The mount that contains a path (absolute, without links). */
struct df_row *df_mounts_find(struct df_row *rows, size_t count, const char *path);
void df_row_measure(struct df_row *row, const char *path);

int df_main(int argc, char **argv); /* the exit status */

#endif
