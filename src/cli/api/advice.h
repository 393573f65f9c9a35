/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's refusals in the words of this program: hints that name calls of the API become hints
 * that name commands, and fields become options of the command in use. With --json the daemon's own
 * answer is passed on unchanged.
 */
#ifndef CAY_CLI_API_ADVICE_H
#define CAY_CLI_API_ADVICE_H

#include "cli/cli.h"

/* What to do about an error; theirs is the daemon's hint, used where this program has none, and ""
 * for errors of this program itself. */
void advice_hint(char dst[CLI_HINT_MAX], const struct cli *cli, enum err_code code,
		 struct str theirs);
/* The daemon's message, with "--memory" for "memory_mb" where the command has that option. */
void advice_message(char dst[ERR_MESSAGE_MAX], const struct cli *cli, struct str theirs);

#endif
