/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: field tables as JSON Schema, for the OpenAPI document. */
#ifndef CAY_FACE_REST_OPENAPI_FIELD_SCHEMA_H
#define CAY_FACE_REST_OPENAPI_FIELD_SCHEMA_H

#include "face/kit/field.h"

/* One row as JSON Schema under key. */
void field_write_one(const struct field *f, struct json_writer *w, const char *key);
/* A JSON Schema of a body's table, as one object under key. */
void field_write_schema(const struct field *fields, struct json_writer *w, const char *key);
/* The same for a reply: members are present unless they are optional. A table with a name
 * becomes a reference; whole: it is written in full. */
void field_write_answer(const struct field *fields, bool whole, struct json_writer *w,
			const char *key);
/* The name of a table among the components; NULL: it has none. Without names, every table is
 * written where it is used. */
void field_names_set(const char *(*name_of)(const struct field *fields));

#endif
