/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line/typed.h"

#include <string.h>

static const struct option_spec *find(const struct typed *t, const char *name, size_t n,
				      char letter)
{
	const struct option_spec *lists[] = { t->command != NULL ? t->command->options : NULL,
					      command_globals };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (const struct option_spec *o = lists[i]; o != NULL && o->name != NULL; o++)
			if (letter != 0 ? o->letter == letter
					: strlen(o->name) == n && strncmp(o->name, name, n) == 0)
				return o;
	return NULL;
}

static void take_value(struct typed *t, const struct option_spec *option, const char *value)
{
	const struct {
		const char *name;
		const char **place;
	} ours[] = { { "state", &t->state },
		     { "url", &t->url },
		     { "key", &t->key },
		     { "config", &t->config } };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(option->name, ours[i].name) == 0)
			*ours[i].place = value;
}

/* The option that expects a value after this word; NULL if none does. */
static const struct option_spec *take_option(struct typed *t, const char *word)
{
	const char *equals = strchr(word, '=');
	const struct option_spec *option;

	if (word[1] != '-') {
		for (const char *p = word + 1; *p != '\0'; p++) {
			option = find(t, NULL, 0, *p);
			if (option == NULL || option->kind != OPTION_FLAG)
				return option != NULL && p[1] == '\0' ? option : NULL;
		}
		return NULL;
	}
	option = find(t, word + 2, equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2),
		      0);
	if (option == NULL || option->kind == OPTION_FLAG)
		return NULL;
	if (equals == NULL)
		return option;
	take_value(t, option, equals + 1);
	return NULL;
}

static void take_plain(struct typed *t, const char *word)
{
	const char *words[] = { t->family, word };
	const struct command *found;
	size_t used = 0;

	if (t->command == NULL && t->family == NULL) {
		t->command = command_find(&word, 1, &used);
		t->family = command_is_family(word) ? word : NULL;
		return;
	}
	if (t->family != NULL && t->operand_count == 0) {
		found = command_find(words, 2, &used);
		if (found != NULL && used == 2) {
			t->command = found;
			t->family = NULL;
			return;
		}
	}
	if (t->operand_count < TYPED_OPERANDS_MAX)
		t->operands[t->operand_count] = word;
	t->operand_count++;
	/* After the sandbox of `exec` follows the user's own command. */
	if (t->command != NULL && t->command->verbatim_from >= 0 &&
	    t->operand_count > (size_t)t->command->verbatim_from)
		t->literal = true;
}

/* "--option=VALUE" under the cursor. */
static void look_for_equals(struct typed *t)
{
	const char *equals = strchr(t->current, '=');
	const struct option_spec *option;

	if (t->literal || t->option != NULL || strncmp(t->current, "--", 2) != 0 || equals == NULL)
		return;
	option = find(t, t->current + 2, (size_t)(equals - t->current - 2), 0);
	if (option != NULL && option->kind != OPTION_FLAG) {
		t->option = option;
		t->value = equals + 1;
	}
}

void typed_read(struct typed *t, const char *const *words, size_t count)
{
	*t = (struct typed){ .current = count > 0 ? words[count - 1] : "" };
	for (size_t i = 0; i + 1 < count; i++) {
		if (t->option != NULL) {
			take_value(t, t->option, words[i]);
			t->option = NULL;
		} else if (!t->literal && strcmp(words[i], "--") == 0) {
			t->literal = true;
		} else if (!t->literal && words[i][0] == '-' && words[i][1] != '\0') {
			t->option = take_option(t, words[i]);
		} else {
			take_plain(t, words[i]);
		}
	}
	t->value = t->current;
	look_for_equals(t);
}
