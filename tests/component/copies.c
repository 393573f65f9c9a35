/* SPDX-License-Identifier: Apache-2.0 */
#include "copies.h"

char snapshot[64];

void take(const char *body)
{
	struct answer *a = post("/snapshots", body);

	expect_status(a, 201);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
}

size_t listed(const char *path)
{
	return json_size(member(call("GET", path, NULL)->doc, "data"));
}

struct answer *look(void)
{
	return call("GET", path_of("/v1/sandboxes/%s", sandbox), NULL);
}

void destroy(void)
{
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL), 204);
	world_turns(20);
}

struct answer *restore(const char *id)
{
	return post("/restore", path_of("{\"snapshot_id\":\"%s\"}", id));
}

struct answer *take_away(const char *id)
{
	return call("DELETE", path_of("/v1/snapshots/%s", id), NULL);
}

void expect_works(void)
{
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
}
