/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: which are accepted, which are rejected, and the messages. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/line/args.h"

#define WORDS_MAX 160

struct line {
	char text[4096];
	char *argv[WORDS_MAX];
	int argc;
	struct args args;
	struct err err;
};

/* Splits at spaces. */
static int parse(struct line *line, const char *text)
{
	char *save;

	line->argc = 0;
	line->err = (struct err){ 0 };
	(void)snprintf(line->text, sizeof(line->text), "%s", text);
	for (char *w = strtok_r(line->text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		line->argv[line->argc++] = w;
	return args_parse(&line->args, line->argc, line->argv, &line->err);
}

static void accepts(struct line *line, const char *text)
{
	if (parse(line, text) < 0)
		fail_msg("refused '%s': %s", text, line->err.message);
}

static void refuses(const char *text, const char *part)
{
	struct line line;

	if (parse(&line, text) == 0)
		fail_msg("accepted '%s'", text);
	if (strstr(line.err.message, part) == NULL)
		fail_msg("'%s' was refused with: %s", text, line.err.message);
	assert_int_equal(line.err.code, ERR_INVALID_REQUEST);
	args_done(&line.args);
}

static void test_options(void **state)
{
	struct line line;
	uint64_t number;
	size_t cursor = 0;

	accepts(&line,
		"--json create --name=web -e A=1 --env B=2 -eC=3 --memory 2g --timeout 10m -q");
	assert_string_equal(line.args.command->name, "create");
	assert_true(args_flag(&line.args, "json"));
	assert_true(args_flag(&line.args, "quiet"));
	assert_false(args_flag(&line.args, "always-on"));
	assert_string_equal(args_text(&line.args, "name"), "web");
	assert_true(args_number(&line.args, "memory", &number));
	assert_int_equal(number, 2048);
	assert_true(args_number(&line.args, "timeout", &number));
	assert_int_equal(number, 600);
	assert_false(args_number(&line.args, "disk", &number));
	assert_string_equal(args_next(&line.args, "env", &cursor), "A=1");
	assert_string_equal(args_next(&line.args, "env", &cursor), "B=2");
	assert_string_equal(args_next(&line.args, "env", &cursor), "C=3");
	assert_null(args_next(&line.args, "env", &cursor));
	args_done(&line.args);
}

/* The user's own command is never parsed for our options. */
static void test_verbatim(void **state)
{
	struct line line;
	uint64_t number;

	accepts(&line, "run --cpu 2 ls --json -- -q");
	assert_int_equal(line.args.operand_count, 4);
	assert_string_equal(line.args.operands[1], "--json");
	assert_string_equal(line.args.operands[2], "--");
	assert_false(args_flag(&line.args, "json"));
	args_done(&line.args);

	accepts(&line, "run -- --json");
	assert_int_equal(line.args.operand_count, 1);
	assert_string_equal(line.args.operands[0], "--json");
	args_done(&line.args);

	accepts(&line, "exec web -u root -- sh -c id");
	assert_int_equal(line.args.operand_count, 4);
	assert_string_equal(args_text(&line.args, "user"), "root");
	assert_string_equal(line.args.operands[1], "sh");
	assert_string_equal(line.args.operands[2], "-c");
	assert_false(args_flag(&line.args, "shell"));
	args_done(&line.args);

	accepts(&line, "create --cpu 0.05");
	assert_true(args_number(&line.args, "cpu", &number));
	assert_int_equal(number, 50);
	args_done(&line.args);

	accepts(&line, "exec web -c id");
	assert_true(args_flag(&line.args, "shell"));
	assert_string_equal(line.args.operands[1], "id");
	args_done(&line.args);
}

static void test_two_words(void **state)
{
	struct line line;

	accepts(&line, "template build base --json");
	assert_string_equal(line.args.command->name, "template build");
	assert_int_equal(line.args.operand_count, 1);
	args_done(&line.args);
	refuses("template", "needs a second word");
	refuses("template fly", "no command 'cay template fly'");
}

static void test_refusals(void **state)
{
	refuses("fly", "no command 'cay fly'");
	refuses("stop web", "'cay pause'");
	refuses("start web", "'cay resume'");
	refuses("template biuld", "did you mean 'cay template build'");
	refuses("create --tmeout 5", "did you mean --timeout");
	refuses("exec --workdir /x web ls", "-C (--cwd)");
	refuses("run --rm ls", "removes its sandbox by itself");
	refuses("create -n x", "did you mean --name");
	refuses("ls --mem", "'cay ls' has no option --mem");
	refuses("create --network internet", "choose none, restricted or full");
	refuses("info web:/tmp", "takes a sandbox, not a path in one: web instead");
	refuses("exec web:/tmp ls", "-C /tmp");
	refuses("rm a b:c", "b instead of b:c");
	refuses("lst", "did you mean 'cay ls'");
	refuses("list", "did you mean 'cay ls'");
	refuses("ps", "needs ID");
	refuses("ls --frobnicate", "no option --frobnicate");
	refuses("ls -Z", "no option -Z");
	refuses("create --name", "--name needs a value");
	refuses("create --always-on=yes", "takes no value");
	refuses("create --cpu two", "up to three places");
	refuses("create --cpu 0.1234", "up to three places");
	refuses("create --cpu 1.", "up to three places");
	refuses("create --memory 0", "from 1 on");
	refuses("exec --timeout 1x web ls", "takes seconds");
	refuses("create --pool maybe", "cannot be 'maybe'");
	refuses("create -e NOVALUE", "takes KEY=VALUE");
	refuses("create -e =x", "takes KEY=VALUE");
	refuses("create --timeout 1x", "takes seconds (90, 15m, 2h) from 1 on");
	refuses("create --memory 1x", "takes megabytes (512, 2g) from 1 on");
	refuses("--color blue ls", "cannot be 'blue'");
	refuses("info", "needs ID");
	refuses("info a b", "'b' is one argument too many");
	refuses("exec", "needs ID");
	refuses("run", "needs");
	refuses("up extra", "too many");
}

static void test_too_many_options(void **state)
{
	char text[4096] = "create";
	struct line line;

	for (int i = 0; i < ARGS_VALUES_MAX; i++)
		strcat(text, " -q");
	accepts(&line, text);
	args_done(&line.args);
	strcat(text, " -q");
	refuses(text, "more than");
}

static void test_help_needs_no_operands(void **state)
{
	struct line line;

	accepts(&line, "exec --help");
	assert_true(args_flag(&line.args, "help"));
	args_done(&line.args);
	accepts(&line, "");
	assert_null(line.args.command);
	args_done(&line.args);
}

static void test_units(void **state)
{
	uint64_t n;

	assert_int_equal(args_seconds("90", 1, 86400, &n), 0);
	assert_int_equal(n, 90);
	assert_int_equal(args_seconds("1d", 1, 86400, &n), 0);
	assert_int_equal(n, 86400);
	assert_int_equal(args_seconds("s", 1, 86400, &n), -EINVAL);
	assert_int_equal(args_seconds("", 1, 86400, &n), -EINVAL);
	assert_int_equal(args_seconds("1.5h", 1, 86400, &n), -EINVAL);
	assert_int_equal(args_seconds("-1", 1, 86400, &n), -EINVAL);
	assert_int_equal(args_seconds("4294967295d", 1, 86400, &n), -ERANGE);
	assert_int_equal(args_megabytes("1G", 1, 8192, &n), 0);
	assert_int_equal(n, 1024);
}

/* The table itself: names of commands and options are unique, and every row is complete. */
static void test_table_is_sound(void **state)
{
	for (const struct command *c = command_table; c->name != NULL; c++) {
		assert_non_null(c->run);
		assert_non_null(c->summary);
		assert_non_null(c->operands);
		for (const struct command *d = c + 1; d->name != NULL; d++)
			assert_string_not_equal(c->name, d->name);
		for (const struct option_spec *o = c->options; o->name != NULL; o++) {
			assert_non_null(o->help);
			assert_true(o->kind == OPTION_FLAG || o->value != NULL);
			for (const struct option_spec *p = o + 1; p->name != NULL; p++) {
				assert_string_not_equal(o->name, p->name);
				assert_true(o->letter == 0 || o->letter != p->letter);
			}
			for (const struct option_spec *g = command_globals; g->name != NULL; g++) {
				assert_string_not_equal(o->name, g->name);
				assert_true(o->letter == 0 || o->letter != g->letter);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_verbatim),
		cmocka_unit_test(test_two_words),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_too_many_options),
		cmocka_unit_test(test_help_needs_no_operands),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_table_is_sound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
