/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest/openapi: macros for the tables of schema*.c. */
#ifndef CAY_FACE_REST_OPENAPI_SCHEMA_H
#define CAY_FACE_REST_OPENAPI_SCHEMA_H

#include "face/rest/call.h"

#define STRING(n, d)                                       \
	{                                                  \
		.name = (n), .type = FIELD_STR, .doc = (d) \
	}
#define MAYBE(n, t, d)                                                       \
	{                                                                    \
		.name = (n), .type = FIELD_##t, .doc = (d), .nullable = true \
	}
#define PART(n, t, d)                                                        \
	{                                                                    \
		.name = (n), .type = FIELD_##t, .doc = (d), .optional = true \
	}
#define INTEGER(n, d)                                      \
	{                                                  \
		.name = (n), .type = FIELD_INT, .doc = (d) \
	}
#define FLAG(n, d)                                          \
	{                                                   \
		.name = (n), .type = FIELD_BOOL, .doc = (d) \
	}
#define NEXT_CURSOR                                                                  \
	{                                                                            \
		.name = "next_cursor", .type = FIELD_STR, .nullable = true,          \
		.doc = "null at the end; else the value of cursor for the next page" \
	}
#define LIST_OF(fields_)                                                             \
	{ .name = "data", .type = FIELD_LIST, .fields = (fields_) },                 \
	{                                                                            \
		.name = "next_cursor", .type = FIELD_STR, .nullable = true,          \
		.doc = "null at the end; else the value of cursor for the next page" \
	}

#endif
