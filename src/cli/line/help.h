/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_LINE_HELP_H
#define CAY_CLI_LINE_HELP_H

#include <stdio.h>

#include "cli/line/command.h"

void help_overview(FILE *out, bool color);
void help_command(FILE *out, const struct command *command, bool color);
void help_family(FILE *out, const char *family, bool color); /* "template": all its commands */
void help_manual(FILE *out);				     /* roff, section 1 */

#endif
