/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/resolve.h"

#include <stdio.h>
#include <string.h>

#include "cli/api/api.h"

#define SHOWN_MAX 5 /* candidates in the message */

static const struct {
	const char *name;
	enum err_code missing;
} collections[] = {
	{ "sandboxes", ERR_SANDBOX_NOT_FOUND }, { "snapshots", ERR_SNAPSHOT_NOT_FOUND },
	{ "keys", ERR_KEY_NOT_FOUND },		{ "webhooks", ERR_WEBHOOK_NOT_FOUND },
	{ "secrets", ERR_SECRET_NOT_FOUND },
};

/* Splits "/v1/COLLECTION/WORD..."; returns the index of the collection, or -1. */
static int split(const char *path, struct str *word)
{
	for (size_t i = 0; i < ARRAY_LEN(collections); i++) {
		size_t n = strlen(collections[i].name);

		if (strncmp(path, "/v1/", 4) != 0 ||
		    strncmp(path + 4, collections[i].name, n) != 0 || path[4 + n] != '/')
			continue;
		word->p = path + 4 + n + 1;
		word->n = strcspn(word->p, "/?");
		return (int)i;
	}
	return -1;
}

static const struct resolved *known(const struct cli *cli, int collection, struct str word)
{
	for (size_t i = 0; i < cli->resolved_count; i++)
		if (cli->resolved[i].collection == collection &&
		    str_is(word, cli->resolved[i].typed))
			return &cli->resolved[i];
	return NULL;
}

const char *resolve_path(const struct cli *cli, const char *path, struct buf *buf)
{
	const struct resolved *found = NULL;
	struct str word = { "", 0 };
	int collection = cli->resolved_count > 0 ? split(path, &word) : -1;

	if (collection >= 0)
		found = known(cli, collection, word);
	if (found == NULL)
		return path;
	buf_clear(buf);
	if (buf_append(buf, path, (size_t)(word.p - path)) < 0 || buf_puts(buf, found->id) < 0 ||
	    buf_puts(buf, word.p + word.n) < 0 || buf_putc(buf, '\0') < 0)
		return path;
	return buf_data(buf);
}

struct search {
	struct str word;
	size_t count;
	char id[64];
	char list[ERR_MESSAGE_MAX]; /* the first few, separated by spaces */
};

static int on_item(void *arg, const struct json *item)
{
	struct search *search = arg;
	struct str id = field_str(item, "id"), name = field_str(item, "name");
	size_t n = strlen(search->list);

	if (id.n <= search->word.n || memcmp(id.p, search->word.p, search->word.n) != 0 ||
	    str_copy(search->id, sizeof(search->id), id) < 0)
		return 0;
	if (search->count++ < SHOWN_MAX)
		(void)snprintf(search->list + n, sizeof(search->list) - n, "%s%s%s%.*s%s",
			       n > 0 ? ", " : "", search->id, name.n > 0 ? " (" : "",
			       (int)MIN(name.n, 30), name.p, name.n > 0 ? ")" : "");
	return 0;
}

/* Only characters of ids; the word in a path is percent-encoded. */
static bool may_begin_id(struct str word)
{
	size_t n = 0;

	while (n < word.n && strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", word.p[n]) != NULL)
		n++;
	return n == word.n && n >= RESOLVE_LEAST && n < sizeof(((struct resolved *)NULL)->typed);
}

static void remember(struct cli *cli, int collection, const struct search *search)
{
	struct resolved *entry = &cli->resolved[cli->resolved_count++ % CLI_RESOLVED_MAX];

	cli->resolved_count = MIN(cli->resolved_count, CLI_RESOLVED_MAX);
	entry->collection = collection;
	(void)snprintf(entry->typed, sizeof(entry->typed), "%.*s", (int)search->word.n,
		       search->word.p);
	(void)snprintf(entry->id, sizeof(entry->id), "%s", search->id);
}

static void too_many(struct cli *cli, const struct search *search, enum err_code code,
		     struct err *err)
{
	free(cli->error_body);
	cli->error_body = NULL;
	(void)cli_hint(cli, "Type more of the id, or the name.");
	(void)err_set(err, code, "%zu ids begin with '%.*s': %s%s", search->count,
		      (int)search->word.n, search->word.p, search->list,
		      search->count > SHOWN_MAX ? ", ..." : "");
}

bool resolve_again(struct cli *cli, const char *path, struct err *err)
{
	struct search search = { .count = 0 };
	struct err list_err = { 0 };
	struct cli before = *cli;
	char list[64];
	int collection = split(path, &search.word), r;

	if (cli->resolving || collection < 0 || cli->http_status != 404 ||
	    err->code != collections[collection].missing || !may_begin_id(search.word) ||
	    known(cli, collection, search.word) != NULL)
		return false;
	(void)snprintf(list, sizeof(list), "/v1/%s", collections[collection].name);
	/* The original error is kept unless the search finds something. */
	cli->error_body = NULL;
	cli->resolving = true;
	r = api_list(cli, list, NULL, on_item, &search, &list_err);
	cli->resolving = false;
	if (r == 0 && search.count == 1) {
		free(before.error_body);
		remember(cli, collection, &search);
		return true;
	}
	free(cli->error_body);
	cli->error_body = before.error_body;
	cli->http_status = before.http_status;
	cli->exit_status = before.exit_status;
	cli->lost = before.lost;
	memcpy(cli->hint, before.hint, sizeof(cli->hint));
	if (r == 0 && search.count > 1)
		too_many(cli, &search, err->code, err);
	return false;
}

int resolve_id(struct cli *cli, const char *collection, const char *typed, char dst[64],
	       struct err *err)
{
	_cleanup_json_ struct json *doc = NULL;
	char path[API_PATH_MAX];
	struct str id = str_of(typed);

	if (api_path(path, err, "/v1/%s/%s", collection, typed) < 0)
		return -1;
	if (api_call(cli, "GET", path, NULL, &doc, err) == 0)
		id = field_str(doc, "id");
	/* a key may be allowed to use objects that it may not list */
	else if (err->code != ERR_FORBIDDEN)
		return -1;
	if (str_copy(dst, 64, id) < 0 || dst[0] == '\0')
		return err_set(err, ERR_INVALID_REQUEST, "'%.60s' is not an id", typed);
	return 0;
}
