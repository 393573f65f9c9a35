/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line that is still being typed, read as far as it goes: completion must not complain
 * about what is missing. The words are borrowed.
 */
#ifndef CAY_CLI_LINE_TYPED_H
#define CAY_CLI_LINE_TYPED_H

#include "cli/line/command.h"

#define TYPED_OPERANDS_MAX 16 /* further ones are counted only */

struct typed {
	const char *current;		  /* the word under the cursor; "" when it is not begun */
	const char *family;		  /* the first of two words of a command; NULL: none */
	const struct command *command;	  /* NULL: not known yet */
	const struct option_spec *option; /* current is its value; NULL: it is none */
	const char *value;		  /* with option: what is typed of the value */
	const char *operands[TYPED_OPERANDS_MAX];
	size_t operand_count;
	bool literal; /* what follows is no option of ours */
	const char *state, *url, *key, *config;
};

/* The last of the words is the one under the cursor. */
void typed_read(struct typed *typed, const char *const *words, size_t count);

#endif
