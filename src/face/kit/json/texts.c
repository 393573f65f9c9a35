/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/json/texts.h"

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

int texts_read_list(const struct json *value, const char *path, const char *name,
		    struct arena *arena, struct text_list *ret, struct err *err)
{
	size_t count;
	struct str *list;

	if (!value)
		return 0;
	if (json_type(value) != JSON_ARRAY)
		return err_set(err, ERR_INVALID_REQUEST, "%s%s must be an array", path, name);
	count = json_size(value);
	list = arena_alloc(arena, (count + 1) * sizeof(*list));
	if (!list)
		return no_memory(err);
	for (size_t i = 0; i < count; i++) {
		if (json_type(json_at(value, i)) != JSON_STRING)
			return err_set(err, ERR_INVALID_REQUEST, "%s%s[%zu] must be a string", path,
				       name, i);
		list[i] = json_str(json_at(value, i));
	}
	*ret = (struct text_list){ list, count };
	return 0;
}

int texts_read_map(const struct json *value, const char *path, const char *name,
		   struct arena *arena, struct text_map *ret, struct err *err)
{
	const struct json *member;
	struct text_pair *list;
	const char *key;
	void *it = NULL;
	size_t n = 0;

	if (!value)
		return 0;
	if (json_type(value) != JSON_OBJECT)
		return err_set(err, ERR_INVALID_REQUEST, "%s%s must be an object", path, name);
	list = arena_alloc(arena, (json_size(value) + 1) * sizeof(*list));
	if (!list)
		return no_memory(err);
	while (json_next(value, &it, &key, &member)) {
		if (json_type(member) != JSON_STRING)
			return err_set(err, ERR_INVALID_REQUEST, "%s%s.%.64s must be a string",
				       path, name, key);
		list[n++] = (struct text_pair){ str_of(key), json_str(member) };
	}
	*ret = (struct text_map){ list, n };
	return 0;
}
