/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/field.h"

#include <stdio.h>

#include "face/kit/json/texts.h"
#include "service/run/time_limit.h"
#include "service/service.h"

static int64_t limits[FIELD_LIMIT_COUNT];

void field_limits_set(const struct service_config *config)
{
	limits[FIELD_LIMIT_CPU] = config->max_cpu_milli;
	limits[FIELD_LIMIT_MEMORY] = config->max_memory_mb;
	limits[FIELD_LIMIT_DISK] = config->max_disk_size_mb;
	limits[FIELD_LIMIT_TIMEOUT] = config->max_timeout_sec;
	limits[FIELD_LIMIT_COMMAND] = command_time_max_sec(config);
}

int64_t field_max(const struct field *f)
{
	return f->limit ? limits[f->limit] : f->max;
}

int64_t field_fallback(const struct field *f)
{
	return f->limit ? MIN(f->fallback, field_max(f)) : f->fallback;
}

static void set_default(const struct field *f, void *base)
{
	char *at = (char *)base + f->offset;

	switch (f->type) {
	case FIELD_INT:
	case FIELD_MILLI:
		*(int64_t *)(void *)at = field_fallback(f);
		break;
	case FIELD_BOOL:
		*(bool *)(void *)at = f->fallback != 0;
		break;
	case FIELD_ENUM:
		*(int *)(void *)at = (int)f->fallback;
		break;
	case FIELD_STR:
	case FIELD_NAME:
		if (f->fallback_text)
			*(struct str *)(void *)at = str_of(f->fallback_text);
		break;
	case FIELD_OBJECT:
		for (const struct field *sub = f->fields; sub->type; sub++)
			set_default(sub, base);
		break;
	case FIELD_END:
	case FIELD_MAP:
	case FIELD_STRINGS:
	case FIELD_ANY:
	case FIELD_LATER:
	case FIELD_LATER_BOOL:
	case FIELD_LATER_ENUM:
	case FIELD_TIME:
	case FIELD_REAL:
	case FIELD_FREE:
	case FIELD_LIST:
	case FIELD_MIXED:
		break;
	}
}

static void refuse_later(struct json_reader *r, const struct field *f, const char *what)
{
	if (r->failed)
		return;
	r->failed = true;
	(void)err_set(r->err, ERR_UNSUPPORTED, "%s%s%s is not supported yet", r->path, f->name,
		      what);
}

static void read_later(struct json_reader *r, const struct field *f)
{
	const struct json *value;
	bool yes = false;
	int index = 0;

	if (f->type == FIELD_LATER_BOOL) {
		json_read_bool(r, f->name, &yes);
		if (yes)
			refuse_later(r, f, " = true");
		return;
	}
	if (f->type == FIELD_LATER_ENUM) {
		json_read_enum(r, f->name, f->names, &index);
		if (index)
			refuse_later(r, f, " other than its default");
		return;
	}
	value = json_read(r, f->name);
	if (value && !((json_type(value) == JSON_ARRAY || json_type(value) == JSON_OBJECT) &&
		       json_size(value) == 0))
		refuse_later(r, f, "");
}

static void refuse_name(struct json_reader *r, const struct field *f)
{
	r->failed = true;
	(void)err_set(r->err, ERR_INVALID_REQUEST,
		      "%s%s must be 1-%lld characters of [a-z0-9._-], the first a letter or digit",
		      r->path, f->name, (long long)f->max);
}

/* How one object is read. */
struct decode {
	struct arena *arena;
	bool open; /* members that the table does not list are ignored */
};

static int decode(const struct field *fields, const struct json *object, const char *path,
		  const struct decode *how, void *base, struct err *err);

static void read_object(struct json_reader *r, const struct field *f, const struct decode *how,
			void *base)
{
	const struct json *object = json_read_object(r, f->name);
	char path[96];

	if (!object || r->failed)
		return;
	(void)snprintf(path, sizeof(path), "%s%s.", r->path, f->name);
	if (decode(f->fields, object, path, how, base, r->err) < 0)
		r->failed = true;
}

static void read_strings(struct json_reader *r, const struct field *f, struct arena *arena,
			 void *at)
{
	const struct json *array = json_read_array(r, f->name, (size_t)f->max);

	if (!r->failed && texts_read_list(array, r->path, f->name, arena, at, r->err) < 0)
		r->failed = true;
}

static void read_map(struct json_reader *r, const struct field *f, struct arena *arena, void *at)
{
	const struct json *object = json_read_object(r, f->name);

	if (!r->failed && texts_read_map(object, r->path, f->name, arena, at, r->err) < 0)
		r->failed = true;
}

static void read_list(struct json_reader *r, const struct field *f, struct arena *arena, void *at)
{
	const struct json *array = json_read_array(r, f->name, (size_t)f->max);

	for (size_t i = 0; f->type == FIELD_LIST && array && i < json_size(array); i++) {
		if (r->failed || json_type(json_at(array, i)) == JSON_OBJECT)
			continue;
		r->failed = true;
		(void)err_set(r->err, ERR_INVALID_REQUEST, "%s%s[%zu] must be an object", r->path,
			      f->name, i);
	}
	if (array && !r->failed && f->read(array, arena, at, r->err) < 0)
		r->failed = true;
}

static void read_field(struct json_reader *r, const struct field *f, const struct decode *how,
		       void *base)
{
	struct arena *arena = how->arena;
	void *at = (char *)base + f->offset;
	struct str name = { NULL, 0 };

	switch (f->type) {
	case FIELD_INT:
		json_read_int(r, f->name, f->min, field_max(f), at);
		break;
	case FIELD_MILLI:
		json_read_milli(r, f->name, f->min, field_max(f), at);
		break;
	case FIELD_BOOL:
		json_read_bool(r, f->name, at);
		break;
	case FIELD_STR:
		json_read_str(r, f->name, (size_t)f->min, (size_t)f->max, at);
		break;
	case FIELD_NAME:
		json_read_str(r, f->name, 0, 4096, &name);
		if (name.p && !r->failed && !str_is_name(name, (size_t)f->max))
			refuse_name(r, f);
		else if (name.p)
			*(struct str *)at = name;
		break;
	case FIELD_ENUM:
		json_read_enum(r, f->name, f->names, at);
		break;
	case FIELD_MAP:
		read_map(r, f, arena, at);
		break;
	case FIELD_STRINGS:
		read_strings(r, f, arena, at);
		break;
	case FIELD_OBJECT:
		read_object(r, f, how, base);
		break;
	case FIELD_ANY:
		*(const struct json **)at = json_read(r, f->name);
		break;
	case FIELD_LATER:
	case FIELD_LATER_BOOL:
	case FIELD_LATER_ENUM:
		read_later(r, f);
		break;
	case FIELD_END:
	case FIELD_TIME:
	case FIELD_REAL:
	case FIELD_FREE:
		break;
	case FIELD_LIST:
	case FIELD_MIXED:
		read_list(r, f, arena, at);
		break;
	}
}

/* null means "not sent" for numbers and flags, and "remove it" for the rest. */
static void note_sent(const struct field *f, const struct json *object, void *base)
{
	const struct json *value;
	const char *key;
	void *it = NULL;

	if (!f->sent)
		return;
	while (json_next(object, &it, &key, &value))
		if (strcmp(key, f->name) == 0 &&
		    (json_type(value) != JSON_NULL ||
		     (f->type != FIELD_INT && f->type != FIELD_MILLI && f->type != FIELD_BOOL &&
		      f->type != FIELD_OBJECT)))
			*(bool *)(void *)((char *)base + f->sent - 1) = true;
}

static void check_required(struct json_reader *r, const struct field *f, const struct json *object)
{
	const struct json *value;
	const char *key;
	void *it = NULL;

	while (json_next(object, &it, &key, &value))
		if (strcmp(key, f->name) == 0 && json_type(value) != JSON_NULL)
			return;
	r->failed = true;
	(void)err_set(r->err, ERR_INVALID_REQUEST, "%s%s is required", r->path, f->name);
}

void field_set_defaults(const struct field *fields, void *base)
{
	for (const struct field *f = fields; f->type; f++)
		set_default(f, base);
}

static int decode(const struct field *fields, const struct json *object, const char *path,
		  const struct decode *how, void *base, struct err *err)
{
	struct json_reader r;

	field_set_defaults(fields, base);
	json_reader_init(&r, object, path, err);
	for (const struct field *f = fields; f->type && !r.failed; f++) {
		read_field(&r, f, how, base);
		if (!r.failed && f->required)
			check_required(&r, f, object);
		if (!r.failed)
			note_sent(f, object, base);
	}
	if (how->open)
		return r.failed ? -1 : 0;
	return json_reader_end(&r);
}

int field_decode(const struct field *fields, const struct json *object, const char *path,
		 struct arena *arena, void *base, struct err *err)
{
	return decode(fields, object, path, &(struct decode){ arena, false }, base, err);
}

int field_decode_open(const struct field *fields, const struct json *object, struct arena *arena,
		      void *base, struct err *err)
{
	return decode(fields, object, "", &(struct decode){ arena, true }, base, err);
}
