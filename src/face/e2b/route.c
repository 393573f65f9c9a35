/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of the control plane, and the list of all tables. Routes that E2B has and this
 * daemon does not support are listed too, so that clients get a clear error. */
#include "face/e2b/call.h"
#include "face/e2b/e2b.h"

#define ENTER E2B_ENTER
#define READ AUTH_SANDBOXES_READ
#define WRITE AUTH_SANDBOXES_WRITE
#define TEMPLATES AUTH_TEMPLATES_READ

static void e2b_not_here(struct e2b_call *call)
{
	struct str path = call->req->path;

	e2b_answer_status(call, 501, "%.*s %.*s is not supported by this server",
			  (int)MIN(call->req->method_name.n, 16), call->req->method_name.p,
			  (int)MIN(path.n, 100), path.p);
}

static const struct e2b_route routes[] = {
	{ ROUTE(POST, "/v2/sandboxes", ENTER), e2b_sandboxes_create, .arg = 2 },
	{ ROUTE(POST, "/sandboxes", ENTER), e2b_sandboxes_create, .arg = 1 },
	{ ROUTE(GET, "/v2/sandboxes", READ), e2b_sandboxes_list, .arg = 2 },
	{ ROUTE(GET, "/sandboxes", READ), e2b_sandboxes_list, .arg = 1 },
	{ ROUTE(GET, "/sandboxes/metrics", READ), e2b_metrics_of_many },
	{ ROUTE(GET, "/sandboxes/{id}", READ), e2b_sandboxes_get },
	{ ROUTE(GET, "/v2/sandboxes/{id}", READ), e2b_sandboxes_get },
	{ ROUTE(DELETE, "/sandboxes/{id}", WRITE), e2b_sandboxes_kill },
	{ ROUTE(POST, "/v2/sandboxes/{id}/connect", ENTER), e2b_life_connect },
	{ ROUTE(POST, "/sandboxes/{id}/connect", ENTER), e2b_life_connect },
	{ ROUTE(POST, "/sandboxes/{id}/resume", ENTER), e2b_life_resume },
	{ ROUTE(POST, "/sandboxes/{id}/pause", WRITE), e2b_life_pause },
	{ ROUTE(POST, "/sandboxes/{id}/timeout", WRITE), e2b_sandboxes_timeout },
	{ ROUTE(POST, "/sandboxes/{id}/refreshes", WRITE), e2b_sandboxes_timeout, .arg = 1 },
	{ ROUTE(GET, "/sandboxes/{id}/metrics", READ), e2b_metrics_of_one },
	{ ROUTE(PUT, "/sandboxes/{id}/network", WRITE), e2b_sandboxes_network },
	{ ROUTE(POST, "/sandboxes/{id}/snapshots", WRITE), e2b_snapshots_create },
	{ ROUTE(POST, "/sandboxes/{id}/fork", ENTER), e2b_life_fork },
	{ ROUTE(GET, "/v2/sandboxes/{id}/logs", READ), e2b_logs_read, .arg = 2 },
	{ ROUTE(GET, "/sandboxes/{id}/logs", READ), e2b_logs_read, .arg = 1 },
	{ ROUTE(GET, "/snapshots", READ), e2b_snapshots_list },

	{ ROUTE(GET, "/templates/aliases/{alias}", TEMPLATES), e2b_templates_alias },
	{ ROUTE(GET, "/templates/{id}/tags", TEMPLATES), e2b_templates_tags },
	{ ROUTE(GET, "/templates", TEMPLATES), e2b_templates_list },
	{ ROUTE(GET, "/v2/templates", TEMPLATES), e2b_templates_list },
	{ ROUTE(POST, "/templates/tags", TEMPLATES), e2b_not_here },
	{ ROUTE(DELETE, "/templates/tags", TEMPLATES), e2b_not_here },
	{ ROUTE(GET, "/templates/{id}", TEMPLATES), e2b_templates_get },
	{ ROUTE(DELETE, "/templates/{id}", WRITE), e2b_templates_delete },
	{ ROUTE(POST, "/v3/templates", AUTH_TEMPLATES_WRITE), e2b_not_here },
	{ ROUTE(POST, "/v2/templates", AUTH_TEMPLATES_WRITE), e2b_not_here },
	{ ROUTE(POST, "/templates", AUTH_TEMPLATES_WRITE), e2b_not_here },
	{ ROUTE(POST, "/v2/templates/{id}/builds/{build}", AUTH_TEMPLATES_WRITE), e2b_not_here },
	{ ROUTE(GET, "/templates/{id}/builds/{build}/status", TEMPLATES), e2b_not_here },
	{ ROUTE(GET, "/templates/{id}/files/{hash}", TEMPLATES), e2b_not_here },
	{ ROUTE(PATCH, "/v2/templates/{id}", AUTH_TEMPLATES_WRITE), e2b_not_here },

	{ ROUTE(GET, "/secrets", AUTH_SECRETS), e2b_secrets_list },
	{ ROUTE(POST, "/secrets", AUTH_SECRETS), e2b_secrets_create },
	{ ROUTE(GET, "/secrets/{id}", AUTH_SECRETS), e2b_secrets_get },
	{ ROUTE(POST, "/secrets/{id}", AUTH_SECRETS), e2b_secrets_update },
	{ ROUTE(DELETE, "/secrets/{id}", AUTH_SECRETS), e2b_secrets_delete },
	{ ROUTE(GET, "/volumes", AUTH_ANY), e2b_not_here },
	{ ROUTE(POST, "/volumes", AUTH_ANY), e2b_not_here },
	{ ROUTE(GET, "/volumes/{id}", AUTH_ANY), e2b_not_here },
	{ ROUTE(DELETE, "/volumes/{id}", AUTH_ANY), e2b_not_here },
};

const struct route_table e2b_control_table = { .face = "e2b", ROUTE_ROWS(routes) };
const struct route_table *const e2b_route_tables[] = { &e2b_control_table, &e2b_procedure_table,
						       &e2b_plain_table, &e2b_code_table, NULL };

const struct e2b_route *e2b_route_find(const struct route_table *table, struct e2b_call *call,
				       bool *ret_known)
{
	struct route_match match;

	route_find(table, call->req->method, call->req->path, &match);
	*ret_known = match.row || match.allow[0];
	if (!match.row)
		return NULL;
	memcpy(call->args, match.args, sizeof(call->args));
	static_assert(offsetof(struct e2b_route, row) == 0, "a row can be cast to its route");
	return (const struct e2b_route *)(const void *)match.row;
}
