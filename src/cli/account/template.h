/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ACCOUNT_TEMPLATE_H
#define CAY_CLI_ACCOUNT_TEMPLATE_H

#include "cli/cli.h"

/* Requests a build, follows it to its end and shows its log as progress. 0, or -1 with err set. */
int template_build(struct cli *cli, const char *name, struct err *err) _must_check_;

#endif
