/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/openapi/field_schema.h"

#include <stdio.h>

static const char *(*name_of)(const struct field *fields);

void field_names_set(const char *(*fn)(const struct field *fields))
{
	name_of = fn;
}

static void write_type(const struct field *f, struct json_writer *w, const char *type)
{
	if (!f->nullable) {
		json_put_text(w, "type", type);
		return;
	}
	json_begin_array(w, "type");
	json_put_text(w, NULL, type);
	json_put_text(w, NULL, "null");
	json_end_array(w);
}

static void write_enum(const struct field *f, struct json_writer *w)
{
	write_type(f, w, "string");
	json_begin_array(w, "enum");
	for (const char *const *name = f->names; *name; name++)
		json_put_text(w, NULL, *name);
	if (f->nullable)
		json_put_null(w, NULL);
	json_end_array(w);
	if (f->type == FIELD_LATER_ENUM)
		json_put_text(w, "default", f->names[0]);
	else if (f->fallback >= 0)
		json_put_text(w, "default", f->names[f->fallback]);
}

static void write_string(const struct field *f, struct json_writer *w)
{
	write_type(f, w, "string");
	if (f->type == FIELD_NAME)
		json_put_text(w, "pattern", "^[a-z0-9][a-z0-9._-]*$");
	if (f->min)
		json_put_int(w, "minLength", f->min);
	if (f->max)
		json_put_int(w, "maxLength", f->max);
	if (f->fallback_text)
		json_put_text(w, "default", f->fallback_text);
}

static void write_int(const struct field *f, struct json_writer *w)
{
	write_type(f, w, "integer");
	if (field_max(f)) {
		json_put_int(w, "minimum", f->min);
		json_put_int(w, "maximum", field_max(f));
	}
	if (f->fallback)
		json_put_int(w, "default", field_fallback(f));
}

static void write_milli(const struct field *f, struct json_writer *w)
{
	write_type(f, w, "number");
	if (field_max(f)) {
		json_put_milli(w, "minimum", f->min);
		json_put_milli(w, "maximum", field_max(f));
	}
	if (f->fallback)
		json_put_milli(w, "default", field_fallback(f));
}

static void write_element(const struct field *fields, bool answer, struct json_writer *w,
			  const char *key)
{
	if (answer)
		field_write_answer(fields, false, w, key);
	else
		field_write_schema(fields, w, key);
}

static void write_items(const struct field *f, bool answer, struct json_writer *w)
{
	write_type(f, w, "array");
	if (f->max)
		json_put_int(w, "maxItems", f->max);
	if (f->type == FIELD_LIST && !f->other) {
		write_element(f->fields, answer, w, "items");
		return;
	}
	if (f->type == FIELD_LIST) {
		json_begin_object(w, "items");
		json_begin_array(w, "anyOf");
		write_element(f->fields, answer, w, NULL);
		write_element(f->other, answer, w, NULL);
		json_end_array(w);
		json_end_object(w);
		return;
	}
	if (f->type == FIELD_MIXED) {
		json_begin_object(w, "items");
		json_begin_array(w, "oneOf");
		json_begin_object(w, NULL);
		json_put_text(w, "type", "string");
		json_end_object(w);
		field_write_schema(f->fields, w,
				   NULL); /* the stored value is returned as it was sent */
		json_end_array(w);
		json_end_object(w);
		return;
	}
	json_begin_object(w, "items");
	json_put_text(w, "type", "string");
	json_end_object(w);
}

static void write_members(const struct field *fields, bool answer, struct json_writer *w);

static void write_kind(const struct field *f, bool answer, struct json_writer *w)
{
	switch (f->type) {
	case FIELD_INT:
		write_int(f, w);
		break;
	case FIELD_MILLI:
		write_milli(f, w);
		break;
	case FIELD_BOOL:
	case FIELD_LATER_BOOL:
		write_type(f, w, "boolean");
		if (!answer)
			json_put_bool(w, "default", f->fallback != 0);
		break;
	case FIELD_STR:
	case FIELD_NAME:
		write_string(f, w);
		break;
	case FIELD_ENUM:
	case FIELD_LATER_ENUM:
		write_enum(f, w);
		break;
	case FIELD_MAP:
		write_type(f, w, "object");
		json_begin_object(w, "additionalProperties");
		json_put_text(w, "type", "string");
		json_end_object(w);
		break;
	case FIELD_STRINGS:
	case FIELD_MIXED:
	case FIELD_LIST:
		write_items(f, answer, w);
		break;
	case FIELD_OBJECT:
		write_type(f, w, "object");
		write_members(f->fields, answer, w);
		break;
	case FIELD_ANY: /* in replies: any value */
		if (!answer)
			json_put_raw(w, "type", STR_LIT("[\"string\",\"integer\"]"));
		break;
	case FIELD_TIME:
		write_type(f, w, "string");
		json_put_text(w, "format", "date-time");
		break;
	case FIELD_REAL:
		write_type(f, w, "number");
		break;
	case FIELD_FREE:
		write_type(f, w, "object");
		break;
	case FIELD_LATER:
	case FIELD_END:
		break;
	}
}

static void write_one(const struct field *f, bool answer, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	write_kind(f, answer, w);
	if (f->doc)
		json_put_text(w, "description", f->doc);
	if (f->type == FIELD_LATER || f->type == FIELD_LATER_BOOL || f->type == FIELD_LATER_ENUM)
		json_put_bool(w, "x-not-supported-yet", true);
	json_end_object(w);
}

void field_write_one(const struct field *f, struct json_writer *w, const char *key)
{
	write_one(f, false, w, key);
}

/* In a body, the fields that must be sent; in a reply, those that are always present. */
static bool is_required(const struct field *f, bool answer)
{
	return answer ? !f->optional : f->required;
}

static void write_members(const struct field *fields, bool answer, struct json_writer *w)
{
	bool any = false;

	json_begin_object(w, "properties");
	for (const struct field *f = fields; f->type; f++) {
		write_one(f, answer, w, f->name);
		any = any || is_required(f, answer);
	}
	json_end_object(w);
	json_put_bool(w, "additionalProperties", false);
	if (!any)
		return;
	json_begin_array(w, "required");
	for (const struct field *f = fields; f->type; f++)
		if (is_required(f, answer))
			json_put_text(w, NULL, f->name);
	json_end_array(w);
}

static void write_table(const struct field *fields, bool answer, struct json_writer *w,
			const char *key)
{
	json_begin_object(w, key);
	json_put_text(w, "type", "object");
	write_members(fields, answer, w);
	json_end_object(w);
}

void field_write_schema(const struct field *fields, struct json_writer *w, const char *key)
{
	write_table(fields, false, w, key);
}

void field_write_answer(const struct field *fields, bool whole, struct json_writer *w,
			const char *key)
{
	const char *name = whole || !name_of ? NULL : name_of(fields);
	char ref[96];

	if (!name) {
		write_table(fields, true, w, key);
		return;
	}
	(void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", name);
	json_begin_object(w, key);
	json_put_text(w, "$ref", ref);
	json_end_object(w);
}
