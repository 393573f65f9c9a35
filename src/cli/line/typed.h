/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parser of an incomplete command line, for completion. It does not report missing parts. The
 * words are borrowed.
 */
#ifndef CAY_CLI_LINE_TYPED_H
#define CAY_CLI_LINE_TYPED_H

#include "cli/line/command.h"

#define TYPED_OPERANDS_MAX 16 /* further ones are only counted */

struct typed {
	const char *current;	       /* the word under the cursor; "" if it is empty */
	const char *family;	       /* the first word of a two-word command; NULL: none */
	const struct command *command; /* NULL: not known yet */
	/* current is the value of this option; NULL: it is not a value */
	const struct option_spec *option;
	const char *value; /* with option: the typed part of the value */
	const char *operands[TYPED_OPERANDS_MAX];
	size_t operand_count;
	bool literal; /* what follows is not an option of ours */
	const char *state, *url, *key, *config;
};

/* The last word is the one under the cursor. */
void typed_read(struct typed *typed, const char *const *words, size_t count);

#endif
