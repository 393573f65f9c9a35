/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define FAR 99
#define NEAR 2 /* edits that count as a typing error */

/* Another tool's name for something, and advice. */
struct foreign {
	const char *word;
	const char *advice;
	const char *option; /* only for commands that have this option; NULL: for all */
};

static const struct foreign commands[] = {
	{ "stop", "did you mean 'cay pause' (stays in memory), 'cay hibernate' (stays on disk) or "
		  "'cay rm'?" },
	{ "start", "did you mean 'cay resume' (a paused sandbox), 'cay create' (a new one) or 'cay "
		   "up' (the daemon)?" },
	{ "restart", "did you mean 'cay down --keep' and 'cay up' (the daemon)?" },
	{ "unpause", "did you mean 'cay resume'?" },
	{ "wake", "did you mean 'cay resume'?" },
	{ "suspend", "did you mean 'cay pause' or 'cay hibernate'?" },
	{ "list", "did you mean 'cay ls'?" },
	{ "delete", "did you mean 'cay rm'?" },
	{ "destroy", "did you mean 'cay rm' (a sandbox) or 'cay down' (the daemon and all)?" },
	{ "remove", "did you mean 'cay rm'?" },
	{ "log", "did you mean 'cay logs'?" },
	{ "show", "did you mean 'cay info'?" },
	{ "get", "did you mean 'cay info'?" },
	{ "inspect", "did you mean 'cay info'?" },
	{ "describe", "did you mean 'cay info'?" },
	{ "new", "did you mean 'cay create'?" },
	{ "check", "did you mean 'cay doctor'?" },
	{ "ssh", "did you mean 'cay shell'?" },
	{ "sh", "did you mean 'cay shell'?" },
	{ "bash", "did you mean 'cay shell'?" },
	{ "enter", "did you mean 'cay shell'?" },
	{ "window", "did you mean 'cay windows'?" },
	{ "templates", "did you mean 'cay template ls'?" },
	{ "images", "did you mean 'cay template ls'?" },
	{ "build", "did you mean 'cay template build'?" },
	{ "keys", "did you mean 'cay key ls'?" },
	{ "secrets", "did you mean 'cay secret ls'?" },
	{ "webhooks", "did you mean 'cay webhook ls'?" },
	{ "snapshots", "did you mean 'cay snapshot ls'?" },
	{ "commit", "did you mean 'cay snapshot'?" },
	{ "clone", "did you mean 'cay fork'?" },
	{ "copy", "did you mean 'cay cp'?" },
	{ "find", "did you mean 'cay glob' (by name) or 'cay grep' (by content)?" },
	{ "network", "did you mean 'cay net'?" },
	{ "stats", "did you mean 'cay top'?" },
	{ "set", "did you mean 'cay update'?" },
	{ "rename", "did you mean 'cay update --name'?" },
	{ "expose", "did you mean 'cay preview'?" },
	{ "login", "pass a key with --key or CAY_API_KEY" },
};

static const struct foreign options[] = {
	{ "workdir", "did you mean -C (--cwd)?", "cwd" },
	{ "dir", "did you mean -C (--cwd)?", "cwd" },
	{ "directory", "did you mean -C (--cwd)?", "cwd" },
	{ "rm", "'cay run' removes its sandbox by itself, and --keep keeps it", "keep" },
	{ "image", "did you mean --template?", "template" },
	{ "cpus", "did you mean --cpu?", "cpu" },
	{ "vcpus", "did you mean --cpu?", "cpu" },
	{ "net", "did you mean --network?", "network" },
	{ "label", "did you mean --metadata?", "metadata" },
	{ "volume", "there are no volumes: 'cay cp' copies files" },
	{ "mount", "there are no volumes: 'cay cp' copies files" },
	{ "publish", "'cay preview ID PORT' shows a port" },
	{ "port", "'cay preview ID PORT' shows a port" },
	{ "force", "leave it out: 'cay rm' does not ask" },
	{ "output", "did you mean --json?" },
	{ "format", "did you mean --json?" },
	{ "host", "did you mean --url?" },
	{ "server", "did you mean --url?" },
	{ "endpoint", "did you mean --url?" },
	{ "token", "did you mean --key?" },
	{ "api-key", "did you mean --key?" },
	{ "no-color", "did you mean --color never?" },
	{ "version", "did you mean 'cay version'?" },
};

/* Edit distance between short words, with "exce" one step from "exec"; long words count as far. */
static size_t distance(const char *a, size_t n, const char *b)
{
	size_t rows[3][33], m = strlen(b);

	if (n > 32 || m > 32)
		return FAR;
	for (size_t j = 0; j <= m; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
		size_t *row = rows[i % 3];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = MIN(row[j], above[j] + 1);
			row[j] = MIN(row[j], row[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

/* Smaller is nearer; FAR if it is another word. A prefix counts as a typing error. */
static size_t nearness(const char *typed, size_t n, const char *ours)
{
	size_t d = distance(typed, n, ours);

	if (d <= (n < 5 ? 1 : NEAR))
		return d;
	return n >= 3 && strncmp(typed, ours, n) == 0 ? NEAR : FAR;
}

static bool has_option(const struct command *command, const char *name)
{
	const struct option_spec *spec = command != NULL ? command->options : command_no_options;

	while (spec->name != NULL && strcmp(spec->name, name) != 0)
		spec++;
	return spec->name != NULL;
}

static const char *advice_of(const struct foreign *table, size_t count, const char *word, size_t n,
			     const struct command *command)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(table[i].word) == n && strncmp(table[i].word, word, n) == 0 &&
		    (table[i].option == NULL || has_option(command, table[i].option)))
			return table[i].advice;
	return NULL;
}

int suggest_command(const char *family, const char *word, struct err *err)
{
	size_t n = family != NULL ? strlen(family) + 1 : 0, best_distance = FAR;
	const char *best = NULL, *advice = NULL;
	char shown[64];

	if (family == NULL)
		advice = advice_of(commands, ARRAY_LEN(commands), word, strlen(word), NULL);
	for (const struct command *c = command_table; advice == NULL && c->name != NULL; c++) {
		size_t d = FAR;

		if (c->group != NULL &&
		    (n == 0 || (strncmp(c->name, family, n - 1) == 0 && c->name[n - 1] == ' ')))
			d = nearness(word, strlen(word), c->name + n);
		if (d < best_distance) {
			best_distance = d;
			best = c->name;
		}
	}
	(void)snprintf(shown, sizeof(shown), "%s%s%.40s", family != NULL ? family : "",
		       family != NULL ? " " : "", word);
	if (advice != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "there is no command 'cay %s'; %s", shown,
			       advice);
	if (best != NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "there is no command 'cay %s'; did you mean 'cay %s'?", shown, best);
	return err_set(err, ERR_INVALID_REQUEST, "there is no command 'cay %s'", shown);
}

static void nearest_option(const struct option_spec *specs, const char *name, size_t n,
			   const struct option_spec **best, size_t *best_distance)
{
	for (; specs != NULL && specs->name != NULL; specs++) {
		size_t d = nearness(name, n, specs->name);

		if (d < *best_distance) {
			*best_distance = d;
			*best = specs;
		}
	}
}

int suggest_option(const struct command *command, const char *name, size_t n, struct err *err)
{
	const struct option_spec *best = NULL;
	size_t best_distance = FAR;
	const char *advice = advice_of(options, ARRAY_LEN(options), name, n, command);
	const char *of = command != NULL ? command->name : "";
	char begin[160];

	(void)snprintf(begin, sizeof(begin), "'cay%s%s' has no option --%.*s",
		       command != NULL ? " " : "", of, (int)MIN(n, 60), name);
	nearest_option(command != NULL ? command->options : NULL, name, n, &best, &best_distance);
	nearest_option(command_globals, name, n, &best, &best_distance);
	if (advice != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "%s; %s", begin, advice);
	if (best != NULL)
		return err_set(err, ERR_INVALID_REQUEST, "%s; did you mean --%s?", begin,
			       best->name);
	return err_set(err, ERR_INVALID_REQUEST, "%s", begin);
}

int suggest_letter(const struct command *command, char letter, struct err *err)
{
	const struct option_spec *spec = command != NULL ? command->options : command_no_options;
	const char *of = command != NULL ? command->name : "", *space = command != NULL ? " " : "";

	while (spec->name != NULL && spec->name[0] != letter)
		spec++;
	if (spec->name != NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay%s%s' has no option -%c; did you mean --%s?", space, of, letter,
			       spec->name);
	if (letter == 'v' || letter == 'p')
		return err_set(err, ERR_INVALID_REQUEST, "'cay%s%s' has no option -%c; %s", space,
			       of, letter,
			       letter == 'v' ? "there are no volumes: 'cay cp' copies files"
					     : "'cay preview ID PORT' shows a port");
	return err_set(err, ERR_INVALID_REQUEST, "'cay%s%s' has no option -%c", space, of, letter);
}

void suggest_list(char *dst, size_t size, const char *const *words)
{
	size_t n = 0;

	dst[0] = '\0';
	for (size_t i = 0; words[i] != NULL && n < size; i++) {
		const char *between = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";

		n += (size_t)snprintf(dst + n, size - n, "%s%s", between, words[i]);
	}
}

int suggest_choice(const struct option_spec *spec, const char *value, struct err *err)
{
	char list[160];

	suggest_list(list, sizeof(list), spec->choices);
	return err_set(err, ERR_INVALID_REQUEST, "--%s cannot be '%.60s'; choose %s", spec->name,
		       value, list);
}
