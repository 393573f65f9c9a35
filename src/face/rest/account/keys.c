/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/call.h"

struct key_body {
	struct str name;
	struct text_list scopes;
	int64_t limits[QUOTA_COUNT];
};

/* The limits of a key, in a struct with the members limits and has_limit. */
#define LIMIT(type_, which, name_, sent_)                    \
	{ .name = (name_),                                   \
	  .type = FIELD_INT,                                 \
	  .offset = offsetof(struct type_, limits[(which)]), \
	  .sent = (sent_),                                   \
	  .min = QUOTA_NONE,                                 \
	  .max = QUOTA_MAX,                                  \
	  .doc = "0: the daemon's default; -1: none" },
#define X(sym, name, held) LIMIT(key_body, QUOTA_##sym, name, 0)
const struct field key_create_fields[] = {
	{ .name = "name",
	  .type = FIELD_STR,
	  .offset = offsetof(struct key_body, name),
	  .min = 1,
	  .max = AUTH_NAME_MAX,
	  .required = true },
	{ .name = "scopes",
	  .type = FIELD_STRINGS,
	  .offset = offsetof(struct key_body, scopes),
	  .max = AUTH_SCOPE_COUNT,
	  .required = true,
	  .doc = "admin, sandboxes:read, sandboxes:write, exec, templates:read, templates:write, "
		 "keys, metrics, webhooks, secrets" },
	QUOTA_TABLE(X){ .type = FIELD_END }
};
#undef X

struct patch_body {
	int64_t limits[QUOTA_COUNT];
	bool has_name;
	bool has_limit[QUOTA_COUNT];
	struct str name;
};
#define X(sym, name, held)                   \
	LIMIT(patch_body, QUOTA_##sym, name, \
	      FIELD_SENT(offsetof(struct patch_body, has_limit[QUOTA_##sym])))
const struct field key_patch_fields[] = { { .name = "name",
					    .type = FIELD_STR,
					    .offset = offsetof(struct patch_body, name),
					    .sent = FIELD_SENT(
						    offsetof(struct patch_body, has_name)),
					    .min = 1,
					    .max = AUTH_NAME_MAX },
					  QUOTA_TABLE(X){ .type = FIELD_END } };
#undef X

static int read_scopes(const struct text_list *list, uint32_t *ret, struct err *err)
{
	uint32_t scopes = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct str name = list->list[i];
		int bit = 0;

		while (auth_scope_names[bit] && !str_is(name, auth_scope_names[bit]))
			bit++;
		if (!auth_scope_names[bit])
			return err_set(err, ERR_INVALID_REQUEST,
				       "scopes[%zu] must be one of admin, sandboxes:read, "
				       "sandboxes:write, exec, templates:read, templates:write, "
				       "keys, metrics, webhooks, secrets",
				       i);
		scopes |= 1u << bit;
	}
	if (!scopes)
		return err_set(err, ERR_INVALID_REQUEST, "scopes must name at least one scope");
	*ret = scopes;
	return 0;
}

int key_spec_read(const struct json *body, struct arena *arena, struct key_spec *ret,
		  struct err *err)
{
	struct key_body sent = { .name = { NULL, 0 } };
	struct key_spec spec = { .scopes = 0 };

	if (field_decode(key_create_fields, body, "", arena, &sent, err) < 0 ||
	    read_scopes(&sent.scopes, &spec.scopes, err) < 0)
		return -1;
	spec.name = sent.name;
	memcpy(spec.limits, sent.limits, sizeof(spec.limits));
	*ret = spec;
	return 0;
}

int key_patch_read(const struct json *body, struct key_patch *ret, struct err *err)
{
	struct patch_body sent = { .has_name = false };

	if (field_decode(key_patch_fields, body, "", NULL, &sent, err) < 0)
		return -1;
	*ret = (struct key_patch){ .has_name = sent.has_name, .name = sent.name };
	memcpy(ret->limits, sent.limits, sizeof(ret->limits));
	memcpy(ret->has_limit, sent.has_limit, sizeof(ret->has_limit));
	return 0;
}

static void write_key(const struct service *service, struct json_writer *w, const struct key *key,
		      const char *secret)
{
#define X(sym, name, held) name,
	static const char *const limits[] = { QUOTA_TABLE(X) };
#undef X

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
	for (int i = 0; i < QUOTA_COUNT; i++)
		json_put_int(w, limits[i], key->limits[i]);
	json_put_int(w, "sandboxes", key->held[QUOTA_SANDBOXES]);
	quota_write(service, key, w, "quota");
	json_put_text(w, "created_by", key->parent ? key->parent->id : NULL);
	json_put_time(w, "created_at", key->created_ms);
	json_put_time(w, "last_used_at", key->last_used_ms);
	json_end_object(w);
}

static int create(struct rest_call *call, char secret[AUTH_KEY_TEXT_SIZE], const struct key **ret,
		  struct err *err)
{
	struct key_spec spec;

	if (key_spec_read(call->doc, call->req->arena, &spec, err) < 0)
		return -1;
	return auth_create(call->rest->service, call->key, &spec, secret, ret, err);
}

void keys_create(struct rest_call *call)
{
	char secret[AUTH_KEY_TEXT_SIZE];
	struct idempotency *idem;
	const struct key *key = NULL;
	struct json_writer w;
	struct err err;

	if (once_open(call, &idem) != 0)
		return;
	if (create(call, secret, &key, &err) < 0) {
		once_fail(call, idem, &err);
		return;
	}
	w = answer_begin(call->rest);
	write_key(call->rest->service, &w, key, secret);
	if (once_answer(call, idem, 201, &w) < 0)
		(void)!auth_delete(call->rest->service, call->key, str_of(key->id), &err);
	explicit_bzero(secret, sizeof(secret));
}

void keys_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	struct str cursor = { "", 0 };
	const struct key *key, *last = NULL;
	int64_t limit = 100;
	struct json_writer w;

	if (page_after_text(call, &limit, &cursor) < 0)
		return;
	w = page_begin(call);
	while (limit-- > 0 && (key = auth_next(service, call->key, cursor))) {
		write_key(service, &w, key, NULL);
		cursor = str_of(key->id);
		last = key;
	}
	page_send(call, &w,
		  limit < 0 && last && auth_next(service, call->key, cursor) ? last->id : NULL);
}

void keys_delete(struct rest_call *call)
{
	struct err err;

	if (auth_delete(call->rest->service, call->key, call->args[0], &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}

static void answer_key(struct rest_call *call, const struct key *key)
{
	struct json_writer w = answer_begin(call->rest);

	write_key(call->rest->service, &w, key, NULL);
	answer_send(call->rest, call->req, 200, &w);
}

void keys_self(struct rest_call *call)
{
	answer_key(call, call->key);
}

void keys_get(struct rest_call *call)
{
	struct err err;
	const struct key *key = auth_get(call->rest->service, call->key, call->args[0], &err);

	if (key)
		answer_key(call, key);
	else
		answer_error(call->rest, call->req, &err);
}

void keys_patch(struct rest_call *call)
{
	struct key_patch patch;
	const struct key *key;
	struct err err;

	if (key_patch_read(call->doc, &patch, &err) < 0 ||
	    auth_change(call->rest->service, call->key, call->args[0], &patch, &key, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_key(call, key);
}
