/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* jansson and this module use the same type names: jansson's get another prefix here. */
#define json_type jansson_type
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_INTEGER JANSSON_INTEGER
#define JSON_REAL JANSSON_REAL
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#include <jansson.h>
#undef json_type
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_INTEGER
#undef JSON_REAL
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL

#define DEPTH_MAX 64	    /* nesting of a document we read or write */
#define VALUES_MAX 131072   /* an empty array is 3 bytes of text and 120 bytes of memory */
#define READER_MEMBERS 64   /* one bit each in json_reader.seen */
#define SHOWN_NAME_BYTES 64 /* bytes of a client's field name that a message shows */

/* struct json is json_t under another name, so that the header does not include jansson. */
static json_t *jansson_of(const struct json *value)
{
	union {
		const struct json *in;
		json_t *out;
	} u = { .in = value };

	return u.out;
}

static const struct json *json_of(const json_t *value)
{
	return (const struct json *)value;
}

/* Prepares foreign text for a message: bounded, and without bytes that control a terminal. */
static void show(char *dst, size_t size, const char *src)
{
	size_t n = 0;

	for (; src[n] && n + 1 < size; n++) {
		unsigned char c = (unsigned char)src[n];

		dst[n] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
	}
	dst[n] = '\0';
}

/*
 * jansson recurses up to 2048 levels and keeps every element before they could be counted. Nesting
 * and the number of values are therefore checked first. Strings are skipped; jansson checks the
 * syntax.
 */
static int check_shape(struct str text, struct err *err)
{
	size_t depth = 0, values = 0;
	bool in_string = false;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			values++;
			if (++depth > DEPTH_MAX)
				return err_set(err, ERR_INVALID_REQUEST,
					       "JSON nested deeper than %d levels", DEPTH_MAX);
		} else if (c == '}' || c == ']') {
			depth -= depth > 0;
		} else if (c == ',') {
			values++;
		}
		if (values > VALUES_MAX)
			return err_set(err, ERR_INVALID_REQUEST, "JSON with more than %d values",
				       VALUES_MAX);
	}
	return 0;
}

struct json *json_parse(struct str text, struct err *err)
{
	char shown[JSON_ERROR_TEXT_LENGTH];
	json_error_t e;
	json_t *doc;

	if (text.n == 0) {
		(void)err_set(err, ERR_INVALID_REQUEST, "JSON expected, but there are no bytes");
		return NULL;
	}
	if (check_shape(text, err) < 0)
		return NULL;
	doc = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!doc) {
		show(shown, sizeof(shown), e.text);
		(void)err_set(err, ERR_INVALID_REQUEST, "JSON refused at line %d, column %d: %s",
			      e.line, e.column, shown);
		return NULL;
	}
	return (struct json *)doc;
}

void json_free(struct json *doc)
{
	json_decref(jansson_of(doc));
}

void json_freep(struct json **doc)
{
	json_free(*doc);
}

enum json_type json_type(const struct json *value)
{
	static const enum json_type types[] = {
		[JANSSON_OBJECT] = JSON_OBJECT, [JANSSON_ARRAY] = JSON_ARRAY,
		[JANSSON_STRING] = JSON_STRING, [JANSSON_INTEGER] = JSON_INT,
		[JANSSON_REAL] = JSON_REAL,	[JANSSON_TRUE] = JSON_BOOL,
		[JANSSON_FALSE] = JSON_BOOL,	[JANSSON_NULL] = JSON_NULL,
	};

	return value ? types[json_typeof(jansson_of(value))] : JSON_NULL;
}

size_t json_size(const struct json *value)
{
	json_t *v = jansson_of(value);

	return json_type(value) == JSON_OBJECT ? json_object_size(v) : json_array_size(v);
}

const struct json *json_at(const struct json *array, size_t i)
{
	return json_of(json_array_get(jansson_of(array), i));
}

struct str json_str(const struct json *value)
{
	const char *p = json_string_value(jansson_of(value));

	return p ? (struct str){ p, json_string_length(jansson_of(value)) } : STR_LIT("");
}

int64_t json_int(const struct json *value)
{
	return json_integer_value(jansson_of(value));
}

double json_number(const struct json *value)
{
	return json_number_value(jansson_of(value));
}

bool json_bool(const struct json *value)
{
	return value && json_typeof(jansson_of(value)) == JANSSON_TRUE;
}

bool json_next(const struct json *object, void **it, const char **ret_key,
	       const struct json **ret_value)
{
	json_t *o = jansson_of(object);

	*it = *it ? json_object_iter_next(o, *it) : json_object_iter(o);
	if (!*it)
		return false;
	*ret_key = json_object_iter_key(*it);
	*ret_value = json_of(json_object_iter_value(*it));
	return true;
}

/* ---- typed reading ---- */

/* Builds "limits.memory_mb"; path may or may not end with a dot. */
static void field_name(const struct json_reader *r, const char *key, char *dst, size_t size)
{
	char shown[SHOWN_NAME_BYTES + 1];
	size_t n = r->path ? strlen(r->path) : 0;

	show(shown, sizeof(shown), key);
	(void)snprintf(dst, size, "%s%s%s", n ? r->path : "", n && r->path[n - 1] != '.' ? "." : "",
		       shown);
}

static void refuse(struct json_reader *r, const char *key, const char *fmt, ...) _printf_(3, 4);

static void refuse(struct json_reader *r, const char *key, const char *fmt, ...)
{
	char name[ERR_MESSAGE_MAX / 2], what[ERR_MESSAGE_MAX];
	va_list ap;

	r->failed = true;
	field_name(r, key, name, sizeof(name));
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)err_set(r->err, ERR_INVALID_REQUEST, "%s %s", name, what);
}

void json_reader_init(struct json_reader *r, const struct json *object, const char *path,
		      struct err *err)
{
	const char *whole = path && path[0] ? path : "the request body";

	*r = (struct json_reader){ .object = object, .path = path ? path : "", .err = err };
	if (json_type(object) != JSON_OBJECT) {
		r->failed = true;
		(void)err_set(err, ERR_INVALID_REQUEST, "%s must be a JSON object", whole);
	} else if (json_size(object) > READER_MEMBERS) {
		r->failed = true;
		(void)err_set(err, ERR_INVALID_REQUEST, "%s has more than %d fields", whole,
			      READER_MEMBERS);
	}
}

const struct json *json_read(struct json_reader *r, const char *key)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	if (r->failed)
		return NULL;
	for (int i = 0; json_next(r->object, &it, &name, &value); i++) {
		if (strcmp(name, key) != 0)
			continue;
		r->seen |= UINT64_C(1) << i;
		return json_type(value) == JSON_NULL ? NULL : value;
	}
	return NULL;
}

void json_read_int(struct json_reader *r, const char *key, int64_t min, int64_t max, int64_t *ret)
{
	const struct json *value = json_read(r, key);

	if (!value)
		return;
	if (json_type(value) != JSON_INT || json_int(value) < min || json_int(value) > max) {
		refuse(r, key, "must be an integer from %" PRId64 " to %" PRId64, min, max);
		return;
	}
	*ret = json_int(value);
}

void json_read_milli(struct json_reader *r, const char *key, int64_t min, int64_t max, int64_t *ret)
{
	const struct json *value = json_read(r, key);
	double number;

	if (!value)
		return;
	number = json_type(value) == JSON_INT || json_type(value) == JSON_REAL
			 ? json_number(value) * 1000
			 : -1;
	if (!(number >= (double)min && number <= (double)max)) {
		refuse(r, key, "must be a number from %.12g to %.12g", (double)min / 1000,
		       (double)max / 1000);
		return;
	}
	*ret = (int64_t)(number + 0.5);
}

void json_read_bool(struct json_reader *r, const char *key, bool *ret)
{
	const struct json *value = json_read(r, key);

	if (!value)
		return;
	if (json_type(value) != JSON_BOOL) {
		refuse(r, key, "must be true or false");
		return;
	}
	*ret = json_bool(value);
}

void json_read_str(struct json_reader *r, const char *key, size_t min, size_t max, struct str *ret)
{
	const struct json *value = json_read(r, key);
	struct str s;

	if (!value)
		return;
	s = json_str(value);
	if (json_type(value) != JSON_STRING || s.n < min || s.n > max) {
		refuse(r, key, "must be a string of %zu to %zu bytes", min, max);
		return;
	}
	if (s.n && memchr(s.p, '\0', s.n)) {
		refuse(r, key, "must not contain NUL bytes");
		return;
	}
	*ret = s;
}

void json_read_enum(struct json_reader *r, const char *key, const char *const *names, int *ret)
{
	const struct json *value = json_read(r, key);
	char list[ERR_MESSAGE_MAX] = "";
	size_t n = 0;

	if (!value)
		return;
	for (int i = 0; names[i]; i++) {
		if (json_type(value) == JSON_STRING && str_is(json_str(value), names[i])) {
			*ret = i;
			return;
		}
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
					      names[i]);
	}
	refuse(r, key, "must be one of: %s", list);
}

const struct json *json_read_object(struct json_reader *r, const char *key)
{
	const struct json *value = json_read(r, key);

	if (value && json_type(value) != JSON_OBJECT) {
		refuse(r, key, "must be an object");
		return NULL;
	}
	return value;
}

const struct json *json_read_array(struct json_reader *r, const char *key, size_t max)
{
	const struct json *value = json_read(r, key);

	if (value && (json_type(value) != JSON_ARRAY || json_size(value) > max)) {
		refuse(r, key, "must be an array of at most %zu elements", max);
		return NULL;
	}
	return value;
}

int json_reader_end(struct json_reader *r)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	if (r->failed)
		return -1;
	for (int i = 0; json_next(r->object, &it, &name, &value); i++) {
		if (r->seen >> i & 1)
			continue;
		refuse(r, name, "is not a known field");
		return -1;
	}
	return 0;
}

/* ---- copying a value read before ---- */

static void put_members(struct json_writer *w, const char *key, const struct json *object)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	json_begin_object(w, key);
	while (json_next(object, &it, &name, &value))
		json_put_value(w, name, value);
	json_end_object(w);
}

/* Recursion is bounded: json_parse() accepts no document deeper than DEPTH_MAX. */
void json_put_value(struct json_writer *w, const char *key, const struct json *value)
{
	switch (json_type(value)) {
	case JSON_NULL:
		json_put_null(w, key);
		break;
	case JSON_BOOL:
		json_put_bool(w, key, json_bool(value));
		break;
	case JSON_INT:
		json_put_int(w, key, json_int(value));
		break;
	case JSON_REAL:
		json_put_real(w, key, json_real_value(jansson_of(value)));
		break;
	case JSON_STRING:
		json_put_str(w, key, json_str(value));
		break;
	case JSON_ARRAY:
		json_begin_array(w, key);
		for (size_t i = 0; i < json_size(value); i++)
			json_put_value(w, NULL, json_at(value, i));
		json_end_array(w);
		break;
	case JSON_OBJECT:
		put_members(w, key, value);
		break;
	}
}
