/* SPDX-License-Identifier: Apache-2.0 */
/* A parsed command line, checked against the command table. Commands only read values from it. */
#ifndef CAY_CLI_LINE_ARGS_H
#define CAY_CLI_LINE_ARGS_H

#include "cli/line/command.h"

/* At the limit: rejected as wrong usage. */
#define ARGS_VALUES_MAX 128

struct arg_value {
	const struct option_spec *spec;
	const char *text; /* borrowed from argv; NULL for flags */
	uint64_t number;
};

struct args {
	const struct command *command; /* NULL if the line has none */
	struct arg_value values[ARGS_VALUES_MAX];
	size_t value_count;
	const char **operands; /* owned array of borrowed words */
	size_t operand_count;
};

/* argv without the program's name. Returns 0, or -1 with err set (wrong usage). */
int args_parse(struct args *args, int argc, char **argv, struct err *err) _must_check_;
void args_done(struct args *args);

bool args_flag(const struct args *args, const char *name);
const char *args_text(const struct args *args, const char *name); /* the last one, or NULL */
bool args_number(const struct args *args, const char *name, uint64_t *ret);
/* Iterates over the values of a repeatable option: start with *cursor = 0; NULL at the end. */
const char *args_next(const struct args *args, const char *name, size_t *cursor);

/* max 0: no limit. "90", "10m", "2h", "1d" and "512", "2g": 0, -EINVAL or -ERANGE. */
int args_seconds(const char *text, uint64_t min, uint64_t max, uint64_t *ret) _must_check_;
int args_megabytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret) _must_check_;

#endif
