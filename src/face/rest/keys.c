/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "face/rest/call.h"

struct key_body {
	struct str name;
	const struct json *scopes;
	int64_t max_sandboxes;
};
const struct field key_create_fields[] = {
	{ .name = "name",
	  .type = FIELD_STR,
	  .offset = offsetof(struct key_body, name),
	  .min = 1,
	  .max = 64,
	  .required = true },
	{ .name = "scopes",
	  .type = FIELD_STRINGS,
	  .offset = offsetof(struct key_body, scopes),
	  .max = AUTH_SCOPE_COUNT,
	  .required = true,
	  .doc = "admin, sandboxes:read, sandboxes:write, exec, templates:read, templates:write, "
		 "keys, metrics" },
	{ .name = "max_sandboxes",
	  .type = FIELD_INT,
	  .offset = offsetof(struct key_body, max_sandboxes),
	  .max = 65536,
	  .doc = "0: the daemon's default" },
	{ .type = FIELD_END }
};

static int read_scopes(const struct json *array, uint32_t *ret, struct err *err)
{
	uint32_t scopes = 0;

	for (size_t i = 0; i < json_size(array); i++) {
		struct str name = json_str(json_at(array, i));
		int bit = 0;

		while (auth_scope_names[bit] && !str_is(name, auth_scope_names[bit]))
			bit++;
		if (!auth_scope_names[bit])
			return err_set(err, ERR_INVALID_REQUEST,
				       "scopes[%zu] must be one of admin, sandboxes:read, "
				       "sandboxes:write, exec, templates:read, templates:write, "
				       "keys, metrics",
				       i);
		scopes |= 1u << bit;
	}
	if (!scopes)
		return err_set(err, ERR_INVALID_REQUEST, "scopes must name at least one scope");
	*ret = scopes;
	return 0;
}

static void write_key(struct json_writer *w, const struct key *key, const char *secret)
{
	json_begin_object(w, NULL);
	if (secret)
		json_put_text(w, "key", secret);
	json_put_text(w, "id", key->id);
	json_put_text(w, "name", key->name);
	json_begin_array(w, "scopes");
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		if (key->scopes >> i & 1)
			json_put_text(w, NULL, auth_scope_names[i]);
	json_end_array(w);
	json_put_int(w, "max_sandboxes", key->max_sandboxes);
	json_put_int(w, "sandboxes", key->sandboxes);
	json_put_time(w, "created_at", key->created_ms);
	json_put_time(w, "last_used_at", key->last_used_ms);
	json_end_object(w);
}

static int create(struct rest_call *call, char secret[AUTH_KEY_TEXT_SIZE], const struct key **ret,
		  struct err *err)
{
	struct key_body body = { .max_sandboxes = 0 };
	uint32_t scopes = 0;

	/* Replaying an answer would mean keeping the secret. */
	if (http_req_header(call->req, "idempotency-key"))
		return err_set(err, ERR_UNSUPPORTED,
			       "Idempotency-Key is not offered here: a secret is shown only once");
	if (field_decode(key_create_fields, call->doc, "", &body, err) < 0 ||
	    read_scopes(body.scopes, &scopes, err) < 0)
		return -1;
	return auth_create(call->rest->service, call->key, body.name, scopes, body.max_sandboxes,
			   secret, ret, err);
}

void keys_create(struct rest_call *call)
{
	char secret[AUTH_KEY_TEXT_SIZE];
	const struct key *key = NULL;
	struct json_writer w;
	struct err err;

	if (create(call, secret, &key, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	write_key(&w, key, secret);
	answer_send(call->rest, call->req, 201, &w);
	explicit_bzero(secret, sizeof(secret));
}

void keys_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	struct str cursor = { "", 0 };
	const struct key *key, *last = NULL;
	int64_t limit = 100;
	struct json_writer w;
	struct err err;

	if (query_int(call->req, "limit", 1, 1000, &limit, &err) < 0 ||
	    query_text(call->req, "cursor", &cursor, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_begin_array(&w, "data");
	while (limit-- > 0 && (key = auth_next(service, cursor))) {
		write_key(&w, key, NULL);
		cursor = str_of(key->id);
		last = key;
	}
	json_end_array(&w);
	if (limit < 0 && last && auth_next(service, cursor))
		json_put_text(&w, "next_cursor", last->id);
	else
		json_put_null(&w, "next_cursor");
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}

void keys_delete(struct rest_call *call)
{
	struct err err;

	if (auth_delete(call->rest->service, call->key, call->args[0], &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}
