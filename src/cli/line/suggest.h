/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody may have meant who typed a command or an option that does not exist: the nearest
 * word of ours, or what another tool's word is called here. Called by the parser only.
 */
#ifndef CAY_CLI_LINE_SUGGEST_H
#define CAY_CLI_LINE_SUGGEST_H

#include "cli/line/command.h"

/* Each sets err (wrong usage) and returns -1. family NULL: the first word of a command. */
int suggest_command(const char *family, const char *word, struct err *err);
int suggest_option(const struct command *command, const char *name, size_t n, struct err *err);
int suggest_letter(const struct command *command, char letter, struct err *err);
/* The value is none of the choices: they are listed. */
int suggest_choice(const struct option_spec *spec, const char *value, struct err *err);

/* "a, b or c" of a NULL-terminated list. */
void suggest_list(char *dst, size_t size, const char *const *words);

#endif
