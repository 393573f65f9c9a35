/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line/help.h"

#include <string.h>

#include "cli/line/args.h"
#include "cli/cli.h"
#include "cli/line/suggest.h"
#include "cli/output/style.h"

#define LEFT_MAX 40

static void heading(FILE *out, bool color, const char *text)
{
	(void)fprintf(out, "\n%s%s%s\n", style_on(color, STYLE_BOLD), text, style_off(color));
}

static void entry(FILE *out, bool color, const char *left, const char *right, int width)
{
	(void)fprintf(out, "  %s%s%s%*s", style_on(color, STYLE_CYAN), left, style_off(color),
		      MAX(width - (int)strlen(left), 0) + 2, "");
	style_wrapped(out, right, width + 4, width + 4);
}

static void option_left(char dst[LEFT_MAX], const struct option_spec *o)
{
	char letter[8] = "    ";

	if (o->letter != 0)
		(void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	(void)snprintf(dst, LEFT_MAX, "%s--%s%s%s", letter, o->name, o->value != NULL ? " " : "",
		       o->value != NULL ? o->value : "");
}

static void option_list(FILE *out, bool color, const struct option_spec *options)
{
	char left[LEFT_MAX];
	int width = 0;

	for (const struct option_spec *o = options; o->name != NULL; o++) {
		option_left(left, o);
		width = MAX(width, (int)strlen(left));
	}
	for (const struct option_spec *o = options; o->name != NULL; o++) {
		char about[256], choices[160];

		option_left(left, o);
		(void)snprintf(about, sizeof(about), "%s", o->help);
		if (o->choices != NULL && strstr(o->help, o->choices[0]) == NULL) {
			suggest_list(choices, sizeof(choices), o->choices);
			(void)snprintf(about, sizeof(about), "%s: %s", o->help, choices);
		}
		entry(out, color, left, about, width);
	}
}

static int name_width(void)
{
	int width = 0;

	for (const struct command *c = command_table; c->name != NULL; c++)
		if (c->group != NULL)
			width = MAX(width, (int)strlen(c->name));
	return width;
}

void help_overview(FILE *out, bool color)
{
	const char *group = NULL;

	(void)fprintf(out,
		      "%scay%s gives every agent a sandbox of its own, on a machine you own.\n\n"
		      "Usage: cay [OPTIONS] COMMAND [ARGUMENTS]\n",
		      style_on(color, STYLE_BOLD), style_off(color));
	for (const struct command *c = command_table; c->name != NULL; c++) {
		if (c->group == NULL)
			continue;
		if (group == NULL || strcmp(group, c->group) != 0)
			heading(out, color, c->group);
		group = c->group;
		entry(out, color, c->name, c->summary, name_width());
	}
	heading(out, color, "Options of every command");
	option_list(out, color, command_globals);
	heading(out, color, "First steps");
	(void)fputs("  sudo cay up\n"
		    "  cay run -- python3 -c 'print(6 * 7)'\n"
		    "  id=$(cay create); cay exec $id -- uname -a; cay rm $id\n"
		    "\n'cay COMMAND --help' describes a command; 'cay doctor' checks this "
		    "host.\n",
		    out);
}

void help_command(FILE *out, const struct command *c, bool color)
{
	(void)fprintf(out, "%s.\n\nUsage: %scay %s%s%s%s%s\n", c->summary,
		      style_on(color, STYLE_BOLD), c->name, style_off(color),
		      c->options->name != NULL ? " [OPTIONS]" : "",
		      c->operands[0] != '\0' ? " " : "", c->operands);
	if (c->about != NULL) {
		(void)fputc('\n', out);
		style_wrapped(out, c->about, 0, 0);
	}
	if (c->options->name != NULL) {
		heading(out, color, "Options");
		option_list(out, color, c->options);
	}
	if (c->examples != NULL) {
		heading(out, color, "Examples");
		for (const char *const *e = c->examples; *e != NULL; e++)
			(void)fprintf(out, "  %s\n", *e);
	}
	heading(out, color, "Options of every command");
	option_list(out, color, command_globals);
}

void help_family(FILE *out, const char *family, bool color)
{
	size_t n = strlen(family);

	(void)fprintf(out, "Usage: cay %s COMMAND\n", family);
	heading(out, color, "Commands");
	for (const struct command *c = command_table; c->name != NULL; c++)
		if (strncmp(c->name, family, n) == 0 && c->name[n] == ' ')
			entry(out, color, c->name, c->summary, name_width());
}

int help_run(struct cli *cli, const struct args *args, struct err *err)
{
	const struct command *c;
	size_t used = 0;

	if (args_flag(args, "man")) {
		help_manual(stdout);
		return 0;
	}
	if (args->operand_count == 0) {
		help_overview(stdout, cli->color_out);
		return 0;
	}
	c = command_find(args->operands, args->operand_count, &used);
	if (c != NULL && used == args->operand_count) {
		help_command(stdout, c, cli->color_out);
		return 0;
	}
	if (args->operand_count == 1 && command_is_family(args->operands[0])) {
		help_family(stdout, args->operands[0], cli->color_out);
		return 0;
	}
	if (args->operand_count == 2 && command_is_family(args->operands[0]))
		return suggest_command(args->operands[0], args->operands[1], err);
	return suggest_command(NULL, args->operands[0], err);
}
