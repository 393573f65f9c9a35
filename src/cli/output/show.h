/* SPDX-License-Identifier: Apache-2.0 */
/* Prints replies of the API for people. */
#ifndef CAY_CLI_OUTPUT_SHOW_H
#define CAY_CLI_OUTPUT_SHOW_H

#include <stdio.h>

#include "cli/api/api.h"
#include "cli/output/table.h"

/* One line per key and value; nested objects are indented; nulls and empty objects are omitted. */
void show_object(FILE *out, const struct json *object, bool color);
/* The table, or a note on standard error if it has no rows. */
int show_table(struct cli *cli, const struct table *table, const char *when_empty,
	       struct err *err) _must_check_;
/*
 * All pages of a list: the replies themselves with --json, only the identifying member with -q,
 * otherwise a table.
 */
struct show_list {
	const char *path, *query; /* query NULL: none */
	api_keep_fn keep;	  /* filter for what the API cannot filter; NULL: all */
	const char *member;	  /* identifies an item */
	const char *const *headers;
	api_each_fn row; /* arg is the struct table */
	const char *when_empty;
};
int show_list(struct cli *cli, const struct show_list *list, struct err *err) _must_check_;
/*
 * For a call that creates several sandboxes: prints ids on standard output and failures on standard
 * error. Returns the exit status.
 */
int show_made(struct cli *cli, const struct json *answer);
/* The state of a sandbox for people: "hibernated" instead of "paused" where that applies. */
struct str show_state(const struct json *sandbox);
/* The age of the time in a member; "" if it has none. */
void show_age(char dst[STYLE_SPAN_SIZE], const struct json *item, const char *member);
/* A value in one line. */
void show_value(char *dst, size_t size, const struct json *value);

/*
 * A line that is rewritten during a long operation (on a terminal only): a spinner, the elapsed
 * seconds, the latest message.
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
