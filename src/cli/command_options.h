/* SPDX-License-Identifier: Apache-2.0 */
/* What command.c takes of command_options.c; each array ends with an empty element. */
#ifndef CAY_CLI_COMMAND_OPTIONS_H
#define CAY_CLI_COMMAND_OPTIONS_H

#include "cli/command.h"

extern const struct option_spec up_options[], down_options[], create_options[], run_options[],
	exec_options[], ps_options[], logs_options[], attach_options[], kill_options[],
	windows_options[], ls_options[], cp_options[], tree_options[], glob_options[],
	grep_options[], watch_options[], events_options[], usage_options[], top_options[],
	rm_options[], resume_options[], extend_options[], snapshot_options[], restore_options[],
	fork_options[], secret_value_options[], secret_set_options[], key_create_options[],
	key_set_options[], webhook_add_options[], webhook_set_options[],
	webhook_deliveries_options[], preview_options[], tunnel_options[], help_options[],
	net_options[];
extern const char *const up_examples[],
	*const create_examples[],
		*const run_examples[],
			*const exec_examples[],
				*const logs_examples[],
					*const kill_examples[],
						*const windows_examples[],
							*const cp_examples[],
								*const glob_examples[],
									*const grep_examples[],
										*const events_examples[],
											*const snapshot_examples[],
												*const fork_examples[],
													*const secret_set_examples[],
														*const key_set_examples[],
															*const webhook_add_examples[],
																*const preview_examples[],
																	*const net_examples[],
																		*const net_learn_examples
																			[];

#endif
