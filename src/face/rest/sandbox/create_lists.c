/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a creation whose elements are strings or objects: secrets and initializers. */
#include <stdio.h>

#include "face/kit/json/texts.h"
#include "face/rest/call.h"
#include "service/sandbox/initializer.h"
#include "service/secret/secret.h"

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

static int read_grant(const struct json *item, size_t i, struct arena *arena,
		      struct grant_spec *ret, struct err *err)
{
	const struct json *hosts;
	struct json_reader r;
	char path[40];

	(void)snprintf(path, sizeof(path), "secrets[%zu].", i);
	ret->way = GRANT_ENV;
	if (json_type(item) == JSON_STRING) {
		ret->name = ret->env = json_str(item);
		return 0;
	}
	if (json_type(item) != JSON_OBJECT)
		return err_set(err, ERR_INVALID_REQUEST,
			       "secrets[%zu] must be a name or {name, as, env, hosts}", i);
	json_reader_init(&r, item, path, err);
	json_read_str(&r, "name", 1, SECRET_NAME_MAX, &ret->name);
	ret->env = ret->name;
	json_read_str(&r, "env", 1, SECRET_NAME_MAX, &ret->env);
	json_read_enum(&r, "as", grant_way_names, &ret->way);
	hosts = json_read_array(&r, "hosts", SECRET_HOSTS_MAX);
	if (json_reader_end(&r) < 0)
		return -1;
	return texts_read_list(hosts, path, "hosts", arena, &ret->hosts, err);
}

int grants_decode(const struct json *array, struct arena *arena, void *ret, struct err *err)
{
	struct grant_list *list = ret;
	struct grant_spec *items = arena_alloc(arena, (json_size(array) + 1) * sizeof(*items));

	if (!items)
		return no_memory(err);
	for (size_t i = 0; i < json_size(array); i++)
		if (read_grant(json_at(array, i), i, arena, &items[i], err) < 0)
			return -1;
	*list = (struct grant_list){ items, json_size(array) };
	return 0;
}

static int read_object(const struct json *item, const char *path, struct arena *arena,
		       struct initializer *ret, struct err *err)
{
	struct str command = { NULL, 0 }, cmd = { NULL, 0 };
	const struct json *argv, *env;
	struct json_reader r;

	json_reader_init(&r, item, path, err);
	json_read_str(&r, "command", 1, INITIALIZER_COMMAND_MAX, &command);
	json_read_str(&r, "cmd", 1, INITIALIZER_COMMAND_MAX, &cmd);
	argv = json_read_array(&r, "argv", EXEC_ARGV_MAX);
	json_read_str(&r, "cwd", 1, INITIALIZER_CWD_MAX, &ret->exec.cwd);
	env = json_read_object(&r, "env");
	json_read_str(&r, "user", 1, INITIALIZER_USER_MAX, &ret->exec.user);
	json_read_int(&r, "timeout_sec", 1, INITIALIZER_TIMEOUT_MAX_SEC, &ret->exec.timeout_sec);
	json_read_str(&r, "name", 1, INITIALIZER_NAME_MAX, &ret->name);
	json_read_bool(&r, "continue_on_error", &ret->continue_on_error);
	if (json_reader_end(&r) < 0)
		return -1;
	if (command.p && cmd.p)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%scommand (a string) or argv (an array): exactly one is needed",
			       path);
	ret->exec.command = command.p ? command : cmd;
	if (texts_read_list(argv, path, "argv", arena, &ret->exec.argv, err) < 0)
		return -1;
	return texts_read_map(env, path, "env", arena, &ret->exec.env, err);
}

static int read_initializer(const struct json *item, size_t i, struct arena *arena,
			    struct initializer *ret, struct err *err)
{
	char path[40];

	ret->exec.timeout_sec = INITIALIZER_TIMEOUT_SEC;
	(void)snprintf(path, sizeof(path), "initializers[%zu].", i);
	if (json_type(item) == JSON_OBJECT)
		return read_object(item, path, arena, ret, err);
	if (json_type(item) != JSON_STRING || json_str(item).n < 1 ||
	    json_str(item).n > INITIALIZER_COMMAND_MAX ||
	    memchr(json_str(item).p, 0, json_str(item).n))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"initializers[%zu] must be a command of 1-%d characters, or an object", i,
			INITIALIZER_COMMAND_MAX);
	ret->exec.command = json_str(item);
	return 0;
}

/* The limit applies to the list as it is sent, without white space. */
static bool is_short(const struct json *array)
{
	struct json_writer w;
	struct buf text;
	int r;

	buf_init(&text, INITIALIZERS_BYTES_MAX);
	json_writer_init(&w, &text);
	json_put_value(&w, NULL, array);
	r = json_writer_end(&w);
	buf_done(&text);
	return r == 0;
}

int initializers_decode(const struct json *array, struct arena *arena, void *ret, struct err *err)
{
	struct initializer_list *list = ret;
	struct initializer *items = arena_alloc(arena, (json_size(array) + 1) * sizeof(*items));

	if (!items)
		return no_memory(err);
	if (!is_short(array))
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers must have at most %d bytes together",
			       INITIALIZERS_BYTES_MAX);
	for (size_t i = 0; i < json_size(array); i++)
		if (read_initializer(json_at(array, i), i, arena, &items[i], err) < 0)
			return -1;
	*list = (struct initializer_list){ items, json_size(array) };
	return 0;
}
