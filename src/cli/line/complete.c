/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay complete: candidates for the word under the cursor, for the completion scripts. Names from
 * the daemon are untrusted: only those that every shell treats as one harmless word are printed.
 */
#include <stdio.h>
#include <string.h>

#include "cli/files/files.h"
#include "cli/line/typed.h"

#define PATIENCE_MS 2000 /* a shell that waits longer for its completion seems to hang */
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define HARMLESS LETTERS "._-+@%,/"

struct completion {
	struct cli *cli;
	struct typed typed;
	const char *prefix; /* the typed part of the candidate */
	const char *front;  /* printed before every candidate */
	const char *behind; /* and after it */
	const char *member; /* member of the items of a list; NULL: id and name */
};

static void offer(const struct completion *c, struct str word, const char *about)
{
	char whole[4096];

	if (word.n == 0 || strspn(word.p, HARMLESS) < word.n ||
	    snprintf(whole, sizeof(whole), "%s%.*s%s", c->front, (int)word.n, word.p, c->behind) >=
		    (int)sizeof(whole) ||
	    strncmp(whole, c->prefix, strlen(c->prefix)) != 0)
		return;
	(void)printf("%s%s%s\n", whole, about != NULL ? "\t" : "", about != NULL ? about : "");
}

static void offer_all(const struct completion *c, const char *const *words)
{
	for (; *words != NULL; words++)
		offer(c, str_of(*words), NULL);
}

/* ---- commands and options ---- */

static void offer_commands(const struct completion *c, const char *family)
{
	size_t n = family != NULL ? strlen(family) : 0, last_n = 0;
	const char *last = "";

	for (const struct command *m = command_table; m->name != NULL; m++) {
		size_t first = strcspn(m->name, " ");
		bool two = m->name[first] == ' ';

		if (m->group == NULL)
			continue;
		if (family != NULL && two && first == n && strncmp(m->name, family, n) == 0)
			offer(c, str_of(m->name + n + 1), m->summary);
		if (family != NULL || (first == last_n && strncmp(last, m->name, first) == 0))
			continue;
		last = m->name;
		last_n = first;
		offer(c, (struct str){ m->name, first }, two ? NULL : m->summary);
	}
}

static void offer_options(const struct completion *c, const struct option_spec *options)
{
	for (; options->name != NULL; options++) {
		struct completion one = *c;

		one.front = "--";
		offer(&one, str_of(options->name), options->help);
	}
}

/* ---- candidates from the daemon ---- */

static int on_item(void *arg, const struct json *item)
{
	const struct completion *c = arg;
	long long process = (long long)field_int(item, "process_id", 0);

	if (c->member != NULL) {
		offer(c, field_str(item, c->member), NULL);
		return 0;
	}
	offer(c, field_str(item, "name"), NULL);
	/* The name is sufficient until something is typed that only an id begins with. */
	if (c->prefix[0] != '\0' || field_str(item, "name").n == 0)
		offer(c, field_str(item, "id"), NULL);
	if (process > 0) {
		char number[24];

		(void)snprintf(number, sizeof(number), "%lld", process);
		offer(c, str_of(number), NULL);
	}
	return 0;
}

/* Offers nothing if the daemon does not reply. */
static void offer_list(const struct completion *c, const char *path, const char *member)
{
	struct completion list = *c;
	struct err err = { 0 };

	list.member = member;
	if (cli_connect(c->cli, &err) < 0)
		return;
	http_client_set_timeout(c->cli->http, PATIENCE_MS, PATIENCE_MS);
	(void)!api_list(c->cli, path, NULL, on_item, &list, &err);
}

/* A list of the sandbox named before. */
static void offer_inside(const struct completion *c, const char *what, const char *member)
{
	char path[API_PATH_MAX];
	struct err err = { 0 };

	if (c->typed.operand_count > 0 &&
	    api_path(path, &err, "/v1/sandboxes/%s/%s", c->typed.operands[0], what) == 0)
		offer_list(c, path, member);
}

static void offer_engines(const struct completion *c)
{
	_cleanup_json_ struct json *doc = NULL;
	const struct json *engines;
	struct err err = { 0 };

	if (api_call(c->cli, "GET", "/v1/options", NULL, &doc, &err) < 0)
		return;
	engines = field(doc, "engines");
	for (size_t i = 0; engines != NULL && i < json_size(engines); i++)
		offer(c, field_str(json_at(engines, i), "name"), NULL);
}

/* ---- ID:PATH ---- */

/* The entries of the directory typed so far; directories end with a slash. */
static void offer_paths(const struct completion *c, const struct place *place)
{
	const char *slash = strrchr(place->path, '/');
	size_t n = slash != NULL ? (size_t)(slash - place->path) + 1 : 0;
	char dir[4096], front[4096 + 160];
	_cleanup_json_ struct json *list = NULL;
	const struct json *data;
	struct place at = *place;
	struct err err = { 0 };

	if (str_copy(dir, sizeof(dir), (struct str){ place->path, n }) < 0 ||
	    cli_connect(c->cli, &err) < 0)
		return;
	http_client_set_timeout(c->cli->http, PATIENCE_MS, PATIENCE_MS);
	at.path = n > 0 ? dir : ".";
	(void)snprintf(front, sizeof(front), "%s:%s", place->id, dir);
	if (files_get(c->cli, &at, "", "limit", "1000", &list, &err) < 0)
		return;
	data = field(list, "data");
	for (size_t i = 0; data != NULL && i < json_size(data); i++) {
		bool is_dir = str_is(field_str(json_at(data, i), "type"), "directory");
		struct completion one = *c;

		one.front = front;
		one.behind = is_dir ? "/" : "";
		offer(&one, field_str(json_at(data, i), "name"), NULL);
	}
}

static void offer_places(const struct completion *c, bool local)
{
	struct completion inside = *c;
	struct place place;
	struct err err = { 0 };
	size_t colon = strcspn(c->prefix, ":/");

	if (c->prefix[colon] == ':') {
		if (place_parse(c->prefix, &place, &err) == 0) {
			if (c->prefix[colon + 1] == '\0')
				place.path = "";
			offer_paths(c, &place);
		}
		return;
	}
	inside.behind = ":";
	offer_list(&inside, "/v1/sandboxes", NULL);
	if (local)
		(void)puts(":files");
}

/* ---- values and operands ---- */

static void offer_value(const struct completion *c, const struct option_spec *option)
{
	static const struct {
		const char *option, *path, *member;
	} lists[] = {
		{ "template", "/v1/templates", "name" }, { "snapshot", "/v1/snapshots", "id" },
		{ "sandbox", "/v1/sandboxes", NULL },	 { "secret", "/v1/secrets", "name" },
		{ "broker", "/v1/secrets", "name" },
	};
	static const char *const files[] = { "config", "tls-cert",  "tls-key",
					     "state",  "templates", "from-file" };
	static const char *const users[] = { "root", "sandbox", NULL };

	if (option->choices != NULL) {
		offer_all(c, option->choices);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (strcmp(option->name, lists[i].option) == 0)
			offer_list(c, lists[i].path, lists[i].member);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (strcmp(option->name, files[i]) == 0)
			(void)puts(":files");
	if (strcmp(option->name, "user") == 0)
		offer_all(c, users);
	if (strcmp(option->name, "engine") == 0)
		offer_engines(c);
}

/* Words that a command's usage line lists: "ID none|restricted|full", "ID [read NAME | ...]". */
static void offer_usage_words(const struct completion *c, const char *usage, size_t index)
{
	for (size_t i = 0; i < index && usage != NULL; i++) {
		usage = strchr(usage, ' ');
		usage = usage != NULL ? usage + 1 : NULL;
	}
	if (usage == NULL)
		return;
	usage += usage[0] == '[';
	/* At least one bar: otherwise it is not a choice. */
	if (usage[strspn(usage, LOWER)] != '|')
		return;
	for (size_t n; (n = strspn(usage, LOWER)) > 0; usage += n + 1) {
		offer(c, (struct str){ usage, n }, NULL);
		if (usage[n] != '|')
			return;
	}
}

static void offer_later(const struct completion *c, const struct command *command, size_t index)
{
	const char *verb = index == 2 ? c->typed.operands[1] : "";

	if (strcmp(command->name, "restore") == 0 && index == 1)
		offer_list(c, "/v1/snapshots", "id");
	else if (strcmp(command->name, "windows") == 0 && index == 1)
		offer_all(c, (const char *const[]){ "read", "close", NULL });
	else if (strcmp(command->name, "windows") == 0 && index == 2)
		offer_inside(c, "windows", "name");
	else if (strcmp(command->name, "preview") == 0 && index == 1)
		offer_all(c, (const char *const[]){ "rm", "share", NULL });
	else if (strcmp(command->name, "preview") == 0 &&
		 (strcmp(verb, "rm") == 0 || strcmp(verb, "share") == 0))
		offer_inside(c, "previews", "id");
	else
		offer_usage_words(c, command->operands, index);
}

static void offer_operand(const struct completion *c, const struct command *command)
{
	size_t index = c->typed.operand_count;
	bool all = strstr(command->operands, "...") != NULL && command->verbatim_from < 0;

	if (command->operands_max >= 0 && index >= (size_t)command->operands_max)
		return;
	switch (command->operand) {
	case OPERAND_SANDBOX:
		if (index > 0 && !(all && strncmp(command->operands, "ID...", 5) == 0))
			offer_later(c, command, index);
		else if (strstr(command->operands, ":PATH") != NULL && strchr(c->prefix, ':'))
			offer_places(c, false);
		else
			offer_list(c, "/v1/sandboxes", NULL);
		return;
	case OPERAND_PROCESS:
		if (index == 0)
			offer_list(c, "/v1/sandboxes", NULL);
		else
			offer_inside(c, "processes", NULL);
		return;
	case OPERAND_PLACE:
		offer_places(c, strcmp(command->name, "cp") == 0);
		return;
	case OPERAND_TEMPLATE:
		offer_list(c, "/v1/templates", "name");
		return;
	case OPERAND_KEY:
		offer_list(c, "/v1/keys", "id");
		return;
	case OPERAND_SECRET:
		offer_list(c, "/v1/secrets", NULL);
		return;
	case OPERAND_SNAPSHOT:
		offer_list(c, "/v1/snapshots", "id");
		return;
	case OPERAND_WEBHOOK:
		offer_list(c, "/v1/webhooks", "id");
		return;
	case OPERAND_COMMAND:
		offer_commands(c, index > 0 ? c->typed.operands[0] : NULL);
		return;
	case OPERAND_NONE:
		offer_usage_words(c, command->operands, index);
		return;
	}
}

/* The daemon that the typed command line refers to. */
static void use_daemon(struct cli *cli, const struct typed *typed)
{
	if (typed->url != NULL)
		cli->url_flag = typed->url;
	if (typed->key != NULL)
		cli->key_flag = typed->key;
	if (typed->state != NULL) {
		cli->state = typed->state;
		cli->state_given = cli->state_flag = true;
	}
}

int complete_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct completion c = { .cli = cli, .front = "", .behind = "" };
	const struct typed *typed = &c.typed;

	(void)err;
	typed_read(&c.typed, args->operands, args->operand_count);
	use_daemon(cli, typed);
	c.prefix = typed->current;
	if (typed->option != NULL) {
		char front[128];

		/* "--network=f": the candidates include the option, as the word does. */
		(void)snprintf(front, sizeof(front), "%.*s", (int)(typed->value - typed->current),
			       typed->current);
		c.front = front;
		offer_value(&c, typed->option);
		return 0;
	}
	if (!typed->literal && typed->current[0] == '-') {
		if (typed->command != NULL)
			offer_options(&c, typed->command->options);
		offer_options(&c, command_globals);
		return 0;
	}
	if (typed->command == NULL || (typed->family != NULL && typed->operand_count == 0))
		offer_commands(&c, typed->family);
	if (typed->command != NULL)
		offer_operand(&c, typed->command);
	return 0;
}
