/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a command by what was typed. */
#include <string.h>

#include "cli/command.h"

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

/* Edit distance between short words; anything long is simply far. */
static size_t word_distance(const char *a, const char *b)
{
	size_t row[33], n = strlen(a), m = strlen(b);

	if (n > 32 || m > 32)
		return 99;
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t above = row[j];
			size_t best = corner + (a[i - 1] != b[j - 1]);

			best = MIN(best, above + 1);
			row[j] = MIN(best, row[j - 1] + 1);
			corner = above;
		}
	}
	return row[m];
}

const char *command_nearest(const char *word)
{
	static const struct {
		const char *other, *ours;
	} foreign[] = {
		{ "list", "ls" },      { "top", "ps" },		{ "delete", "rm" },
		{ "destroy", "rm" },   { "log", "logs" },	{ "start", "up" },
		{ "stop", "down" },    { "show", "info" },	{ "get", "info" },
		{ "inspect", "info" }, { "new", "create" },	{ "check", "doctor" },
		{ "shell", "exec" },   { "window", "windows" }, { "templates", "template ls" },
		{ "keys", "key ls" },
	};
	const char *best = NULL;
	size_t best_distance = 3;

	for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
		if (strcmp(word, foreign[i].other) == 0)
			return foreign[i].ours;
	for (const struct command *c = command_table; c->name != NULL; c++) {
		size_t d = c->group != NULL ? word_distance(word, c->name) : 99;

		if (d < best_distance && d < strlen(word)) {
			best_distance = d;
			best = c->name;
		}
	}
	return best;
}
