/* SPDX-License-Identifier: Apache-2.0 */
/* Percent decoding, exactly once, and lookup in a query string. */
#ifndef CAY_HTTP_MESSAGE_URL_H
#define CAY_HTTP_MESSAGE_URL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

/* Percent-decodes once; rejects NUL. 0, -EINVAL or -ENOMEM. */
int http_decode(struct arena *arena, struct str raw, bool plus_is_space,
		struct str *ret) _must_check_;
/*
 * The value of the first parameter with that (decoded) name, decoded into the arena. 1: found, 0:
 * absent, -EINVAL: a name before it or the value is malformed, -ENOMEM. "+" means a space.
 */
int http_query_get(struct arena *arena, struct str query, const char *name,
		   struct str *ret) _must_check_;
/* Iterates over "a=1&b=2": removes the first pair from *rest, still encoded. False at the end. */
bool http_query_next(struct str *rest, struct str *ret_name, struct str *ret_value);

#endif
