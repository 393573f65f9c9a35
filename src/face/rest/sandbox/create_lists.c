/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a creation whose elements are strings or objects: secrets and initializers. */
#include <stdio.h>

#include "face/rest/call.h"
#include "service/sandbox/initializer.h"
#include "service/secret/secret.h"

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

#define AT(member) offsetof(struct grant_spec, member)
const struct field sandbox_secret_fields[] = {
	{ .name = "name",
	  .type = FIELD_STR,
	  .offset = AT(name),
	  .min = 1,
	  .max = SECRET_NAME_MAX,
	  .required = true },
	{ .name = "as",
	  .type = FIELD_ENUM,
	  .names = grant_way_names,
	  .offset = AT(way),
	  .fallback = GRANT_ENV,
	  .doc = "env: the value, in the environment; broker: a placeholder there, the value only "
		 "in requests to hosts" },
	{ .name = "env",
	  .type = FIELD_STR,
	  .offset = AT(env),
	  .min = 1,
	  .max = SECRET_NAME_MAX,
	  .doc = "default: its name" },
	{ .name = "hosts", .type = FIELD_STRINGS, .offset = AT(hosts), .max = SECRET_HOSTS_MAX },
	{ .type = FIELD_END }
};
#undef AT

static int read_grant(const struct json *item, size_t i, struct arena *arena,
		      struct grant_spec *ret, struct err *err)
{
	char path[40];

	*ret = (struct grant_spec){ .way = GRANT_ENV };
	if (json_type(item) == JSON_STRING) {
		ret->name = ret->env = json_str(item);
		return 0;
	}
	if (json_type(item) != JSON_OBJECT)
		return err_set(err, ERR_INVALID_REQUEST,
			       "secrets[%zu] must be a name or {name, as, env, hosts}", i);
	(void)snprintf(path, sizeof(path), "secrets[%zu].", i);
	if (field_decode(sandbox_secret_fields, item, path, arena, ret, err) < 0)
		return -1;
	if (!ret->env.p)
		ret->env = ret->name;
	return 0;
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

struct initializer_body {
	struct initializer base;
	struct str cmd; /* the same as base.exec.command */
};
#define AT(member) offsetof(struct initializer_body, member)
const struct field initializer_fields[] = {
	{ .name = "command",
	  .type = FIELD_STR,
	  .offset = AT(base.exec.command),
	  .min = 1,
	  .max = INITIALIZER_COMMAND_MAX,
	  .doc = "through the template's shell; command or argv" },
	{ .name = "cmd",
	  .type = FIELD_STR,
	  .offset = AT(cmd),
	  .min = 1,
	  .max = INITIALIZER_COMMAND_MAX,
	  .doc = "another name for command" },
	{ .name = "argv",
	  .type = FIELD_STRINGS,
	  .offset = AT(base.exec.argv),
	  .max = EXEC_ARGV_MAX,
	  .doc = "program and arguments, without a shell" },
	{ .name = "cwd",
	  .type = FIELD_STR,
	  .offset = AT(base.exec.cwd),
	  .min = 1,
	  .max = INITIALIZER_CWD_MAX },
	{ .name = "env", .type = FIELD_MAP, .offset = AT(base.exec.env) },
	{ .name = "user",
	  .type = FIELD_STR,
	  .offset = AT(base.exec.user),
	  .min = 1,
	  .max = INITIALIZER_USER_MAX },
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(base.exec.timeout_sec),
	  .min = 1,
	  .max = INITIALIZER_TIMEOUT_MAX_SEC,
	  .fallback = INITIALIZER_TIMEOUT_SEC },
	{ .name = "name",
	  .type = FIELD_STR,
	  .offset = AT(base.name),
	  .min = 1,
	  .max = INITIALIZER_NAME_MAX,
	  .doc = "its name in last_error" },
	{ .name = "continue_on_error",
	  .type = FIELD_BOOL,
	  .offset = AT(base.continue_on_error),
	  .doc = "if it fails, the next one runs, and last_error contains the failure" },
	{ .type = FIELD_END }
};
#undef AT

static int read_object(const struct json *item, const char *path, struct arena *arena,
		       struct initializer *ret, struct err *err)
{
	struct initializer_body body = { .cmd = { NULL, 0 } };

	if (field_decode(initializer_fields, item, path, arena, &body, err) < 0)
		return -1;
	if (body.base.exec.command.p && body.cmd.p)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%scommand (a string) or argv (an array): exactly one is needed",
			       path);
	if (body.cmd.p)
		body.base.exec.command = body.cmd;
	*ret = body.base;
	return 0;
}

static int read_initializer(const struct json *item, size_t i, struct arena *arena,
			    struct initializer *ret, struct err *err)
{
	char path[40];

	*ret = (struct initializer){ .exec.timeout_sec = INITIALIZER_TIMEOUT_SEC };
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
