/* SPDX-License-Identifier: Apache-2.0 */
/* Option tables for command.c; each array ends with an empty element. */
#ifndef CAY_CLI_LINE_COMMAND_OPTIONS_H
#define CAY_CLI_LINE_COMMAND_OPTIONS_H

#include "cli/line/command.h"

extern const struct option_spec up_options[], down_options[], create_options[], run_options[],
	exec_options[], ps_options[], logs_options[], attach_options[], kill_options[],
	windows_options[], ls_options[], cp_options[], tree_options[], glob_options[],
	grep_options[], watch_options[], events_options[], usage_options[], top_options[],
	rm_options[], resume_options[], extend_options[], snapshot_options[], restore_options[],
	fork_options[], secret_value_options[], secret_set_options[], key_create_options[],
	key_set_options[], webhook_add_options[], webhook_set_options[],
	webhook_deliveries_options[], preview_options[], tunnel_options[], help_options[],
	net_options[], shell_options[], update_options[];
extern const char *const up_examples[];
extern const char *const down_examples[];
extern const char *const create_examples[];
extern const char *const run_examples[];
extern const char *const exec_examples[];
extern const char *const logs_examples[];
extern const char *const kill_examples[];
extern const char *const windows_examples[];
extern const char *const cp_examples[];
extern const char *const glob_examples[];
extern const char *const grep_examples[];
extern const char *const events_examples[];
extern const char *const snapshot_examples[];
extern const char *const fork_examples[];
extern const char *const secret_set_examples[];
extern const char *const key_set_examples[];
extern const char *const webhook_add_examples[];
extern const char *const preview_examples[];
extern const char *const net_examples[];
extern const char *const net_learn_examples[];
extern const char *const shell_examples[];
extern const char *const update_examples[];

#endif
