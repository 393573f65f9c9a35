/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts, written from the command table. */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/command.h"

static const char *const operand_names[] = {
	[OPERAND_NONE] = "",
	[OPERAND_SANDBOX] = "sandbox",
	[OPERAND_TEMPLATE] = "template",
	[OPERAND_KEY] = "key",
	[OPERAND_SECRET] = "secret",
	[OPERAND_COMMAND] = "command",
	[OPERAND_PROCESS] = "process",
	[OPERAND_SNAPSHOT] = "snapshot",
};

static void options_words(const struct option_spec *options, bool with_help)
{
	for (const struct option_spec *o = options; o->name != NULL; o++) {
		if (!with_help) {
			(void)printf(" --%s", o->name);
			if (o->letter != 0)
				(void)printf(" -%c", o->letter);
			continue;
		}
		(void)printf(" '--%s:", o->name);
		for (const char *p = o->help; *p != '\0'; p++)
			(void)fputs(*p == '\''	? ""
				    : *p == ':' ? "\\:"
						: (char[]){ *p, 0 },
				    stdout);
		(void)fputs("'", stdout);
	}
}

/* The first words, or the second words of one family, each once. */
static void command_words(const char *family)
{
	size_t n = family != NULL ? strlen(family) : 0;
	const char *last = "";

	for (const struct command *c = command_table; c->name != NULL; c++) {
		size_t first = strcspn(c->name, " ");

		if (c->group == NULL)
			continue;
		if (family != NULL) {
			if (first == n && strncmp(c->name, family, n) == 0 && c->name[n] == ' ')
				(void)printf(" %s", c->name + n + 1);
			continue;
		}
		if (strlen(last) >= first && strncmp(last, c->name, first) == 0 &&
		    last[first] == ' ')
			continue;
		(void)printf(" %.*s", (int)first, c->name);
		last = c->name;
	}
}

/* Case arms "name) ... ;;" that set what completes after each command. */
static void command_arms(bool zsh)
{
	const char *family = "";

	for (const struct command *c = command_table; c->name != NULL; c++) {
		size_t first = strcspn(c->name, " ");

		if (c->group == NULL)
			continue;
		if (c->name[first] == ' ' && strncmp(family, c->name, first + 1) != 0) {
			char word[64];

			(void)snprintf(word, sizeof(word), "%.*s", (int)first, c->name);
			(void)printf("\t'%s ') words_=\"", word);
			command_words(word);
			(void)printf("\" ;;\n");
			family = c->name;
		}
		(void)printf("\t'%s '*) options_=%s", c->name, zsh ? "(" : "\"");
		options_words(c->options, zsh);
		(void)printf("%s kind_='%s' ;;\n", zsh ? " )" : "\"", operand_names[c->operand]);
	}
}

static void print_bash(void)
{
	(void)fputs(
		"# bash completion of cay; load it with: source <(cay completion bash)\n"
		"_cay()\n{\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} line_='' options_='' words_='' kind_='' i\n"
		"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		"\t\t[[ ${COMP_WORDS[i]} == -* ]] || line_+=\"${COMP_WORDS[i]} \"\n"
		"\tdone\n"
		"\tcase $line_ in\n\t'') words_=\"",
		stdout);
	command_words(NULL);
	(void)fputs("\" ;;\n", stdout);
	command_arms(false);
	(void)fputs("\tesac\n\toptions_+=\"", stdout);
	options_words(command_globals, false);
	(void)fputs("\"\n"
		    "\tif [[ $cur == -* ]]; then\n"
		    "\t\tCOMPREPLY=($(compgen -W \"$options_\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
		    "\tcase $kind_ in\n"
		    "\tprocess) set -- $line_\n"
		    "\t\tif (($# < 2)); then kind_=sandbox; else words_=$(cay complete process "
		    "\"$2\" 2>/dev/null); fi ;;\n\tesac\n"
		    "\tcase $kind_ in\n"
		    "\tsandbox|template|key) words_=$(cay complete \"$kind_\" 2>/dev/null) ;;\n"
		    "\tcommand) words_=\"",
		    stdout);
	command_words(NULL);
	(void)fputs("\" ;;\n\tesac\n"
		    "\tCOMPREPLY=($(compgen -W \"$words_\" -- \"$cur\"))\n"
		    "\t[[ -n ${COMPREPLY[*]} ]] || compopt -o default\n"
		    "}\ncomplete -F _cay cay\n",
		    stdout);
}

static void print_zsh(void)
{
	(void)fputs("#compdef cay\n"
		    "# zsh completion of cay; put it as _cay into a directory of $fpath\n"
		    "_cay() {\n"
		    "\tlocal line_='' words_='' kind_='' i\n\tlocal -a options_ globals_\n"
		    "\tfor ((i = 2; i < CURRENT; i++)); do\n"
		    "\t\t[[ ${words[i]} == -* ]] || line_+=\"${words[i]} \"\n"
		    "\tdone\n"
		    "\tcase $line_ in\n\t'') words_=\"",
		    stdout);
	command_words(NULL);
	(void)fputs("\" ;;\n", stdout);
	command_arms(true);
	(void)fputs("\tesac\n\tglobals_=(", stdout);
	options_words(command_globals, true);
	(void)fputs(" )\n"
		    "\tif [[ ${words[CURRENT]} == -* ]]; then\n"
		    "\t\t_describe -o option options_ -- globals_\n\t\treturn\n\tfi\n"
		    "\tcase $kind_ in\n"
		    "\tprocess) set -- ${=line_}\n"
		    "\t\tif (($# < 2)); then kind_=sandbox; else words_=$(cay complete process "
		    "\"$2\" 2>/dev/null); fi ;;\n\tesac\n"
		    "\tcase $kind_ in\n"
		    "\tsandbox|template|key) words_=$(cay complete \"$kind_\" 2>/dev/null) ;;\n"
		    "\tcommand) words_=\"",
		    stdout);
	command_words(NULL);
	(void)fputs("\" ;;\n\tesac\n"
		    "\tif [[ -n $words_ ]]; then compadd -- ${=words_}; else _files; fi\n"
		    "}\n_cay \"$@\"\n",
		    stdout);
}

int completion_run(struct cli *cli, const struct args *args, struct err *err)
{
	const char *shell = args->operands[0];

	if (strcmp(shell, "bash") == 0)
		print_bash();
	else if (strcmp(shell, "zsh") == 0)
		print_zsh();
	else
		return err_set(err, ERR_INVALID_REQUEST,
			       "there is completion for bash and zsh, not '%s'", shell);
	return 0;
}

static int print_names(void *arg, const struct json *item)
{
	static const char *const members[] = { "id", "name" };

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		struct str s = field_str(item, members[i]);

		/* Only what a shell takes as one harmless word. */
		if (s.n > 0 && s.n < 128 &&
		    strspn(s.p,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
			    s.n)
			(void)printf("%.*s\n", (int)s.n, s.p);
	}
	if (field_int(item, "process_id", 0) > 0)
		(void)printf("%lld\n", (long long)field_int(item, "process_id", 0));
	return 0;
}

static int complete_processes(struct cli *cli, const char *sandbox, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s/processes", sandbox) < 0)
		return -1;
	return api_list(cli, path, NULL, print_names, NULL, err);
}

int complete_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const struct {
		const char *kind, *path;
	} lists[] = {
		{ "sandbox", "/v1/sandboxes" },	 { "template", "/v1/templates" },
		{ "key", "/v1/keys" },		 { "secret", "/v1/secrets" },
		{ "snapshot", "/v1/snapshots" },
	};

	if (strcmp(args->operands[0], "process") == 0 && args->operand_count == 2)
		return complete_processes(cli, args->operands[1], err);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (strcmp(args->operands[0], lists[i].kind) == 0)
			return api_list(cli, lists[i].path, NULL, print_names, NULL, err);
	return err_set(err, ERR_INVALID_REQUEST, "nothing is known of '%s'", args->operands[0]);
}
