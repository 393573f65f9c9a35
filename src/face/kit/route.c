/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/route.h"

#include <stdio.h>

const struct route *route_at(const struct route_table *table, size_t i)
{
	return (const struct route *)(const void *)((const char *)table->first + i * table->stride);
}

static const char *method_name(enum http_method method)
{
	static const char *const names[] = { "GET",   "HEAD",	"POST",	  "PUT",
					     "PATCH", "DELETE", "OPTIONS" };

	return (size_t)method < ARRAY_LEN(names) ? names[method] : "?";
}

/* *ret_odd: the place in the pattern whose segment the table does not accept. */
static bool matches(const struct route_table *table, const char *pattern, struct str path,
		    struct str args[ROUTE_ARGS], const char **ret_odd)
{
	size_t at = 0, taken = 0;

	*ret_odd = NULL;
	while (*pattern) {
		if (*pattern != '{') {
			if (at >= path.n || path.p[at] != *pattern)
				return false;
			pattern++;
			at++;
			continue;
		}
		struct str segment = { path.p + at, 0 };

		while (at < path.n && path.p[at] != '/') {
			at++;
			segment.n++;
		}
		if (segment.n == 0 || (table->segment_ok && !table->segment_ok(segment)))
			*ret_odd = pattern;
		if (taken < ROUTE_ARGS)
			args[taken++] = segment;
		pattern = strchr(pattern, '}') + 1;
	}
	return at == path.n;
}

static void add_method(const struct route_table *table, enum http_method method,
		       char allow[ROUTE_ALLOW_MAX])
{
	size_t n = strlen(allow);

	(void)snprintf(allow + n, ROUTE_ALLOW_MAX - n, "%s%s%s", n ? ", " : "", method_name(method),
		       table->head && method == HTTP_GET ? ", HEAD" : "");
}

void route_find(const struct route_table *table, enum http_method method, struct str path,
		struct route_match *ret)
{
	if (table->head && method == HTTP_HEAD)
		method = HTTP_GET;
	*ret = (struct route_match){ .row = NULL };
	for (size_t i = 0; i < table->count; i++) {
		const struct route *row = route_at(table, i);
		struct str args[ROUTE_ARGS] = { { NULL, 0 } };
		const char *odd;

		if (!matches(table, row->pattern, path, args, &odd))
			continue;
		if (odd) {
			/* A name is explained to the caller; ids that cannot be one do not exist.
			 */
			if (!ret->odd || str_starts(str_of(odd), "{name}"))
				ret->odd = odd;
			continue;
		}
		if (row->method == method) {
			ret->row = row;
			ret->index = i;
			memcpy(ret->args, args, sizeof(args));
			return;
		}
		add_method(table, row->method, ret->allow);
	}
}
