/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggestions for an unknown command or option: the nearest word of ours, or our name for another
 * tool's word. Called only by the parser.
 */
#ifndef CAY_CLI_LINE_SUGGEST_H
#define CAY_CLI_LINE_SUGGEST_H

#include "cli/line/command.h"

/* Each sets err (wrong usage) and returns -1. family NULL: the first word of a command. */
int suggest_command(const char *family, const char *word, struct err *err);
int suggest_option(const struct command *command, const char *name, size_t n, struct err *err);
int suggest_letter(const struct command *command, char letter, struct err *err);
/* Lists the choices for an invalid value. */
int suggest_choice(const struct option_spec *spec, const char *value, struct err *err);

/* Formats a NULL-terminated list as "a, b or c". */
void suggest_list(char *dst, size_t size, const char *const *words);

#endif
