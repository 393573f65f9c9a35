/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/query.h"

#include <stdio.h>

static int malformed(const char *name, struct err *err)
{
	return err_set(err, ERR_INVALID_REQUEST, "query parameter %s is malformed", name);
}

int query_text(struct http_req *req, const char *name, struct str *ret, struct err *err)
{
	int r = http_req_query(req, name, ret);

	return r < 0 ? malformed(name, err) : 0;
}

int query_int(struct http_req *req, const char *name, int64_t min, int64_t max, int64_t *ret,
	      struct err *err)
{
	struct str text = { NULL, 0 };
	uint64_t value = 0;
	int r = http_req_query(req, name, &text);

	if (r < 0)
		return malformed(name, err);
	if (r == 0)
		return 0;
	if (str_to_u64(text, (uint64_t)max, &value) < 0 || (int64_t)value < min)
		return err_set(err, ERR_INVALID_REQUEST, "%s must be an integer of %lld to %lld",
			       name, (long long)min, (long long)max);
	*ret = (int64_t)value;
	return 0;
}

int query_bool(struct http_req *req, const char *name, bool *ret, struct err *err)
{
	struct str text = { NULL, 0 };

	if (query_text(req, name, &text, err) < 0)
		return -1;
	if (!text.p)
		return 0;
	*ret = str_is(text, "true") || str_is(text, "1");
	if (*ret || str_is(text, "false") || str_is(text, "0"))
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "%s must be true or false", name);
}

static int decode_int(const struct field *f, struct str text, int64_t *ret, struct err *err)
{
	bool minus = text.n && text.p[0] == '-';
	struct str digits = minus ? (struct str){ text.p + 1, text.n - 1 } : text;
	uint64_t value = 0;
	int64_t number;
	int r = str_to_u64(digits, INT64_MAX, &value);

	number = minus ? -(int64_t)value : (int64_t)value;
	if (r < 0 || number < f->min || number > f->max)
		return err_set(err, ERR_INVALID_REQUEST, "%s must be an integer of %lld to %lld",
			       f->name, (long long)f->min, (long long)f->max);
	*ret = number;
	return 0;
}

static int decode_enum(const struct field *f, struct str text, int *ret, struct err *err)
{
	char all[128] = "";

	for (int i = 0; f->names[i]; i++) {
		size_t n = strlen(all);

		if (str_is(text, f->names[i])) {
			*ret = i;
			return 0;
		}
		(void)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "", f->names[i]);
	}
	return err_set(err, ERR_INVALID_REQUEST, "%s must be one of: %s", f->name, all);
}

static int decode_one(struct http_req *req, const struct field *f, void *at, struct err *err)
{
	struct str text = { NULL, 0 };

	if (f->type == FIELD_BOOL)
		return query_bool(req, f->name, at, err);
	if (query_text(req, f->name, &text, err) < 0)
		return -1;
	if (!text.p)
		return f->required ? err_set(err, ERR_INVALID_REQUEST, "%s is required", f->name)
				   : 0;
	if (f->type == FIELD_INT)
		return decode_int(f, text, at, err);
	if (f->type == FIELD_ENUM)
		return decode_enum(f, text, at, err);
	if (text.n < (size_t)f->min || text.n > (size_t)f->max)
		return err_set(err, ERR_INVALID_REQUEST, "%s must have %lld to %lld bytes", f->name,
			       (long long)f->min, (long long)f->max);
	*(struct str *)at = text;
	return 0;
}

int query_decode(struct http_req *req, const struct field *fields, void *base, struct err *err)
{
	field_set_defaults(fields, base);
	for (const struct field *f = fields; f->type; f++)
		if (decode_one(req, f, (char *)base + f->offset, err) < 0)
			return -1;
	return 0;
}

/* A row whose name ends in '.' allows every name with that prefix. */
static bool allows(const struct field *allowed, struct str name)
{
	for (const struct field *f = allowed; f && f->type; f++) {
		size_t n = strlen(f->name);

		if (str_is(name, f->name))
			return true;
		if (f->name[n - 1] == '.' && name.n > n && str_starts(name, f->name))
			return true;
	}
	return false;
}

int query_check(struct http_req *req, const struct field *allowed, const char *also,
		struct err *err)
{
	struct str rest = req->query, name, value, decoded;

	while (http_query_next(&rest, &name, &value)) {
		if (http_decode(req->arena, name, true, &decoded) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "the query is malformed");
		if (!allows(allowed, decoded) && !(also && str_is(decoded, also)))
			return err_set(err, ERR_INVALID_REQUEST, "unknown query parameter '%.*s'",
				       (int)MIN(decoded.n, 64), decoded.p);
	}
	return 0;
}
