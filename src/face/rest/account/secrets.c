/* SPDX-License-Identifier: Apache-2.0 */
#include "service/secret/secret.h"

#include "face/rest/call.h"

#define AT(member) offsetof(struct secret_spec, member)
const struct field secret_create_fields[] = {
	{ .name = "name",
	  .type = FIELD_STR,
	  .offset = AT(name),
	  .min = 1,
	  .max = SECRET_NAME_MAX,
	  .required = true,
	  .doc = "[A-Za-z_][A-Za-z0-9_]*; unique in its scope" },
	{ .name = "value",
	  .type = FIELD_STR,
	  .offset = AT(value),
	  .min = 1,
	  .max = SECRET_VALUE_MAX,
	  .required = true,
	  .doc = "stored encrypted and never returned" },
	{ .name = "scope",
	  .type = FIELD_ENUM,
	  .names = secret_scope_names,
	  .offset = AT(scope),
	  .doc = "which of the key's sandboxes can use it; if a name exists in several scopes, the "
		 "narrowest applies" },
	{ .name = "external_workspace_id",
	  .type = FIELD_STR,
	  .offset = AT(external_workspace_id),
	  .min = 1,
	  .max = SECRET_SCOPE_ID_MAX,
	  .doc = "with scope workspace" },
	{ .name = "sandbox_id",
	  .type = FIELD_STR,
	  .offset = AT(sandbox_id),
	  .min = 1,
	  .max = 63,
	  .doc = "with scope sandbox" },
	{ .name = "hosts",
	  .type = FIELD_STRINGS,
	  .offset = AT(hosts),
	  .max = SECRET_HOSTS_MAX,
	  .doc = "the hosts that may receive it when brokered; none: each grant names its hosts" },
	{ .type = FIELD_END }
};
#undef AT

struct rotate_body {
	struct str value;
};
const struct field secret_rotate_fields[] = { { .name = "value",
						.type = FIELD_STR,
						.offset = offsetof(struct rotate_body, value),
						.min = 1,
						.max = SECRET_VALUE_MAX,
						.required = true,
						.doc = "used by new processes and requests" },
					      { .type = FIELD_END } };

static void answer_secret(struct rest_call *call, const struct secret *secret)
{
	struct json_writer w = answer_begin(call->rest);

	secret_write(secret, &w, NULL);
	answer_send(call->rest, call->req, 200, &w);
}

static struct secret *find(struct rest_call *call)
{
	struct err err;
	struct secret *secret = secret_find(call->rest->service, call->key, call->args[0], &err);

	if (!secret)
		answer_error(call->rest, call->req, &err);
	return secret;
}

void secrets_create(struct rest_call *call)
{
	struct secret_spec spec = { .scope = SECRET_GLOBAL };
	const struct secret *secret = NULL;
	struct idempotency *idem;
	struct json_writer w;
	struct err err;

	if (once_open(call, &idem) != 0)
		return;
	if (field_decode(secret_create_fields, call->doc, "", call->req->arena, &spec, &err) < 0 ||
	    secret_create(call->rest->service, call->key, &spec, &secret, &err) < 0) {
		once_fail(call, idem, &err);
		return;
	}
	w = answer_begin(call->rest);
	secret_write(secret, &w, NULL);
	if (once_answer(call, idem, 201, &w) < 0)
		(void)!secret_delete((struct secret *)(uintptr_t)secret, call->rest->service, &err);
}

void secrets_get(struct rest_call *call)
{
	const struct secret *secret = find(call);

	if (secret)
		answer_secret(call, secret);
}

void secrets_rotate(struct rest_call *call)
{
	struct secret *secret = find(call);
	struct rotate_body body = { { NULL, 0 } };
	struct err err;

	if (!secret)
		return;
	if (field_decode(secret_rotate_fields, call->doc, "", call->req->arena, &body, &err) < 0 ||
	    secret_rotate(secret, call->rest->service, body.value, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_secret(call, secret);
}

void secrets_delete(struct rest_call *call)
{
	struct secret *secret = find(call);
	struct err err;

	if (!secret)
		return;
	if (secret_delete(secret, call->rest->service, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}

void secrets_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	const struct secret *secret, *last = NULL;
	struct str cursor = { "", 0 };
	int64_t limit = 100;
	struct json_writer w;

	if (page_after_text(call, &limit, &cursor) < 0)
		return;
	w = page_begin(call);
	while (limit-- > 0 && (secret = secret_next(service, call->key, cursor))) {
		secret_write(secret, &w, NULL);
		cursor = str_of(secret->id);
		last = secret;
	}
	page_send(call, &w,
		  limit < 0 && last && secret_next(service, call->key, cursor) ? last->id : NULL);
}
