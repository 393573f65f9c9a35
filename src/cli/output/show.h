/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the API as people read them. */
#ifndef CAY_CLI_OUTPUT_SHOW_H
#define CAY_CLI_OUTPUT_SHOW_H

#include <stdio.h>

#include "cli/api/api.h"
#include "cli/output/table.h"

/* Key and value, one line each; nested objects indented; nulls and empty objects left out. */
void show_object(FILE *out, const struct json *object, bool color);
/* The table, or a remark on standard error when it has no rows. */
int show_table(struct cli *cli, const struct table *table, const char *when_empty,
	       struct err *err) _must_check_;
/*
 * All pages of a list: the answers themselves with --json, only the member that names each item
 * with -q, otherwise a table.
 */
struct show_list {
	const char *path, *query; /* query NULL: none */
	api_keep_fn keep;	  /* only these items, for what the API cannot filter; NULL: all */
	const char *member;	  /* names an item */
	const char *const *headers;
	api_each_fn row; /* arg is the struct table */
	const char *when_empty;
};
int show_list(struct cli *cli, const struct show_list *list, struct err *err) _must_check_;
/* Of a call that makes many sandboxes: ids on standard output, what failed on standard error. The
 * exit status. */
int show_made(struct cli *cli, const struct json *answer);
/* The state of a sandbox as people see it: "hibernated" instead of paused where that is so. */
struct str show_state(const struct json *sandbox);
/* How long ago the time in a member was; "" when it has none. */
void show_age(char dst[STYLE_SPAN_SIZE], const struct json *item, const char *member);
/* A value in one line. */
void show_value(char *dst, size_t size, const struct json *value);

/*
 * A line that is rewritten while something takes long (on a terminal only): a turning mark, the
 * seconds passed, the latest message.
 */
struct progress {
	bool live; /* standard error is a terminal and not -q */
	bool shown;
	int64_t start_us;
	unsigned turn;
};
void progress_start(struct progress *progress, const struct cli *cli);
void progress_update(struct progress *progress, struct str message);
void progress_clear(struct progress *progress);

#endif
