/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the daemon's errors into the terms of this program: hints that name API calls become
 * hints that name commands, and fields become options of the current command. With --json the
 * daemon's reply is passed on unchanged.
 */
#ifndef CAY_CLI_API_ADVICE_H
#define CAY_CLI_API_ADVICE_H

#include "cli/cli.h"

/* What to do about an error; theirs is the daemon's hint, used where this program has none, and ""
 * for errors of this program itself. */
void advice_hint(char dst[CLI_HINT_MAX], const struct cli *cli, enum err_code code,
		 struct str theirs);
/* The daemon's message, with "--memory" instead of "memory_mb" if the command has that option. */
void advice_message(char dst[ERR_MESSAGE_MAX], const struct cli *cli, struct str theirs);

#endif
