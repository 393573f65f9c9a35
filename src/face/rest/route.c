/* SPDX-License-Identifier: Apache-2.0 */
/* The one route table: dispatch, scopes and the OpenAPI document come from it. */
#include <stdio.h>

#include "face/rest/call.h"
#include "face/rest/files/files.h"

#define SB "/v1/sandboxes/{id}"
#define PR SB "/processes/{pid}"
#define FI SB "/files"
#define WH "/v1/webhooks/{id}"
#define LATER(verb, path, need)                                                \
	{                                                                      \
		.method = HTTP_##verb, .pattern = (path), .scope = AUTH_##need \
	}

const struct route rest_routes[] = {
	/* The hot ones first: matching goes from the top. */
	{ HTTP_POST, SB "/exec", AUTH_EXEC, exec_run, "Run a command and wait until it ends",
	  .body = exec_fields, .example = "{\"command\":\"ls -l\"}", .answer = exec_answer,
	  .body_limit = EXEC_BODY_LIMIT, .status = 200, .ready = true },
	{ HTTP_POST, "/v1/sandboxes", AUTH_SANDBOXES_WRITE, sandboxes_create,
	  "Create a sandbox; with count, several, and the reply is a list of sandboxes and errors",
	  .body = sandbox_create_fields, .answer = sandbox_answer, .other = fork_answer,
	  .status = 201, .example = "{\"template\":\"base\",\"timeout_sec\":600}" },
	{ HTTP_GET, SB, AUTH_SANDBOXES_READ, sandboxes_get, "Get a sandbox",
	  .answer = sandbox_answer, .status = 200 },
	{ HTTP_DELETE, SB, AUTH_SANDBOXES_WRITE, sandboxes_delete, "Destroy a sandbox",
	  .status = 204 },
	{ HTTP_GET, "/v1/sandboxes", AUTH_SANDBOXES_READ, sandboxes_list,
	  "List the sandboxes, newest first", .query = sandbox_list_query,
	  .answer = sandbox_list_answer, .status = 200 },
	{ HTTP_PATCH, SB, AUTH_SANDBOXES_WRITE, sandboxes_patch,
	  "Change the name, metadata, timeouts, network or secrets", .body = sandbox_patch_fields,
	  .answer = sandbox_answer, .status = 200 },
	{ HTTP_POST, SB "/extend", AUTH_SANDBOXES_WRITE, sandboxes_extend, "Restart the timeout",
	  .body = sandbox_extend_fields, .answer = sandbox_answer, .status = 200 },
	{ HTTP_POST, SB "/pause", AUTH_SANDBOXES_WRITE, life_pause, "Freeze or hibernate a sandbox",
	  .body = pause_fields, .answer = sandbox_answer, .status = 200 },
	{ HTTP_POST, SB "/resume", AUTH_SANDBOXES_WRITE, life_resume, "Resume a paused sandbox",
	  .body = resume_fields, .answer = sandbox_answer, .status = 200 },
	{ HTTP_POST, SB "/snapshots", AUTH_SANDBOXES_WRITE, snapshots_create,
	  "Take a snapshot of its files and, with memory, its processes", .body = snapshot_fields,
	  .answer = snapshot_answer, .status = 201 },
	{ HTTP_GET, SB "/snapshots", AUTH_SANDBOXES_READ, snapshots_of_sandbox,
	  "List the snapshots of a sandbox, newest first", .query = page_query,
	  .answer = snapshot_list_answer, .status = 200 },
	{ HTTP_POST, SB "/restore", AUTH_SANDBOXES_WRITE, snapshots_restore,
	  "Return a sandbox to a snapshot; running processes end", .body = restore_fields,
	  .answer = sandbox_answer, .status = 200 },
	{ HTTP_POST, SB "/fork", AUTH_SANDBOXES_WRITE, snapshots_fork,
	  "Create sandboxes with its files; each entry of the reply is a sandbox or an object with "
	  "error",
	  .body = fork_fields, .answer = fork_answer, .status = 201 },
	{ HTTP_GET, "/v1/snapshots", AUTH_SANDBOXES_READ, snapshots_list,
	  "List all snapshots, newest first", .query = snapshot_list_query,
	  .answer = snapshot_list_answer, .status = 200 },
	{ HTTP_GET, "/v1/snapshots/{id}", AUTH_SANDBOXES_READ, snapshots_get, "Get a snapshot",
	  .answer = snapshot_answer, .status = 200 },
	{ HTTP_DELETE, "/v1/snapshots/{id}", AUTH_SANDBOXES_WRITE, snapshots_delete,
	  "Delete a snapshot; sandboxes made from it stay", .status = 204 },
	{ HTTP_GET, SB "/ports", AUTH_SANDBOXES_READ, ports_list, "List the listening TCP ports",
	  .answer = port_list_answer, .status = 200, .ready = true },
	{ HTTP_POST, SB "/previews", AUTH_SANDBOXES_WRITE, previews_create,
	  "Create a preview of a port, or change an existing one", .body = preview_fields,
	  .answer = preview_answer, .status = 201 },
	{ HTTP_GET, SB "/previews", AUTH_SANDBOXES_READ, previews_list,
	  "List the previews of a sandbox, oldest first", .answer = preview_list_answer,
	  .status = 200 },
	{ HTTP_GET, SB "/previews/{pid}", AUTH_SANDBOXES_READ, previews_get, "Get a preview",
	  .answer = preview_answer, .status = 200 },
	{ HTTP_DELETE, SB "/previews/{pid}", AUTH_SANDBOXES_WRITE, previews_delete,
	  "Delete a preview and its share tokens", .status = 204 },
	{ HTTP_POST, SB "/previews/{pid}/share", AUTH_SANDBOXES_WRITE, previews_share,
	  "Create a share token, which is shown once", .body = share_fields, .answer = share_answer,
	  .status = 201, .secret = true },
	{ HTTP_DELETE, SB "/previews/{pid}/share", AUTH_SANDBOXES_WRITE, previews_unshare,
	  "Revoke all share tokens of a preview", .status = 204 },
	{ HTTP_GET, SB "/env", AUTH_SANDBOXES_READ, sandboxes_env,
	  "Get the environment of every command", .answer = env_answer, .status = 200 },
	{ HTTP_GET, SB "/denials", AUTH_SANDBOXES_READ, sandboxes_denials,
	  "List refused connections, newest first", .answer = denial_list_answer, .status = 200 },
	{ HTTP_GET, SB "/metrics", AUTH_SANDBOXES_READ, sandboxes_metrics, "Get what it uses now",
	  .answer = metrics_answer, .status = 200 },
	{ HTTP_POST, SB "/exec/stream", AUTH_EXEC, exec_stream,
	  "Run a command and stream the events started, stdout, stderr, gap and exit",
	  .body = stream_fields, .answer = stream_answer, .media = "text/event-stream",
	  .body_limit = EXEC_BODY_LIMIT, .status = 200, .ready = true },
	{ HTTP_POST, SB "/processes", AUTH_EXEC, processes_create,
	  "Start a process without waiting for it", .body = process_fields,
	  .answer = process_answer, .body_limit = EXEC_BODY_LIMIT, .status = 201, .ready = true },
	{ HTTP_GET, SB "/processes", AUTH_EXEC, processes_list,
	  "List running and recently ended processes, oldest first", .answer = process_list_answer,
	  .status = 200, .ready = true },
	{ HTTP_GET, PR, AUTH_EXEC, processes_get, "Get a process by its process_id or name",
	  .answer = process_answer, .status = 200, .ready = true },
	{ HTTP_DELETE, PR, AUTH_EXEC, processes_delete,
	  "End a process with TERM, after 5 s with KILL, and remove it from the list",
	  .status = 204, .ready = true, .process = true },
	{ HTTP_GET, PR "/output", AUTH_EXEC, output_read,
	  "Read its output from a byte cursor on, optionally live, as the events of exec/stream",
	  .query = output_query, .answer = stream_answer, .page = output_answer,
	  .media = "text/event-stream", .status = 200, .ready = true },
	{ HTTP_POST, PR "/stdin", AUTH_EXEC, processes_stdin, "Write to its standard input",
	  .body = input_fields, .body_limit = EXEC_BODY_LIMIT, .raw = true, .status = 204,
	  .ready = true, .process = true },
	{ HTTP_POST, PR "/close-stdin", AUTH_EXEC, processes_close_stdin,
	  "Close its standard input", .body = empty_fields, .status = 204, .ready = true,
	  .process = true },
	{ HTTP_POST, PR "/signal", AUTH_EXEC, processes_signal, "Send a signal to its group",
	  .body = signal_fields, .status = 204, .ready = true, .process = true },
	{ HTTP_POST, PR "/resize", AUTH_EXEC, processes_resize, "Change the size of its terminal",
	  .body = resize_fields, .status = 204, .ready = true, .process = true },
	{ HTTP_GET, PR "/attach", AUTH_EXEC, terminal_attach,
	  "WebSocket to a process; binary frames are bytes, text frames are JSON",
	  .query = attach_query, .status = 101, .socket = true, .ready = true },
	{ HTTP_GET, SB "/pty", AUTH_EXEC, terminal_pty,
	  "WebSocket to a new shell with a terminal; the process continues when the client "
	  "disconnects",
	  .query = pty_query, .status = 101, .socket = true, .ready = true },
	{ HTTP_GET, SB "/windows", AUTH_EXEC, windows_list, "List the windows, oldest first",
	  .answer = window_list_answer, .status = 200, .ready = true },
	{ HTTP_POST, SB "/windows/{name}/run", AUTH_EXEC, windows_run,
	  "Run a command in a named shell that stays; created on first use",
	  .body = window_run_fields, .answer = window_run_answer, .status = 200, .ready = true },
	{ HTTP_GET, SB "/windows/{name}", AUTH_EXEC, windows_read,
	  "Get a window and its output from a cursor on", .query = window_query,
	  .answer = window_read_answer, .status = 200, .ready = true },
	{ HTTP_POST, SB "/windows/{name}/input", AUTH_EXEC, windows_input,
	  "Type into the running command of a window", .body = input_fields,
	  .body_limit = EXEC_BODY_LIMIT, .raw = true, .status = 204, .ready = true },
	{ HTTP_DELETE, SB "/windows/{name}", AUTH_EXEC, windows_delete, "Close a window",
	  .status = 204, .ready = true },
	{ HTTP_POST, SB "/code", AUTH_EXEC, code_execute,
	  "Run code in a context that keeps its state, and wait for the result",
	  .body = code_fields, .body_limit = CODE_BODY_LIMIT, .answer = code_answer, .status = 200,
	  .ready = true },
	{ HTTP_POST, SB "/code/stream", AUTH_EXEC, code_stream,
	  "Run code and stream output, results and errors as events", .body = code_fields,
	  .body_limit = CODE_BODY_LIMIT, .media = "text/event-stream", .status = 200,
	  .ready = true },
	{ HTTP_GET, SB "/code/contexts", AUTH_EXEC, code_contexts_list,
	  "List the code contexts, oldest first", .answer = code_context_list_answer, .status = 200,
	  .ready = true },
	{ HTTP_POST, SB "/code/contexts", AUTH_EXEC, code_contexts_create, "Create a code context",
	  .body = code_context_fields, .answer = code_context_answer, .status = 201,
	  .ready = true },
	{ HTTP_DELETE, SB "/code/contexts/{context}", AUTH_EXEC, code_contexts_delete,
	  "End a code context", .status = 204, .ready = true },
	{ HTTP_POST, SB "/code/contexts/{context}/restart", AUTH_EXEC, code_contexts_restart,
	  "Start a new kernel under the same id", .body = empty_fields,
	  .answer = code_context_answer, .status = 200, .ready = true },
	{ HTTP_POST, SB "/code/contexts/{context}/interrupt", AUTH_EXEC, code_contexts_interrupt,
	  "Interrupt the running code, as Ctrl-C does", .body = empty_fields, .status = 204,
	  .ready = true },
	{ HTTP_GET, FI "/raw", AUTH_EXEC, files_download,
	  "Download a file; supports HEAD, Range, If-None-Match and If-Range", .op = FILES_READ,
	  .query = files_raw_query, .media = "application/octet-stream", .status = 200,
	  .ready = true },
	{ HTTP_PUT, FI "/raw", AUTH_EXEC, files_upload,
	  "Upload a file of any size; it is replaced completely or not at all", .op = FILES_WRITE,
	  .query = files_put_query, .upload = true, .answer = files_entry_answer, .status = 201,
	  .also = 200, .ready = true },
	{ HTTP_GET, SB "/files", AUTH_EXEC, files_call, "List the entries of a directory",
	  .op = FILES_LIST, .query = files_list_query, .answer = files_list_answer, .status = 200,
	  .ready = true },
	{ HTTP_POST, SB "/files", AUTH_EXEC, files_call, "Write one file", .op = FILES_WRITE,
	  .body = files_write_fields, .body_limit = FILES_BODY_LIMIT, .answer = files_entry_answer,
	  .status = 200, .also = 201, .ready = true },
	{ HTTP_POST, FI "/batch", AUTH_EXEC, files_call,
	  "Write several files, with a result for each", .op = FILES_BATCH,
	  .body = files_batch_fields, .body_limit = FILES_BATCH_LIMIT, .answer = files_batch_answer,
	  .status = 200, .ready = true },
	{ HTTP_GET, FI "/read", AUTH_EXEC, files_call, "Read a text file with numbered lines",
	  .op = FILES_VIEW, .query = files_view_query, .answer = files_view_answer, .status = 200,
	  .ready = true },
	{ HTTP_GET, FI "/stat", AUTH_EXEC, files_call, "Get the entry of a path", .op = FILES_STAT,
	  .query = files_stat_query, .answer = files_entry_answer, .status = 200, .ready = true },
	{ HTTP_GET, FI "/exists", AUTH_EXEC, files_call, "Check whether a path exists",
	  .op = FILES_EXISTS, .query = files_stat_query, .answer = files_exists_answer,
	  .status = 200, .ready = true },
	{ HTTP_POST, FI "/edit", AUTH_EXEC, files_call,
	  "Replace one string by another; it must occur exactly once unless replace_all is set",
	  .op = FILES_EDIT, .body = files_edit_fields, .body_limit = FILES_BODY_LIMIT,
	  .answer = files_edit_answer, .status = 200, .ready = true },
	{ HTTP_POST, FI "/glob", AUTH_EXEC, files_call,
	  "Find files by name; a pattern without '/' matches at any depth", .op = FILES_GLOB,
	  .body = files_glob_fields, .answer = files_list_answer, .status = 200, .ready = true },
	{ HTTP_POST, FI "/grep", AUTH_EXEC, files_call, "Find lines by content (PCRE2)",
	  .op = FILES_GREP, .body = files_grep_fields, .answer = files_grep_answer, .status = 200,
	  .ready = true },
	{ HTTP_POST, FI "/mkdir", AUTH_EXEC, files_call, "Create a directory", .op = FILES_MKDIR,
	  .body = files_mkdir_fields, .answer = files_entry_answer, .status = 200, .also = 201,
	  .ready = true },
	{ HTTP_POST, FI "/move", AUTH_EXEC, files_call, "Move or rename", .op = FILES_MOVE,
	  .body = files_move_fields, .answer = files_entry_answer, .status = 200, .ready = true },
	{ HTTP_POST, FI "/copy", AUTH_EXEC, files_call, "Copy a file or a tree", .op = FILES_COPY,
	  .body = files_copy_fields, .answer = files_entry_answer, .status = 200, .ready = true },
	{ HTTP_POST, FI "/remove", AUTH_EXEC, files_call, "Remove a file or a tree",
	  .op = FILES_REMOVE, .body = files_remove_fields, .status = 204, .ready = true },
	{ HTTP_POST, FI "/chmod", AUTH_EXEC, files_call, "Change permissions", .op = FILES_CHMOD,
	  .body = files_chmod_fields, .answer = files_entry_answer, .status = 200, .ready = true },
	{ HTTP_POST, FI "/chown", AUTH_EXEC, files_call, "Change owner and group",
	  .op = FILES_CHOWN, .body = files_chown_fields, .answer = files_entry_answer,
	  .status = 200, .ready = true },
	{ HTTP_GET, FI "/watch", AUTH_EXEC, files_watch,
	  "Stream changes as the events started, created, modified, deleted, renamed and overflow",
	  .op = FILES_WATCH, .query = files_watch_query, .answer = files_event_answer,
	  .media = "text/event-stream", .status = 200, .ready = true },
	{ HTTP_GET, FI "/archive", AUTH_EXEC, files_download,
	  "Download a tree as tar.zst, tar or zip", .op = FILES_ARCHIVE_OUT,
	  .query = files_archive_query,
	  .media = "application/zstd,application/x-tar,application/zip", .status = 200,
	  .ready = true },
	{ HTTP_PUT, FI "/archive", AUTH_EXEC, files_upload,
	  "Unpack a tar, tar.zst, tar.gz or zip into a directory, which is created",
	  .op = FILES_ARCHIVE_IN, .query = files_unpack_query, .upload = true,
	  .answer = files_unpack_answer, .status = 200, .ready = true },
	{ HTTP_GET, SB "/events", AUTH_SANDBOXES_READ, events_read,
	  "List the events of a sandbox, or stream them with follow=true",
	  .query = sandbox_events_query, .answer = event_answer, .page = event_list_answer,
	  .media = "text/event-stream", .status = 200 },
	{ HTTP_GET, "/v1/events", AUTH_SANDBOXES_READ, events_read,
	  "List or stream the events of all sandboxes of the key; for admin keys, of all keys",
	  .query = events_query, .answer = event_answer, .page = event_list_answer,
	  .media = "text/event-stream", .status = 200 },
	{ HTTP_GET, SB "/usage", AUTH_SANDBOXES_READ, usage_of_sandbox,
	  "Get the usage of a sandbox, also after it has ended", .query = sandbox_usage_query,
	  .answer = sandbox_usage_answer, .status = 200 },
	{ HTTP_GET, "/v1/usage", AUTH_SANDBOXES_READ, usage_list,
	  "Get the usage of a time, per key and workspace", .query = usage_query,
	  .answer = usage_answer, .status = 200 },
	{ HTTP_GET, "/v1/webhooks", AUTH_WEBHOOKS, webhooks_list, "List the webhooks, newest first",
	  .query = page_query, .answer = webhook_list_answer, .status = 200 },
	{ HTTP_POST, "/v1/webhooks", AUTH_WEBHOOKS, webhooks_create,
	  "Send events to a URL, signed; the secret is shown once", .body = webhook_create_fields,
	  .answer = webhook_made_answer, .status = 201, .secret = true },
	{ HTTP_GET, WH, AUTH_WEBHOOKS, webhooks_get, "Get a webhook and its state",
	  .answer = webhook_answer, .status = 200 },
	{ HTTP_PATCH, WH, AUTH_WEBHOOKS, webhooks_patch,
	  "Change a webhook; a waiting event is tried at once", .body = webhook_patch_fields,
	  .answer = webhook_answer, .status = 200 },
	{ HTTP_DELETE, WH, AUTH_WEBHOOKS, webhooks_delete, "Delete a webhook", .status = 204 },
	{ HTTP_POST, WH "/test", AUTH_WEBHOOKS, webhooks_test,
	  "Send a webhook.test event now and return the result", .body = empty_fields,
	  .answer = webhook_result_answer, .status = 200 },
	{ HTTP_GET, WH "/deliveries", AUTH_WEBHOOKS, webhooks_deliveries,
	  "List abandoned deliveries and the one in progress", .query = delivery_query,
	  .answer = delivery_list_answer, .status = 200 },
	{ HTTP_POST, WH "/deliveries/{event_id}/redeliver", AUTH_WEBHOOKS, webhooks_redeliver,
	  "Send an abandoned delivery again, now", .body = empty_fields,
	  .answer = webhook_result_answer, .status = 200 },
	{ HTTP_GET, "/v1/keys", AUTH_KEYS, keys_list, "List the API keys, without their values",
	  .query = page_query, .answer = key_list_answer, .status = 200 },
	{ HTTP_POST, "/v1/keys", AUTH_KEYS, keys_create, "Create an API key, which is shown once",
	  .body = key_create_fields, .answer = key_made_answer, .status = 201, .secret = true },
	{ HTTP_GET, "/v1/keys/self", AUTH_ANY, keys_self, "Get the caller's own key and its limits",
	  .answer = key_answer, .status = 200 },
	{ HTTP_GET, "/v1/keys/{id}", AUTH_KEYS, keys_get,
	  "Get an API key, its limits and their use", .answer = key_answer, .status = 200 },
	{ HTTP_PATCH, "/v1/keys/{id}", AUTH_KEYS, keys_patch,
	  "Change the name or, with an admin key, the limits", .body = key_patch_fields,
	  .answer = key_answer, .status = 200 },
	{ HTTP_DELETE, "/v1/keys/{id}", AUTH_KEYS, keys_delete, "Delete an API key",
	  .status = 204 },
	{ HTTP_GET, "/v1/secrets", AUTH_SECRETS, secrets_list,
	  "List the secrets, without their values", .query = page_query,
	  .answer = secret_list_answer, .status = 200 },
	{ HTTP_POST, "/v1/secrets", AUTH_SECRETS, secrets_create,
	  "Store a secret; its value is never returned", .body = secret_create_fields,
	  .answer = secret_answer, .status = 201, .secret = true },
	{ HTTP_GET, "/v1/secrets/{id}", AUTH_SECRETS, secrets_get, "Get a secret by id or name",
	  .answer = secret_answer, .status = 200 },
	{ HTTP_POST, "/v1/secrets/{id}/rotate", AUTH_SECRETS, secrets_rotate,
	  "Set a new value; old values are still scrubbed from output",
	  .body = secret_rotate_fields, .answer = secret_answer, .status = 200 },
	{ HTTP_DELETE, "/v1/secrets/{id}", AUTH_SECRETS, secrets_delete,
	  "Delete a secret; no new process receives it", .status = 204 },
	{ HTTP_POST, "/v1/tickets", AUTH_ANY, tickets_create,
	  "Create a ticket that opens one WebSocket or event stream from a web page, once",
	  .body = ticket_fields, .example = "{\"path\":\"/v1/events\"}", .answer = ticket_answer,
	  .status = 201, .secret = true },
	{ HTTP_GET, "/v1/templates", AUTH_TEMPLATES_READ, templates_list, "List the templates",
	  .query = page_query, .answer = template_list_answer, .status = 200 },
	{ HTTP_GET, "/v1/templates/{id}", AUTH_TEMPLATES_READ, templates_get, "Get a template",
	  .answer = template_answer, .status = 200 },
	{ HTTP_DELETE, "/v1/templates/{id}", AUTH_TEMPLATES_WRITE, templates_delete,
	  "Remove a template with all of its versions; fails while it is in use", .status = 204 },
	{ HTTP_GET, "/v1/templates/{id}/builds", AUTH_TEMPLATES_READ, builds_list,
	  "Get the last build of a template and the end of its log", .answer = build_list_answer,
	  .status = 200 },
	{ HTTP_GET, "/v1/templates/{id}/builds/{build_id}", AUTH_TEMPLATES_READ, builds_get,
	  "Get a build and a part of its log", .query = cursor_query, .answer = build_answer,
	  .status = 200 },
	{ HTTP_POST, "/v1/templates/{id}/builds", AUTH_TEMPLATES_WRITE, builds_create,
	  "Build a template from its recipe", .body = empty_fields, .answer = build_answer,
	  .status = 202 },
	{ HTTP_GET, "/v1/options", AUTH_ANY, system_options,
	  "Get the engines with their capabilities on this host, limits, defaults and warnings",
	  .answer = options_answer, .status = 200 },
	{ HTTP_POST, "/v1/admin/shutdown", AUTH_ADMIN, system_shutdown,
	  "Stop the daemon; with destroy, also destroy every sandbox", .body = shutdown_fields,
	  .answer = status_answer, .status = 200 },
	{ HTTP_POST, "/v1/admin/recover", AUTH_ADMIN, system_recover,
	  "List what an engine holds for another, lost database as snapshots of this key",
	  .body = empty_fields, .answer = recover_answer, .status = 200 },
	{ HTTP_GET, "/healthz", 0, system_health, "Check whether the daemon runs", .open = true,
	  .answer = status_answer, .status = 200 },
	{ HTTP_GET, "/readyz", 0, system_ready, "Check whether the daemon can serve requests",
	  .open = true, .answer = ready_answer, .status = 200 },
	{ HTTP_GET, "/openapi.json", 0, system_openapi, "Get the OpenAPI document", .open = true,
	  .status = 200 },
	{ HTTP_GET, "/metrics", AUTH_METRICS, system_metrics, "Get metrics for Prometheus",
	  .media = "text/plain", .status = 200 },

	/* Known from the contract, built by later versions: answered 422, not 404. */
	LATER(GET, "/v1/pools", SANDBOXES_READ),
	LATER(POST, "/v1/pools", ADMIN),
	LATER(GET, "/v1/volumes", SANDBOXES_READ),
	LATER(POST, "/v1/volumes", SANDBOXES_WRITE),
	LATER(GET, "/v1/sessions", ADMIN),
	LATER(POST, "/v1/sessions", ADMIN),
	LATER(GET, "/v1/audit", ADMIN),
	LATER(POST, "/v1/templates", TEMPLATES_WRITE),
	LATER(POST, "/mcp", EXEC),
};
const size_t rest_route_count = ARRAY_LEN(rest_routes);

/* Segments are taken as sent: ids and names need no escapes, so none are understood. */
static bool segment_ok(struct str segment)
{
	if (segment.n == 0 || str_is(segment, ".") || str_is(segment, ".."))
		return false;
	for (size_t i = 0; i < segment.n; i++) {
		char c = segment.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

		if (!word)
			return false;
	}
	return true;
}

/* *ret_odd is set to the place in the pattern whose segment no id or name can be. */
static bool match(const char *pattern, struct str path, struct str args[2], const char **ret_odd)
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
		if (!segment_ok(segment))
			*ret_odd = pattern;
		if (taken < 2)
			args[taken++] = segment;
		pattern = strchr(pattern, '}') + 1;
	}
	return at == path.n;
}

static const char *method_name(enum http_method method)
{
	static const char *const names[] = { "GET",   "HEAD",	"POST",	  "PUT",
					     "PATCH", "DELETE", "OPTIONS" };

	return (size_t)method < ARRAY_LEN(names) ? names[method] : "?";
}

const struct route *route_find(const struct http_req *req, struct str args[2], char *allow,
			       size_t allow_size, struct err *err)
{
	enum http_method method = req->method == HTTP_HEAD ? HTTP_GET : req->method;
	const char *odd;
	bool odd_name = false;

	for (size_t i = 0; i < ARRAY_LEN(rest_routes); i++) {
		const struct route *route = &rest_routes[i];
		size_t n = strlen(allow);

		if (!match(route->pattern, req->path, args, &odd))
			continue;
		if (odd) {
			odd_name = odd_name || str_starts(str_of(odd), "{name}");
			continue;
		}
		if (route->method == method)
			return route;
		(void)snprintf(allow + n, allow_size - n, "%s%s%s", n ? ", " : "",
			       method_name(route->method),
			       route->method == HTTP_GET ? ", HEAD" : "");
	}
	if (odd_name && !allow[0]) {
		(void)err_set(err, ERR_INVALID_REQUEST,
			      "name must be characters of [A-Za-z0-9._-], not only dots");
		return NULL;
	}
	(void)err_set(err, ERR_NOT_FOUND, "no route '%.*s'", (int)MIN(req->path.n, 128),
		      req->path.p);
	return NULL;
}
