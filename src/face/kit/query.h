/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query parameters, one by one or by a field table. Absent parameters leave *ret as it is. All
 * return 0, or -1 with err set.
 */
#ifndef CAY_FACE_KIT_QUERY_H
#define CAY_FACE_KIT_QUERY_H

#include "face/kit/field.h"
#include "http/server/server.h"

int query_int(struct http_req *req, const char *name, int64_t min, int64_t max, int64_t *ret,
	      struct err *err) _must_check_;
int query_text(struct http_req *req, const char *name, struct str *ret,
	       struct err *err) _must_check_;
int query_bool(struct http_req *req, const char *name, bool *ret, struct err *err) _must_check_;
/* All parameters of a table: defaults, then what was sent. The text lives as long as the request.
 */
int query_decode(struct http_req *req, const struct field *fields, void *base,
		 struct err *err) _must_check_;
/* Rejects parameters that the table does not list; also: one more name, or NULL. */
int query_check(struct http_req *req, const struct field *allowed, const char *also,
		struct err *err) _must_check_;

#endif
