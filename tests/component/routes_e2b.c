/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/call.h"
#include "routes.h"

size_t routes_of_e2b(struct route_row *dst, size_t max)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	size_t n = 0;

	for (; n < e2b_route_count && n < max; n++)
		dst[n] = (struct route_row){ .face = "e2b",
					     .method = methods[e2b_routes[n].method],
					     .pattern = e2b_routes[n].pattern,
					     .scopes = e2b_routes[n].scope,
					     .body = e2b_routes[n].method != HTTP_GET &&
						     e2b_routes[n].method != HTTP_DELETE };
	return n;
}
