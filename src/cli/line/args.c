/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line/args.h"

#include <ctype.h>
#include <errno.h>

#include "base/str.h"
#include "cli/line/suggest.h"

static int suffixed(const char *text, const char *letters, const uint64_t *factors, uint64_t min,
		    uint64_t max, uint64_t *ret)
{
	struct str s = str_of(text);
	uint64_t factor = 1, value;
	int r;

	if (s.n > 1) {
		const char *at = strchr(letters, tolower((unsigned char)s.p[s.n - 1]));

		if (at != NULL) {
			factor = factors[at - letters];
			s.n--;
		}
	}
	r = str_to_u64(s, UINT32_MAX, &value);
	if (r < 0)
		return r;
	value *= factor;
	if (value < min || (max > 0 && value > max))
		return -ERANGE;
	*ret = value;
	return 0;
}

/* "2", "0.5" in thousandths: 0 or -EINVAL. */
static int args_thousandths(const char *text, uint64_t *ret)
{
	struct str whole = str_of(text), places = { "", 0 };
	uint64_t number = 0, part = 0;

	if (str_cut(whole, '.', &whole, &places) && (places.n == 0 || places.n > 3))
		return -EINVAL;
	if (str_to_u64(whole, UINT32_MAX, &number) < 0)
		return -EINVAL;
	for (size_t i = 0; i < 3; i++) {
		char c = i < places.n ? places.p[i] : '0';

		if (c < '0' || c > '9')
			return -EINVAL;
		part = part * 10 + (uint64_t)(c - '0');
	}
	*ret = number * 1000 + part;
	return 0;
}

int args_seconds(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const uint64_t factors[] = { 1, 60, 3600, 86400 };

	return suffixed(text, "smhd", factors, min, max, ret);
}

int args_megabytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const uint64_t factors[] = { 1, 1024 };

	return suffixed(text, "mg", factors, min, max, ret);
}

static const struct option_spec *find_in(const struct option_spec *specs, const char *name,
					 size_t n, char letter)
{
	for (; specs->name != NULL; specs++) {
		if (letter != 0 && specs->letter == letter)
			return specs;
		if (letter == 0 && strlen(specs->name) == n && strncmp(specs->name, name, n) == 0)
			return specs;
	}
	return NULL;
}

static const struct option_spec *find_option(const struct args *args, const char *name, size_t n,
					     char letter)
{
	const struct option_spec *spec = NULL;

	if (args->command != NULL)
		spec = find_in(args->command->options, name, n, letter);
	return spec != NULL ? spec : find_in(command_globals, name, n, letter);
}

static int wrong_number(const struct option_spec *spec, const char *text, struct err *err)
{
	const char *what = spec->kind == OPTION_SECONDS ? "seconds (90, 15m, 2h)"
			   : spec->kind == OPTION_MB	? "megabytes (512, 2g)"
							: "a number";

	if (spec->max == 0)
		return err_set(err, ERR_INVALID_REQUEST, "--%s takes %s from %llu on, not '%s'",
			       spec->name, what, (unsigned long long)spec->min, text);
	return err_set(err, ERR_INVALID_REQUEST, "--%s takes %s from %llu to %llu, not '%s'",
		       spec->name, what, (unsigned long long)spec->min,
		       (unsigned long long)spec->max, text);
}

static int check_value(const struct option_spec *spec, const char *text, uint64_t *ret_number,
		       struct err *err)
{
	int r = 0;

	*ret_number = 0;
	if (spec->choices != NULL) {
		for (const char *const *c = spec->choices; *c != NULL; c++)
			if (strcmp(*c, text) == 0)
				return 0;
		return suggest_choice(spec, text, err);
	}
	if (spec->kind == OPTION_PAIRS && (strchr(text, '=') == NULL || text[0] == '='))
		return err_set(err, ERR_INVALID_REQUEST, "--%s takes KEY=VALUE, not '%s'",
			       spec->name, text);
	if (spec->kind == OPTION_MILLI && args_thousandths(text, ret_number) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "--%s takes a number with up to three places (2, 0.5), not '%s'",
			       spec->name, text);
	if (spec->kind == OPTION_NUMBER) {
		r = str_to_u64(str_of(text), spec->max > 0 ? spec->max : INT64_MAX, ret_number);
		if (r == 0 && *ret_number < spec->min)
			r = -ERANGE;
	} else if (spec->kind == OPTION_SECONDS) {
		r = args_seconds(text, spec->min, spec->max, ret_number);
	} else if (spec->kind == OPTION_MB) {
		r = args_megabytes(text, spec->min, spec->max, ret_number);
	}
	return r < 0 ? wrong_number(spec, text, err) : 0;
}

static int add_value(struct args *args, const struct option_spec *spec, const char *text,
		     struct err *err)
{
	struct arg_value *value = &args->values[args->value_count];

	if (args->value_count == ARGS_VALUES_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "more than %d options", ARGS_VALUES_MAX);
	value->spec = spec;
	value->text = text;
	if (text != NULL && check_value(spec, text, &value->number, err) < 0)
		return -1;
	args->value_count++;
	return 0;
}

/* One "--name", "--name=value" or "--name value"; leaves *i on the last word used. */
static int parse_long(struct args *args, int argc, char **argv, int *i, struct err *err)
{
	const char *name = argv[*i] + 2, *equals = strchr(name, '=');
	size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct option_spec *spec = find_option(args, name, n, 0);

	if (spec == NULL)
		return suggest_option(args->command, name, n, err);
	if (spec->kind == OPTION_FLAG) {
		if (equals != NULL)
			return err_set(err, ERR_INVALID_REQUEST, "--%s takes no value", spec->name);
		return add_value(args, spec, NULL, err);
	}
	if (equals != NULL)
		return add_value(args, spec, equals + 1, err);
	if (*i + 1 >= argc)
		return err_set(err, ERR_INVALID_REQUEST, "--%s needs a value (%s)", spec->name,
			       spec->value);
	return add_value(args, spec, argv[++*i], err);
}

/* "-q", "-qf", "-e K=V", "-eK=V". */
static int parse_short(struct args *args, int argc, char **argv, int *i, struct err *err)
{
	for (const char *p = argv[*i] + 1; *p != '\0'; p++) {
		const struct option_spec *spec = find_option(args, NULL, 0, *p);

		if (spec == NULL)
			return suggest_letter(args->command, *p, err);
		if (spec->kind == OPTION_FLAG) {
			if (add_value(args, spec, NULL, err) < 0)
				return -1;
			continue;
		}
		if (p[1] != '\0')
			return add_value(args, spec, p + 1, err);
		if (*i + 1 >= argc)
			return err_set(err, ERR_INVALID_REQUEST, "-%c needs a value (%s)", *p,
				       spec->value);
		return add_value(args, spec, argv[++*i], err);
	}
	return 0;
}

/* Reads the command's one or two words at argv[*i]; leaves *i on the last word used. */
static int parse_command(struct args *args, int argc, char **argv, int *i, struct err *err)
{
	const char *words[2] = { argv[*i], *i + 1 < argc ? argv[*i + 1] : NULL };
	size_t used = 0;

	args->command = command_find(words, words[1] != NULL ? 2 : 1, &used);
	if (args->command != NULL) {
		*i += (int)used - 1;
		return 0;
	}
	if (command_is_family(words[0])) {
		if (words[1] == NULL || words[1][0] == '-')
			return err_set(err, ERR_INVALID_REQUEST, "'cay %s' needs a second word",
				       words[0]);
		return suggest_command(words[0], words[1], err);
	}
	return suggest_command(NULL, words[0], err);
}

/* "ID:PATH" in place of a sandbox would become part of a URL. */
static int check_sandbox(const struct command *c, const char *word, struct err *err)
{
	size_t n = strcspn(word, ":/");
	const struct option_spec *cwd = find_in(c->options, "cwd", 3, 0);

	if (word[n] != ':')
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "'cay %s' takes a sandbox, not a path in one: %.*s instead of %.60s%s%.60s",
		       c->name, (int)MIN(n, 60), word, word,
		       cwd != NULL ? "; to run it there: -C " : "",
		       cwd != NULL ? word + n + 1 : "");
}

static int check_sandboxes(const struct args *args, struct err *err)
{
	const struct command *c = args->command;
	bool all = strncmp(c->operands, "ID...", 5) == 0;

	if ((c->operand != OPERAND_SANDBOX && c->operand != OPERAND_PROCESS) ||
	    strstr(c->operands, ":PATH") != NULL)
		return 0;
	for (size_t i = 0; i < (all ? args->operand_count : MIN(args->operand_count, 1)); i++)
		if (check_sandbox(c, args->operands[i], err) < 0)
			return -1;
	return 0;
}

static int check_operands(const struct args *args, struct err *err)
{
	const struct command *c = args->command;

	if (c == NULL || args_flag(args, "help"))
		return 0;
	if (args->operand_count < (size_t)c->operands_min)
		return err_set(err, ERR_INVALID_REQUEST, "'cay %s' needs %s", c->name, c->operands);
	if (c->operands_max >= 0 && args->operand_count > (size_t)c->operands_max)
		return err_set(err, ERR_INVALID_REQUEST,
			       "'%s' is one argument too many for 'cay %s'",
			       args->operands[c->operands_max], c->name);
	return check_sandboxes(args, err);
}

int args_parse(struct args *args, int argc, char **argv, struct err *err)
{
	bool literal = false;

	*args = (struct args){ 0 };
	args->operands = calloc((size_t)argc + 1, sizeof(*args->operands));
	if (args->operands == NULL)
		return err_set_errno(err, ERR_INTERNAL, ENOMEM, "out of memory");
	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];
		int r = 0;

		if (args->command != NULL && args->command->verbatim_from >= 0 &&
		    args->operand_count > (size_t)args->command->verbatim_from) {
			literal = true; /* the user's own words, "--" included */
			args->operands[args->operand_count++] = word;
			continue;
		}
		if (!literal && strcmp(word, "--") == 0)
			literal = true;
		else if (!literal && strncmp(word, "--", 2) == 0)
			r = parse_long(args, argc, argv, &i, err);
		else if (!literal && word[0] == '-' && word[1] != '\0')
			r = parse_short(args, argc, argv, &i, err);
		else if (args->command == NULL)
			r = parse_command(args, argc, argv, &i, err);
		else
			args->operands[args->operand_count++] = word;
		if (r < 0)
			return r;
	}
	return check_operands(args, err);
}

void args_done(struct args *args)
{
	free(args->operands);
	args->operands = NULL;
}

static const struct arg_value *last_value(const struct args *args, const char *name)
{
	for (size_t i = args->value_count; i-- > 0;)
		if (strcmp(args->values[i].spec->name, name) == 0)
			return &args->values[i];
	return NULL;
}

bool args_flag(const struct args *args, const char *name)
{
	return last_value(args, name) != NULL;
}

const char *args_text(const struct args *args, const char *name)
{
	const struct arg_value *value = last_value(args, name);

	return value != NULL ? value->text : NULL;
}

bool args_number(const struct args *args, const char *name, uint64_t *ret)
{
	const struct arg_value *value = last_value(args, name);

	if (value == NULL)
		return false;
	*ret = value->number;
	return true;
}

const char *args_next(const struct args *args, const char *name, size_t *cursor)
{
	while (*cursor < args->value_count) {
		const struct arg_value *value = &args->values[(*cursor)++];

		if (strcmp(value->spec->name, name) == 0)
			return value->text;
	}
	return NULL;
}
