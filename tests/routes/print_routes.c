/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints every route of every face, one per line: FACE METHOD PATTERN SCOPES. SCOPES are separated
 * by commas; "any" stands for any key, "token" for the token of one sandbox, "open" for neither.
 */
#include <stdio.h>

#include "face/e2b/e2b.h"
#include "face/kit/route.h"
#include "face/rest/rest.h"

static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };

static void print_scopes(const struct route *row)
{
	const char *sep = "";

	if (row->flags & ROUTE_OPEN) {
		(void)fputs("open", stdout);
		return;
	}
	if (row->flags & ROUTE_TOKEN) {
		(void)fputs("token", stdout);
		return;
	}
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		if (row->scope >> i & 1) {
			printf("%s%s", sep, auth_scope_names[i]);
			sep = ",";
		}
	if (!*sep)
		(void)fputs("any", stdout);
}

static void print_table(const struct route_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct route *row = route_at(table, i);

		printf("%s %s %s ", table->face, methods[row->method], row->pattern);
		print_scopes(row);
		(void)putchar('\n');
	}
}

int main(void)
{
	print_table(&rest_route_table);
	for (size_t i = 0; e2b_route_tables[i]; i++)
		print_table(e2b_route_tables[i]);
	return 0;
}
