/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a command by what was typed. */
#include <string.h>

#include "cli/line/command.h"

const struct command *command_find(const char *const *words, size_t count, size_t *ret_used)
{
	for (const struct command *c = command_table; c->name != NULL; c++) {
		const char *space = strchr(c->name, ' ');

		if (count == 0)
			break;
		if (space == NULL) {
			if (strcmp(words[0], c->name) != 0)
				continue;
			*ret_used = 1;
			return c;
		}
		if (count < 2 || strlen(words[0]) != (size_t)(space - c->name) ||
		    strncmp(words[0], c->name, strlen(words[0])) != 0 ||
		    strcmp(words[1], space + 1) != 0)
			continue;
		*ret_used = 2;
		return c;
	}
	return NULL;
}

bool command_is_family(const char *word)
{
	size_t n = strlen(word);

	for (const struct command *c = command_table; c->name != NULL; c++)
		if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ')
			return true;
	return false;
}
