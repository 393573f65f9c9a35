/* SPDX-License-Identifier: Apache-2.0 */
#include "service/pairs.h"

#include <errno.h>

const struct pairs_rule pairs_env = { "env", 1024, 256, 65536, 131072, true };
const struct pairs_rule pairs_exec_env = { "env", 4096, 256, 131072, 524288, true };
const struct pairs_rule pairs_metadata = { "metadata", 64, 64, 1024, 65536, false };

static bool key_char_ok(char c, bool first, bool identifier)
{
	bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
	bool digit = c >= '0' && c <= '9';

	if (identifier)
		return alpha || (digit && !first);
	return alpha || digit || c == '.' || c == '/' || c == ':' || c == '-';
}

static int check_key(struct str key, const struct pairs_rule *rule, struct err *err)
{
	bool ok = key.n > 0 && key.n <= rule->key_max_bytes;

	for (size_t i = 0; ok && i < key.n; i++)
		ok = key_char_ok(key.p[i], i == 0, rule->identifier_keys);
	if (ok)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "%s: key '%.*s' must be 1-%u characters of %s",
		       rule->what, (int)MIN(key.n, 64), key.p, rule->key_max_bytes,
		       rule->identifier_keys ? "[A-Za-z_][A-Za-z0-9_]*" : "[A-Za-z0-9_./:-]");
}

static int check_pair(const struct text_pair *pair, const struct pairs_rule *rule, struct err *err)
{
	struct str key = pair->key, value = pair->value;

	if (check_key(key, rule, err) < 0)
		return -1;
	if (value.n > rule->value_max_bytes)
		return err_set(err, ERR_INVALID_REQUEST, "%s.%.*s must be at most %u bytes",
			       rule->what, (int)key.n, key.p, rule->value_max_bytes);
	if (value.n && memchr(value.p, 0, value.n))
		return err_set(err, ERR_INVALID_REQUEST, "%s.%.*s must not contain NUL", rule->what,
			       (int)key.n, key.p);
	return 0;
}

static int measure(const struct text_map *map, const struct pairs_rule *rule, size_t *ret,
		   struct err *err)
{
	size_t total = 0;

	for (size_t i = 0; i < map->count; i++) {
		if (check_pair(&map->list[i], rule, err) < 0)
			return -1;
		total += map->list[i].key.n + map->list[i].value.n + 2;
	}
	if (total > rule->total_max_bytes)
		return err_set(err, ERR_INVALID_REQUEST, "%s must be at most %u bytes in all",
			       rule->what, rule->total_max_bytes);
	*ret = total;
	return 0;
}

int pairs_make(struct pairs *ret, const struct text_map *map, const struct pairs_rule *rule,
	       struct err *err)
{
	struct pairs pairs = { NULL, 0, 0 };
	size_t total = 0;

	if (map->count > rule->count_max)
		return err_set(err, ERR_INVALID_REQUEST, "%s must have at most %u members",
			       rule->what, rule->count_max);
	if (measure(map, rule, &total, err) < 0)
		return -1;
	if (total == 0) {
		*ret = pairs;
		return 0;
	}
	pairs.p = malloc(total);
	if (!pairs.p)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	for (size_t i = 0; i < map->count; i++) {
		struct str key = map->list[i].key, value = map->list[i].value;

		memcpy(pairs.p + pairs.n, key.p, key.n);
		pairs.p[pairs.n + key.n] = '=';
		if (value.n)
			memcpy(pairs.p + pairs.n + key.n + 1, value.p, value.n);
		pairs.n += (uint32_t)(key.n + value.n + 2);
		pairs.p[pairs.n - 1] = '\0';
		pairs.count++;
	}
	*ret = pairs;
	return 0;
}

int pairs_from_block(struct pairs *ret, struct str block)
{
	struct pairs pairs = { NULL, 0, 0 };

	if (block.n == 0) {
		*ret = pairs;
		return 0;
	}
	if (block.p[block.n - 1] != '\0' || block.n > UINT32_MAX)
		return -EINVAL;
	for (size_t i = 0; i < block.n; i += strlen(block.p + i) + 1) {
		if (!strchr(block.p + i, '='))
			return -EINVAL;
		pairs.count++;
	}
	pairs.p = malloc(block.n);
	if (!pairs.p)
		return -ENOMEM;
	memcpy(pairs.p, block.p, block.n);
	pairs.n = (uint32_t)block.n;
	*ret = pairs;
	return 0;
}

void pairs_done(struct pairs *pairs)
{
	free(pairs->p);
	*pairs = (struct pairs){ NULL, 0, 0 };
}

bool pairs_next(const struct pairs *pairs, uint32_t *at, const char **ret)
{
	if (*at >= pairs->n)
		return false;
	*ret = pairs->p + *at;
	*at += (uint32_t)strlen(*ret) + 1;
	return true;
}

const char *pairs_get(const struct pairs *pairs, struct str key)
{
	const char *record;
	uint32_t at = 0;

	while (pairs_next(pairs, &at, &record)) {
		struct str k, v;

		if (str_cut(str_of(record), '=', &k, &v) && str_eq(k, key))
			return v.p;
	}
	return NULL;
}

bool pairs_has(const struct pairs *pairs, struct str key, struct str value)
{
	const char *found = pairs_get(pairs, key);

	return found && str_is(value, found);
}
