/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON. The parser is strict: it rejects duplicate keys, invalid UTF-8, deep nesting and trailing
 * bytes. A reader walks one object and remembers which members were read, so that it can reject
 * unknown ones by name. The writer appends to a struct buf. Only json.c uses jansson.
 *
 * Called by faces, the store's users and the CLI. json_parse() returns a document that the caller
 * owns; all values read from it are views that live as long as it.
 */
#ifndef CAY_BASE_JSON_H
#define CAY_BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"

struct json; /* an owned document, or a borrowed part of one */

/* Parses one document, which must be an object or array. On failure err names the position. */
struct json *json_parse(struct str text, struct err *err) _must_check_;
void json_free(struct json *doc); /* roots only; NULL is allowed */
void json_freep(struct json **doc);
#define _cleanup_json_ _cleanup_(json_freep)

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_type json_type(const struct json *value);
size_t json_size(const struct json *value); /* members or elements */
const struct json *json_at(const struct json *array, size_t i);
struct str json_str(const struct json *value); /* value of a string; may contain NUL bytes */
int64_t json_int(const struct json *value);
double json_number(const struct json *value); /* value of an integer or a real */
bool json_bool(const struct json *value);
/*
 * Iterates over the members of an object in document order. Start with *it = NULL; returns false at
 * the end.
 */
bool json_next(const struct json *object, void **it, const char **ret_key,
	       const struct json **ret_value);

/*
 * Typed reader of one object. The first problem is kept in ->err (with the field's name and range),
 * and later reads do nothing, so a decoder is a list of reads and one check at the end. An absent
 * member leaves *ret unchanged: set the default first.
 */
struct json_reader {
	const struct json *object;
	const char *path; /* prefix for messages, "" at the root */
	struct err *err;
	bool failed;
	uint64_t seen; /* members read, by position: at most 64 members are accepted */
};

void json_reader_init(struct json_reader *r, const struct json *object, const char *path,
		      struct err *err);
const struct json *json_read(struct json_reader *r,
			     const char *key); /* any type; NULL when absent or null */
void json_read_int(struct json_reader *r, const char *key, int64_t min, int64_t max, int64_t *ret);
/* A number in thousandths: 0.5 is read as 500. min and max are in thousandths, too. */
void json_read_milli(struct json_reader *r, const char *key, int64_t min, int64_t max,
		     int64_t *ret);
void json_read_bool(struct json_reader *r, const char *key, bool *ret);
/*
 * A string without NUL bytes, between min and max bytes long. The view lives as long as the
 * document.
 */
void json_read_str(struct json_reader *r, const char *key, size_t min, size_t max, struct str *ret);
/* One of names[] (NULL-terminated); *ret is its index. */
void json_read_enum(struct json_reader *r, const char *key, const char *const *names, int *ret);
const struct json *json_read_object(struct json_reader *r, const char *key);
const struct json *json_read_array(struct json_reader *r, const char *key, size_t max);
/* Rejects members that were not read. Returns 0, or -1 with err set. */
int json_reader_end(struct json_reader *r) _must_check_;

/* The writer. The first error (limit reached) is kept; json_writer_end() returns it. */
struct json_writer {
	struct buf *out;
	int error;
	int depth;
	bool comma;
};

void json_writer_init(struct json_writer *w, struct buf *out);
void json_begin_object(struct json_writer *w,
		       const char *key); /* key NULL in arrays and at the root */
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w, const char *key);
void json_end_array(struct json_writer *w);
void json_put_str(struct json_writer *w, const char *key,
		  struct str value); /* invalid UTF-8 becomes U+FFFD */
void json_put_text(struct json_writer *w, const char *key,
		   const char *value); /* NULL writes null */
void json_put_int(struct json_writer *w, const char *key, int64_t value);
void json_put_real(struct json_writer *w, const char *key, double value);
/* A number given in thousandths; written as an integer if it is whole. */
void json_put_milli(struct json_writer *w, const char *key, int64_t milli);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_null(struct json_writer *w, const char *key);
void json_put_time(struct json_writer *w, const char *key, int64_t real_ms); /* <= 0 writes null */
void json_put_b64(struct json_writer *w, const char *key, struct str bytes);
void json_put_value(struct json_writer *w, const char *key, const struct json *value);
void json_put_raw(struct json_writer *w, const char *key, struct str json); /* already JSON */
int json_writer_end(struct json_writer *w) _must_check_;		    /* 0 or -errno */

#endif
