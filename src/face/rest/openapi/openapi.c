/* SPDX-License-Identifier: Apache-2.0 */
/* GET /openapi.json, written from the route and field tables. */
#include <stdio.h>

#include "face/kit/error.h"
#include "face/rest/call.h"
#include "face/rest/files/files.h"
#include "face/rest/openapi/field_schema.h"

#define BYTES "{\"type\":\"string\",\"format\":\"binary\"}"

static const char *const verbs[] = { "get", "head", "post", "put", "patch", "delete", "options" };

static const struct {
	const struct field *fields;
	const char *name;
} schemas[] = {
	{ sandbox_answer, "Sandbox" },
	{ snapshot_answer, "Snapshot" },
	{ preview_answer, "Preview" },
	{ process_answer, "Process" },
	{ window_answer, "Window" },
	{ exec_answer, "ExecResult" },
	{ output_answer, "Output" },
	{ code_answer, "CodeResult" },
	{ code_context_answer, "CodeContext" },
	{ files_entry_answer, "FileEntry" },
	{ event_answer, "Event" },
	{ webhook_answer, "Webhook" },
	{ key_answer, "Key" },
	{ secret_answer, "Secret" },
	{ template_answer, "Template" },
	{ build_answer, "Build" },
	{ metrics_answer, "SandboxMetrics" },
	{ failed_answer, "FailedPart" },
};

static const char *schema_name(const struct field *fields)
{
	for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
		if (schemas[i].fields == fields)
			return schemas[i].name;
	return NULL;
}

static void write_schemas(struct json_writer *w)
{
	for (size_t i = 0; i < ARRAY_LEN(schemas); i++)
		field_write_answer(schemas[i].fields, true, w, schemas[i].name);
}

static void write_error_schema(struct json_writer *w)
{
	json_begin_object(w, "Error");
	json_put_text(w, "type", "object");
	json_put_raw(w, "required", STR_LIT("[\"error\"]"));
	json_begin_object(w, "properties");
	field_write_answer(error_answer, true, w, "error");
	json_end_object(w);
	json_begin_array(w, "x-codes");
	for (int i = 1; i < ERR_CODE_COUNT; i++) {
		json_begin_object(w, NULL);
		json_put_text(w, "code", err_name((enum err_code)i));
		json_put_int(w, "status", error_status((enum err_code)i));
		json_put_bool(w, "retryable", err_retryable((enum err_code)i));
		if (error_hint((enum err_code)i))
			json_put_text(w, "hint", error_hint((enum err_code)i));
		json_end_object(w);
	}
	json_end_array(w);
	json_end_object(w);
}

static void write_path_parameter(struct json_writer *w, struct str name)
{
	json_begin_object(w, NULL);
	json_put_str(w, "name", name);
	json_put_text(w, "in", "path");
	json_put_bool(w, "required", true);
	json_put_text(w, "description",
		      str_is(name, "pid") ? "its process_id or name, or pid:N; of a preview its id"
					  : "id or unique name");
	json_put_raw(w, "schema", STR_LIT("{\"type\":\"string\"}"));
	json_end_object(w);
}

static void write_parameters(struct json_writer *w, const struct rest_route *route)
{
	const char *at = route->row.pattern;

	json_begin_array(w, "parameters");
	while ((at = strchr(at, '{'))) {
		const char *end = strchr(at, '}');

		write_path_parameter(w, (struct str){ at + 1, (size_t)(end - at - 1) });
		at = end;
	}
	for (const struct field *f = route->query; f && f->type; f++) {
		json_begin_object(w, NULL);
		json_put_text(w, "name", f->name);
		json_put_text(w, "in", "query");
		json_put_bool(w, "required", f->required);
		field_write_one(f, w, "schema");
		json_end_object(w);
	}
	if (ticket_opens(route))
		json_put_raw(
			w, NULL,
			STR_LIT("{\"name\":\"ticket\",\"in\":\"query\",\"description\":\"instead "
				"of a key: of POST "
				"/v1/tickets\",\"schema\":{\"type\":\"string\"}}"));
	json_end_array(w);
}

static void write_body(struct json_writer *w, const struct rest_route *route)
{
	bool required = route->upload;

	for (const struct field *f = route->body; f && f->type; f++)
		required = required || f->required;
	json_begin_object(w, "requestBody");
	json_put_bool(w, "required", required);
	json_begin_object(w, "content");
	if (route->body) {
		json_begin_object(w, "application/json");
		field_write_schema(route->body, w, "schema");
		if (route->example)
			json_put_raw(w, "example", str_of(route->example));
		json_end_object(w);
	}
	if (route->upload || (route->row.flags & ROUTE_RAW)) {
		json_begin_object(w, "application/octet-stream");
		json_put_raw(w, "schema", STR_LIT(BYTES));
		json_end_object(w);
	}
	json_end_object(w);
	json_end_object(w);
}

static void write_json(struct json_writer *w, const struct field *answer, const struct field *other)
{
	json_begin_object(w, "application/json");
	if (other) {
		json_begin_object(w, "schema");
		json_begin_array(w, "anyOf");
		field_write_answer(answer, false, w, NULL);
		field_write_answer(other, false, w, NULL);
		json_end_array(w);
		json_end_object(w);
	} else {
		field_write_answer(answer, false, w, "schema");
	}
	json_end_object(w);
}

/* A stream is text. The schema of its events' data is written beside it. */
static void write_stream(struct json_writer *w, const struct rest_route *route)
{
	json_begin_object(w, route->media);
	json_put_raw(w, "schema", STR_LIT("{\"type\":\"string\"}"));
	/* Which members are present depends on the event. */
	if (route->answer && schema_name(route->answer))
		field_write_answer(route->answer, false, w, "x-event-data");
	else if (route->answer)
		field_write_schema(route->answer, w, "x-event-data");
	json_end_object(w);
}

/* Media types separated by commas; all except JSON are bytes. */
static void write_other(struct json_writer *w, const char *media)
{
	struct str rest = str_of(media), one;
	char name[64];

	while (rest.n) {
		if (!str_cut(rest, ',', &one, &rest)) {
			one = rest;
			rest.n = 0;
		}
		if (str_copy(name, sizeof(name), one) < 0)
			continue;
		json_begin_object(w, name);
		json_put_raw(w, "schema",
			     str_is(one, "application/json") ? STR_LIT("{\"type\":\"object\"}")
							     : STR_LIT(BYTES));
		json_end_object(w);
	}
}

static void write_success(struct json_writer *w, const struct rest_route *route)
{
	bool stream = route->media && strcmp(route->media, "text/event-stream") == 0;

	json_put_text(w, "description",
		      (route->row.flags & ROUTE_SOCKET) ? "Switching to WebSocket" : "Success");
	if ((route->row.flags & ROUTE_SOCKET) || route->status == 204)
		return;
	json_begin_object(w, "content");
	if (stream)
		write_stream(w, route);
	if (stream && route->page)
		write_json(w, route->page, NULL);
	if (!stream && route->answer)
		write_json(w, route->answer, route->other);
	if (!stream && !route->answer) {
		write_other(w, route->media ? route->media : "application/json");
	}
	json_end_object(w);
}

static void write_responses(struct json_writer *w, const struct rest_route *route)
{
	static const char *const failures[] = { "4XX", "5XX" };
	const int good[] = { route->status, route->also };
	char status[8];

	json_begin_object(w, "responses");
	for (size_t i = 0; i < ARRAY_LEN(good) && good[i]; i++) {
		(void)snprintf(status, sizeof(status), "%d", good[i]);
		json_begin_object(w, status);
		write_success(w, route);
		json_end_object(w);
	}
	if (route->op == FILES_READ && route->row.method == HTTP_GET && route->media) {
		json_put_raw(w, "206",
			     STR_LIT("{\"description\":\"A range\",\"content\":{\"application/"
				     "octet-stream\":{\"schema\":" BYTES "}}}"));
		json_put_raw(w, "304", STR_LIT("{\"description\":\"Not modified\"}"));
	}
	for (size_t i = 0; i < ARRAY_LEN(failures); i++)
		json_put_raw(
			w, failures[i],
			STR_LIT("{\"description\":\"Error\",\"content\":{\"application/json\":{"
				"\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}"));
	json_end_object(w);
}

static void write_route(struct json_writer *w, const struct rest_route *route)
{
	char id[OPERATION_ID_MAX];

	operation_id(route, id);
	json_begin_object(w, verbs[route->row.method]);
	json_put_text(w, "operationId", id);
	json_begin_array(w, "tags");
	json_put_text(w, NULL, operation_tag(route));
	json_end_array(w);
	json_put_text(w, "summary", route->summary);
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		if (route->row.scope >> i & 1)
			json_put_text(w, "x-scope", auth_scope_names[i]);
	if ((route->row.flags & ROUTE_OPEN))
		json_put_raw(w, "security", STR_LIT("[]"));
	write_parameters(w, route);
	if (route->body || route->upload)
		write_body(w, route);
	write_responses(w, route);
	json_end_object(w);
}

static bool seen_before(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (rest_routes[k].handle &&
		    strcmp(rest_routes[k].row.pattern, rest_routes[i].row.pattern) == 0)
			return true;
	return false;
}

static void write_paths(struct json_writer *w)
{
	json_begin_object(w, "paths");
	for (size_t i = 0; i < rest_route_count; i++) {
		if (!rest_routes[i].handle || seen_before(i))
			continue;
		json_begin_object(w, rest_routes[i].row.pattern);
		for (size_t k = i; k < rest_route_count; k++)
			if (rest_routes[k].handle &&
			    strcmp(rest_routes[k].row.pattern, rest_routes[i].row.pattern) == 0)
				write_route(w, &rest_routes[k]);
		json_end_object(w);
	}
	json_end_object(w);
}

int openapi_write(struct buf *out)
{
	struct json_writer w;

	field_names_set(schema_name);
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_put_text(&w, "openapi", "3.1.0");
	json_begin_object(&w, "info");
	json_put_text(&w, "title", "cay");
	json_put_text(&w, "description",
		      "Sandboxes for agents: commands, files, ports and snapshots.");
	json_put_text(&w, "version", CAY_VERSION);
	json_put_raw(&w, "license",
		     STR_LIT("{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}"));
	json_end_object(&w);
	json_put_raw(&w, "servers", STR_LIT("[{\"url\":\"/\",\"description\":\"This daemon\"}]"));
	operation_write_tags(&w);
	json_put_raw(&w, "security", STR_LIT("[{\"bearer\":[]},{\"header\":[]}]"));
	write_paths(&w);
	json_begin_object(&w, "components");
	json_begin_object(&w, "schemas");
	write_schemas(&w);
	write_error_schema(&w);
	json_end_object(&w);
	json_put_raw(&w, "securitySchemes",
		     STR_LIT("{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"header\":{"
			     "\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-Key\"}}"));
	json_end_object(&w);
	json_end_object(&w);
	return json_writer_end(&w);
}
