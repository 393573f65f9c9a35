/* SPDX-License-Identifier: Apache-2.0 */
/* GET /openapi.json, written from the route and field tables. */
#include <stdio.h>

#include "face/rest/call.h"

static const char *const verbs[] = { "get", "head", "post", "put", "patch", "delete", "options" };

static void write_error_schema(struct json_writer *w)
{
	json_begin_object(w, "Error");
	json_put_raw(w, "type", STR_LIT("\"object\""));
	json_put_raw(w, "properties",
		     STR_LIT("{\"error\":{\"type\":\"object\",\"properties\":{\"code\":{\"type\":"
			     "\"string\"},\"message\":{\"type\":\"string\"},\"hint\":{\"type\":["
			     "\"string\",\"null\"]},\"request_id\":{\"type\":\"string\"},"
			     "\"retryable\":{\"type\":\"boolean\"}}}}"));
	json_begin_array(w, "x-codes");
	for (int i = 1; i < ERR_CODE_COUNT; i++) {
		json_begin_object(w, NULL);
		json_put_text(w, "code", err_name((enum err_code)i));
		json_put_int(w, "status", err_http_status((enum err_code)i));
		json_put_bool(w, "retryable", err_retryable((enum err_code)i));
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
	json_put_raw(w, "schema", STR_LIT("{\"type\":\"string\"}"));
	json_end_object(w);
}

static void write_parameters(struct json_writer *w, const struct route *route)
{
	const char *at = route->pattern;

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
	json_end_array(w);
}

static void write_content(struct json_writer *w, const struct field *fields, const char *media)
{
	json_begin_object(w, "content");
	json_begin_object(w, media ? media : "application/json");
	field_write_schema(fields, w, "schema");
	json_end_object(w);
	json_end_object(w);
}

static void write_bytes(struct json_writer *w, const char *media)
{
	json_begin_object(w, "content");
	json_begin_object(w, media);
	json_put_raw(w, "schema", STR_LIT("{\"type\":\"string\",\"format\":\"binary\"}"));
	json_end_object(w);
	json_end_object(w);
}

static void write_responses(struct json_writer *w, const struct route *route)
{
	char status[8];

	(void)snprintf(status, sizeof(status), "%d", route->status);
	json_begin_object(w, "responses");
	json_begin_object(w, status);
	json_put_text(w, "description", route->socket ? "Switching to WebSocket" : "Success");
	if (route->answer)
		write_content(w, route->answer, route->media);
	else if (route->media)
		write_bytes(w, route->media);
	json_end_object(w);
	json_put_raw(w, "default",
		     STR_LIT("{\"description\":\"Error\",\"content\":{\"application/json\":{"
			     "\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}"));
	json_end_object(w);
}

static void write_route(struct json_writer *w, const struct route *route)
{
	json_begin_object(w, verbs[route->method]);
	json_put_text(w, "summary", route->summary);
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		if (route->scope >> i & 1)
			json_put_text(w, "x-scope", auth_scope_names[i]);
	if (route->open)
		json_put_raw(w, "security", STR_LIT("[]"));
	write_parameters(w, route);
	if (route->body) {
		json_begin_object(w, "requestBody");
		write_content(w, route->body, NULL);
		json_end_object(w);
	}
	if (route->upload) {
		json_begin_object(w, "requestBody");
		write_bytes(w, "application/octet-stream");
		json_end_object(w);
	}
	write_responses(w, route);
	json_end_object(w);
}

static bool seen_before(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (rest_routes[k].handle &&
		    strcmp(rest_routes[k].pattern, rest_routes[i].pattern) == 0)
			return true;
	return false;
}

static void write_paths(struct json_writer *w)
{
	json_begin_object(w, "paths");
	for (size_t i = 0; i < rest_route_count; i++) {
		if (!rest_routes[i].handle || seen_before(i))
			continue;
		json_begin_object(w, rest_routes[i].pattern);
		for (size_t k = i; k < rest_route_count; k++)
			if (rest_routes[k].handle &&
			    strcmp(rest_routes[k].pattern, rest_routes[i].pattern) == 0)
				write_route(w, &rest_routes[k]);
		json_end_object(w);
	}
	json_end_object(w);
}

int openapi_write(struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_put_text(&w, "openapi", "3.1.0");
	json_begin_object(&w, "info");
	json_put_text(&w, "title", "cay");
	json_put_text(&w, "version", CAY_VERSION);
	json_put_raw(&w, "license",
		     STR_LIT("{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}"));
	json_end_object(&w);
	json_put_raw(&w, "security", STR_LIT("[{\"bearer\":[]},{\"header\":[]}]"));
	write_paths(&w);
	json_begin_object(&w, "components");
	json_begin_object(&w, "schemas");
	write_error_schema(&w);
	json_end_object(&w);
	json_put_raw(&w, "securitySchemes",
		     STR_LIT("{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"header\":{"
			     "\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-Key\"}}"));
	json_end_object(&w);
	json_end_object(&w);
	return json_writer_end(&w);
}
