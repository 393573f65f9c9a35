/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, from the same tables as help. */
#include "cli/line/help.h"

#include <string.h>

#include "cli/api/exit.h"

/* Escapes text for roff: backslashes, dashes, and a dot or quote at the start of a line. */
static void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		(void)fputs("\\&", out);
	for (; *text != '\0'; text++) {
		if (*text == '\\')
			(void)fputs("\\e", out);
		else if (*text == '-')
			(void)fputs("\\-", out);
		else if (*text == '\'')
			(void)fputs("\\(aq", out);
		else
			(void)fputc(*text, out);
	}
}

static void roff_options(FILE *out, const struct option_spec *options)
{
	for (const struct option_spec *o = options; o->name != NULL; o++) {
		(void)fputs(".TP\n", out);
		if (o->letter != 0)
			(void)fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
		(void)fputs("\\fB\\-\\-", out);
		roff(out, o->name);
		(void)fputs("\\fR", out);
		if (o->value != NULL) {
			(void)fputs(" \\fI", out);
			roff(out, o->value);
			(void)fputs("\\fR", out);
		}
		(void)fputc('\n', out);
		roff(out, o->help);
		(void)fputs(".\n", out);
	}
}

static void roff_command(FILE *out, const struct command *c)
{
	(void)fputs(".SS \"cay ", out);
	roff(out, c->name);
	if (c->options->name != NULL)
		(void)fputs(" [OPTIONS]", out);
	if (c->operands[0] != '\0') {
		(void)fputc(' ', out);
		roff(out, c->operands);
	}
	(void)fputs("\"\n", out);
	roff(out, c->summary);
	(void)fputs(".\n", out);
	if (c->about != NULL) {
		(void)fputs(".PP\n", out);
		roff(out, c->about);
		(void)fputc('\n', out);
	}
	roff_options(out, c->options);
	if (c->examples == NULL)
		return;
	(void)fputs(".PP\nExamples:\n.PP\n.nf\n.RS\n", out);
	for (const char *const *e = c->examples; *e != NULL; e++) {
		roff(out, *e);
		(void)fputc('\n', out);
	}
	(void)fputs(".RE\n.fi\n", out);
}

void help_manual(FILE *out)
{
	(void)fputs(
		".TH CAY 1 \"\" \"cay " CAY_VERSION "\" \"User Commands\"\n"
		".SH NAME\ncay \\- sandboxes for agents, on a machine you own\n"
		".SH SYNOPSIS\n.B cay\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n"
		".SH DESCRIPTION\nStarts and stops the daemon, creates sandboxes, runs commands in "
		"them and removes them.\nAll work is done through the daemon\\(aqs public HTTP "
		"API.\n.SH COMMANDS\n",
		out);
	for (const struct command *c = command_table; c->name != NULL; c++)
		if (c->group != NULL)
			roff_command(out, c);
	(void)fputs(".SH OPTIONS OF EVERY COMMAND\n", out);
	roff_options(out, command_globals);
	(void)fputs(".SH EXIT STATUS\n", out);
	for (int s = EXIT_STATUS_OK; s <= EXIT_STATUS_RUNTIME; s++) {
		(void)fprintf(out, ".TP\n.B %d\n", s);
		roff(out, exit_meaning((enum exit_status)s));
		(void)fputs(".\n", out);
	}
	(void)fputs(
		".PP\n\\fBcay run\\fR, \\fBcay exec\\fR and \\fBcay attach\\fR end with the status "
		"of "
		"the command, with 128 plus the number of the signal that ended it, or with 124 if "
		"it reached its time limit.\n"
		".SH ENVIRONMENT\n"
		".TP\n.B CAY_URL\nAddress of the daemon.\n"
		".TP\n.B CAY_API_KEY\nKey to use.\n"
		".TP\n.B CAY_STATE\nState directory.\n"
		".TP\n.B CAY_LIBEXEC\nDirectory that holds the daemon\\(aqs programs.\n"
		".TP\n.B NO_COLOR\nDisables colours if set.\n"
		".PP\nFlags have precedence over the environment, and the environment over the "
		"files of the state directory.\n"
		".SH FILES\n"
		".TP\n.I /var/lib/cay/url\nAddress of the running daemon.\n"
		".TP\n.I /var/lib/cay/admin.key\nThe first key, readable by root.\n"
		".TP\n.I /var/lib/cay/logs/\nLogs of the supervisor, the daemon and the warden.\n"
		".TP\n.I /etc/cay/cay.conf\nConfiguration of the daemon.\n",
		out);
}
