/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of the control plane. What E2B has and the product has not is here too, so that a
 * client is told so instead of seeing something else. */
#include "face/e2b/call.h"

/* Whoever gets a token of a sandbox can do everything inside. */
#define ENTER (AUTH_SANDBOXES_WRITE | AUTH_EXEC)
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

const struct e2b_route e2b_routes[] = {
	{ HTTP_POST, "/v2/sandboxes", ENTER, e2b_sandboxes_create, 2 },
	{ HTTP_POST, "/sandboxes", ENTER, e2b_sandboxes_create, 1 },
	{ HTTP_GET, "/v2/sandboxes", READ, e2b_sandboxes_list, 2 },
	{ HTTP_GET, "/sandboxes", READ, e2b_sandboxes_list, 1 },
	{ HTTP_GET, "/sandboxes/metrics", READ, e2b_metrics_of_many, 0 },
	{ HTTP_GET, "/sandboxes/{id}", READ, e2b_sandboxes_get, 0 },
	{ HTTP_GET, "/v2/sandboxes/{id}", READ, e2b_sandboxes_get, 0 },
	{ HTTP_DELETE, "/sandboxes/{id}", WRITE, e2b_sandboxes_kill, 0 },
	{ HTTP_POST, "/v2/sandboxes/{id}/connect", ENTER, e2b_life_connect, 0 },
	{ HTTP_POST, "/sandboxes/{id}/connect", ENTER, e2b_life_connect, 0 },
	{ HTTP_POST, "/sandboxes/{id}/resume", ENTER, e2b_life_resume, 0 },
	{ HTTP_POST, "/sandboxes/{id}/pause", WRITE, e2b_life_pause, 0 },
	{ HTTP_POST, "/sandboxes/{id}/timeout", WRITE, e2b_sandboxes_timeout, 0 },
	{ HTTP_POST, "/sandboxes/{id}/refreshes", WRITE, e2b_sandboxes_timeout, 1 },
	{ HTTP_GET, "/sandboxes/{id}/metrics", READ, e2b_metrics_of_one, 0 },
	{ HTTP_PUT, "/sandboxes/{id}/network", WRITE, e2b_sandboxes_network, 0 },
	{ HTTP_POST, "/sandboxes/{id}/snapshots", WRITE, e2b_snapshots_create, 0 },
	{ HTTP_POST, "/sandboxes/{id}/fork", ENTER, e2b_life_fork, 0 },
	{ HTTP_GET, "/v2/sandboxes/{id}/logs", READ, e2b_logs_read, 2 },
	{ HTTP_GET, "/sandboxes/{id}/logs", READ, e2b_logs_read, 1 },
	{ HTTP_GET, "/snapshots", READ, e2b_snapshots_list, 0 },

	{ HTTP_GET, "/templates/aliases/{alias}", TEMPLATES, e2b_templates_alias, 0 },
	{ HTTP_GET, "/templates/{id}/tags", TEMPLATES, e2b_templates_tags, 0 },
	{ HTTP_GET, "/templates", TEMPLATES, e2b_templates_list, 0 },
	{ HTTP_GET, "/v2/templates", TEMPLATES, e2b_templates_list, 0 },
	{ HTTP_POST, "/templates/tags", TEMPLATES, e2b_not_here, 0 },
	{ HTTP_DELETE, "/templates/tags", TEMPLATES, e2b_not_here, 0 },
	{ HTTP_GET, "/templates/{id}", TEMPLATES, e2b_templates_get, 0 },
	{ HTTP_DELETE, "/templates/{id}", WRITE, e2b_templates_delete, 0 },
	{ HTTP_POST, "/v3/templates", AUTH_TEMPLATES_WRITE, e2b_not_here, 0 },
	{ HTTP_POST, "/v2/templates", AUTH_TEMPLATES_WRITE, e2b_not_here, 0 },
	{ HTTP_POST, "/templates", AUTH_TEMPLATES_WRITE, e2b_not_here, 0 },
	{ HTTP_POST, "/v2/templates/{id}/builds/{build}", AUTH_TEMPLATES_WRITE, e2b_not_here, 0 },
	{ HTTP_GET, "/templates/{id}/builds/{build}/status", TEMPLATES, e2b_not_here, 0 },
	{ HTTP_GET, "/templates/{id}/files/{hash}", TEMPLATES, e2b_not_here, 0 },
	{ HTTP_PATCH, "/v2/templates/{id}", AUTH_TEMPLATES_WRITE, e2b_not_here, 0 },

	{ HTTP_GET, "/secrets", AUTH_SECRETS, e2b_secrets_list, 0 },
	{ HTTP_POST, "/secrets", AUTH_SECRETS, e2b_secrets_create, 0 },
	{ HTTP_GET, "/secrets/{id}", AUTH_SECRETS, e2b_secrets_get, 0 },
	{ HTTP_POST, "/secrets/{id}", AUTH_SECRETS, e2b_secrets_update, 0 },
	{ HTTP_DELETE, "/secrets/{id}", AUTH_SECRETS, e2b_secrets_delete, 0 },
	{ HTTP_GET, "/volumes", AUTH_ANY, e2b_not_here, 0 },
	{ HTTP_POST, "/volumes", AUTH_ANY, e2b_not_here, 0 },
	{ HTTP_GET, "/volumes/{id}", AUTH_ANY, e2b_not_here, 0 },
	{ HTTP_DELETE, "/volumes/{id}", AUTH_ANY, e2b_not_here, 0 },
};
const size_t e2b_route_count = ARRAY_LEN(e2b_routes);
