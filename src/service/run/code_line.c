/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of JSON that templates/code/cay-code reads and writes. Code in the sandbox can forge
 * them, so a member of the wrong type counts as absent and unknown members are ignored.
 */
#include <errno.h>

#include "base/json.h"
#include "service/run/code_private.h"

/* A number can become longer when it is serialized again, at most sixfold; see add_part(). */
#define DOCUMENTS_MAX (6 * CODE_LINE_MAX)
#define ENV_NAME_MAX 256

/* ---- events ---- */

static const char *const types[] = { [CODE_COUNT] = "number_of_executions",
				     [CODE_STDOUT] = "stdout",
				     [CODE_STDERR] = "stderr",
				     [CODE_RESULT] = "result",
				     [CODE_ERROR] = "error",
				     NULL };

/* The member of this name and type; NULL if there is none. */
static const struct json *member(const struct json *doc, const char *name, enum json_type type)
{
	const struct json *value;
	const char *key;
	void *it = NULL;

	while (json_next(doc, &it, &key, &value))
		if (strcmp(key, name) == 0)
			return json_type(value) == type ? value : NULL;
	return NULL;
}

static struct str text_of(const struct json *doc, const char *name)
{
	const struct json *value = member(doc, name, JSON_STRING);

	return value ? json_str(value) : (struct str){ "", 0 };
}

static int64_t int_of(const struct json *doc, const char *name)
{
	const struct json *value = member(doc, name, JSON_INT);

	return value ? json_int(value) : 0;
}

/* A value that is not text is serialized again and appended to documents. */
static int add_part(struct code_part *part, const char *name, const struct json *value,
		    struct buf *documents)
{
	struct json_writer w;
	size_t begin = buf_len(documents);
	int r;

	*part = (struct code_part){ .name = name, .structured = json_type(value) != JSON_STRING };
	if (!part->structured) {
		part->value = json_str(value);
		return 0;
	}
	json_writer_init(&w, documents);
	json_put_value(&w, NULL, value);
	r = json_writer_end(&w);
	part->value.n = buf_len(documents) - begin;
	return r;
}

/* Collects the parts of a result, without the members that every event has. -errno: they do not
 * fit. */
static int read_parts(const struct json *doc, struct code_part parts[CODE_PARTS_MAX],
		      struct buf *documents, size_t *ret_count)
{
	const struct json *value;
	size_t n = 0, at = 0;
	const char *key;
	void *it = NULL;
	int r = 0;

	while (r == 0 && n < CODE_PARTS_MAX && json_next(doc, &it, &key, &value))
		if (strcmp(key, "id") != 0 && strcmp(key, "type") != 0 &&
		    strcmp(key, "is_main_result") != 0)
			r = add_part(&parts[n++], key, value, documents);
	/* The buffer does not move any more, so views into it are valid. */
	for (size_t i = 0; r == 0 && i < n; i++)
		if (parts[i].structured) {
			parts[i].value.p = buf_str(documents).p + at;
			at += parts[i].value.n;
		}
	*ret_count = n;
	return r;
}

static void read_event(const struct json *doc, enum code_event_type type,
		       void (*on_event)(void *arg, const struct code_event *event), void *arg)
{
	const struct json *is_main = member(doc, "is_main_result", JSON_BOOL);
	struct code_part parts[CODE_PARTS_MAX];
	struct code_event event = { .type = type,
				    .execution_count = int_of(doc, "execution_count"),
				    .text = text_of(doc, "text"),
				    .at_us = int_of(doc, "timestamp"),
				    .is_main = is_main && json_bool(is_main),
				    .parts = parts,
				    .name = text_of(doc, "name"),
				    .value = text_of(doc, "value"),
				    .traceback = text_of(doc, "traceback") };
	struct buf documents;
	int r = 0;

	buf_init(&documents, DOCUMENTS_MAX);
	if (type == CODE_RESULT)
		r = read_parts(doc, parts, &documents, &event.part_count);
	if (r == 0)
		on_event(arg, &event);
	buf_done(&documents);
}

enum code_line code_line_read(struct str line, const char *id,
			      void (*on_event)(void *arg, const struct code_event *event),
			      void *arg)
{
	struct err err;
	_cleanup_json_ struct json *doc = json_parse(line, &err);
	struct str type;

	if (!doc || json_type(doc) != JSON_OBJECT || !str_is(text_of(doc, "id"), id))
		return CODE_LINE_OTHER;
	type = text_of(doc, "type");
	if (str_is(type, "end_of_execution"))
		return CODE_LINE_END;
	for (int i = 0; types[i]; i++)
		if (str_is(type, types[i])) {
			read_event(doc, (enum code_event_type)i, on_event, arg);
			return CODE_LINE_EVENT;
		}
	return CODE_LINE_OTHER;
}

/* ---- requests ---- */

const struct str code_line_interrupt = STR_LIT("{\"op\":\"interrupt\"}\n");

/* A name that is too long makes the request too large. */
static void write_env(const struct text_map *env, struct json_writer *w)
{
	char key[ENV_NAME_MAX + 1];

	json_begin_object(w, "env");
	for (size_t i = 0; i < env->count; i++)
		if (str_copy(key, sizeof(key), env->list[i].key) == 0)
			json_put_str(w, key, env->list[i].value);
		else
			w->error = -ENOBUFS;
	json_end_object(w);
}

int code_line_write(struct buf *out, const char *id, const struct code_spec *spec)
{
	struct json_writer w;
	int r;

	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_put_text(&w, "op", "execute");
	json_put_text(&w, "id", id);
	json_put_str(&w, "code", spec->code);
	if (spec->env.list)
		write_env(&spec->env, &w);
	json_end_object(&w);
	r = json_writer_end(&w);
	return r == 0 ? buf_puts(out, "\n") : r;
}
