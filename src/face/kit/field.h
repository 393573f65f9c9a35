/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies and queries as tables: one row per field says its name, type, range, default and what it
 * is for. The decoder works from the rows, and so does the OpenAPI document of the REST face.
 */
#ifndef CAY_FACE_KIT_FIELD_H
#define CAY_FACE_KIT_FIELD_H

#include "base/arena.h"
#include "base/json.h"

struct service_config;

enum field_type {
	FIELD_END,
	FIELD_INT, /* int64_t; min..max */
	/* int64_t in thousandths; a number, possibly a fraction; min..max likewise */
	FIELD_MILLI,
	FIELD_BOOL,    /* bool */
	FIELD_STR,     /* struct str; min..max bytes */
	FIELD_NAME,    /* struct str; [a-z0-9][a-z0-9._-]*, at most max */
	FIELD_ENUM,    /* int, index of names */
	FIELD_MAP,     /* struct text_map: an object of strings */
	FIELD_STRINGS, /* struct text_list: an array of strings, at most max */
	FIELD_OBJECT,  /* fields at the same base */
	FIELD_ANY,     /* const struct json *: a string or a number; the handler checks it */
	/*
	 * Known, but for a later version: a value that requests nothing new is accepted, others are
	 * rejected.
	 */
	FIELD_LATER,	  /* null, [] and {} */
	FIELD_LATER_BOOL, /* false */
	FIELD_LATER_ENUM, /* names[0] */
	FIELD_MIXED,	  /* an array of strings or objects, at most max, for read */
	FIELD_LIST,	  /* an array of objects of fields, at most max, likewise */
	/* In replies only. */
	FIELD_TIME,
	FIELD_REAL,
	FIELD_FREE, /* an object of anything */
};

/* Upper bounds that an operator sets; a row that names one has no max. */
enum field_limit {
	FIELD_LIMIT_NONE,
	FIELD_LIMIT_CPU, /* thousandths */
	FIELD_LIMIT_MEMORY,
	FIELD_LIMIT_DISK,
	FIELD_LIMIT_TIMEOUT,
	FIELD_LIMIT_COMMAND, /* the time of one command */
	FIELD_LIMIT_COUNT,
};

/* The flag may be the first member of its struct: an offset of 0 is not the same as none. */
#define FIELD_SENT(offset) ((offset) + 1)

struct field {
	const char *name;
	const char *doc;
	const char *const *names;
	const char *fallback_text; /* FIELD_STR, FIELD_NAME */
	const struct field *fields;
	/* FIELD_MIXED, FIELD_LIST: fills what is at offset. Its memory is from the arena. */
	int (*read)(const struct json *array, struct arena *arena, void *ret, struct err *err);
	const struct field
		*other; /* FIELD_LIST, in replies: elements may have these members instead */
	int64_t min, max;
	int64_t fallback; /* FIELD_INT, FIELD_BOOL, FIELD_ENUM */
	size_t offset;
	size_t sent; /* FIELD_SENT(offset) of a bool that is set when the field was sent; 0: none */
	enum field_type type;
	enum field_limit limit;
	bool required;
	bool nullable; /* in replies */
	bool optional; /* in replies: it may be absent */
};

/* One daemon, one configuration: set before the first request is decoded. */
void field_limits_set(const struct service_config *config);
int64_t field_max(const struct field *f);
int64_t field_fallback(const struct field *f); /* never above the maximum */

/*
 * Fills base (already zeroed) from a parsed object: defaults, then the values sent. Lists are in
 * the arena, which may be NULL for tables without any; texts are views into the object.
 */
int field_decode(const struct field *fields, const struct json *object, const char *path,
		 struct arena *arena, void *base, struct err *err) _must_check_;
/* The same for faces whose clients send members that the face does not know: these are ignored. */
int field_decode_open(const struct field *fields, const struct json *object, struct arena *arena,
		      void *base, struct err *err) _must_check_;
void field_set_defaults(const struct field *fields, void *base);

#endif
