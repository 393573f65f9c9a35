/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/call.h"
#include "routes.h"

size_t routes_of_rest(struct route_row *dst, size_t max)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	size_t n = 0;

	for (; n < rest_route_count && n < max; n++)
		dst[n] = (struct route_row){ .face = "rest",
					     .method = methods[rest_routes[n].method],
					     .pattern = rest_routes[n].pattern,
					     .scopes = rest_routes[n].scope,
					     .open = rest_routes[n].open,
					     .body = rest_routes[n].body != NULL };
	return n;
}
