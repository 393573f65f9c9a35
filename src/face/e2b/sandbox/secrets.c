/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of global scope. Values are accepted and never returned. */
#include "service/secret/secret.h"

#include <stdio.h>

#include "face/e2b/call.h"

static void write_secret(const struct secret *secret, struct json_writer *w)
{
	json_begin_object(w, NULL);
	json_put_text(w, "secretID", secret->id);
	json_put_text(w, "name", secret->name);
	json_put_int(w, "currentVersion", secret->version);
	json_put_time(w, "createdAt", secret->created_ms);
	json_put_time(w, "updatedAt", secret->updated_ms ? secret->updated_ms : secret->created_ms);
	json_begin_object(w, "metadata");
	json_end_object(w);
	json_end_object(w);
}

static void answer_secret(struct e2b_call *call, int status, const struct secret *secret)
{
	struct json_writer w = e2b_answer_begin(call->e2b);

	write_secret(secret, &w);
	e2b_answer_send(call, status, &w);
}

/* NULL: an error was sent. */
static struct secret *find(struct e2b_call *call)
{
	struct err err;
	struct secret *secret = secret_find(call->e2b->service, call->key, call->args[0], &err);

	if (!secret)
		e2b_answer_error(call, &err);
	return secret;
}

#define VALUE_ROW                                                                                  \
	{                                                                                          \
		.name = "value", .type = FIELD_STR, .offset = offsetof(struct secret_spec, value), \
		.min = 1, .max = SECRET_VALUE_MAX, .required = true                                \
	}
/* The vault stores no metadata. */
#define METADATA_ROW                                    \
	{                                               \
		.name = "metadata", .type = FIELD_LATER \
	}

static const struct field create_fields[] = { { .name = "name",
						.type = FIELD_STR,
						.offset = offsetof(struct secret_spec, name),
						.min = 1,
						.max = SECRET_NAME_MAX,
						.required = true },
					      VALUE_ROW,
					      METADATA_ROW,
					      { .type = FIELD_END } };
static const struct field update_fields[] = { VALUE_ROW, METADATA_ROW, { .type = FIELD_END } };

void e2b_secrets_create(struct e2b_call *call)
{
	struct secret_spec spec = { .scope = SECRET_GLOBAL };
	const struct secret *secret = NULL;
	struct err err;

	if (!call_decode(call, create_fields, &spec))
		return;
	if (secret_create(call->e2b->service, call->key, &spec, &secret, &err) < 0)
		e2b_answer_error(call, &err);
	else
		answer_secret(call, 201, secret);
}

void e2b_secrets_get(struct e2b_call *call)
{
	const struct secret *secret = find(call);

	if (secret)
		answer_secret(call, 200, secret);
}

void e2b_secrets_update(struct e2b_call *call)
{
	struct secret *secret = find(call);
	struct secret_spec spec = { .scope = SECRET_GLOBAL };
	struct err err;

	if (!secret || !call_decode(call, update_fields, &spec))
		return;
	if (secret_rotate(secret, call->e2b->service, spec.value, &err) < 0)
		e2b_answer_error(call, &err);
	else
		answer_secret(call, 200, secret);
}

void e2b_secrets_delete(struct e2b_call *call)
{
	struct secret *secret = find(call);
	struct err err;

	if (!secret)
		return;
	if (secret_delete(secret, call->e2b->service, &err) < 0)
		e2b_answer_error(call, &err);
	else
		e2b_answer_empty(call, 204);
}

void e2b_secrets_list(struct e2b_call *call)
{
	bool ok = true;
	struct str limit = call_query(call, "limit", &ok);
	struct str after = call_query(call, "nextToken", &ok);
	char last[SECRET_ID_LEN + 1] = "";
	struct http_header header = { STR_LIT("X-Next-Token"), { last, 0 } };
	const struct secret *secret;
	int64_t most = PAGE_LIMIT, count = 0;
	struct json_writer w;

	if (!ok)
		return;
	if (page_limit_parse(limit, &most) < 0) {
		e2b_answer_status(call, 400, "limit: must be from 1 to %d", PAGE_LIMIT_MAX);
		return;
	}
	w = e2b_answer_begin(call->e2b);
	json_begin_array(&w, NULL);
	while ((secret = secret_next(call->e2b->service, call->key, after))) {
		if (count++ == most) {
			header.value.n = strlen(last);
			break;
		}
		(void)snprintf(last, sizeof(last), "%s", secret->id);
		after = str_of(secret->id);
		write_secret(secret, &w);
	}
	json_end_array(&w);
	e2b_answer_send_with(call, 200, &w, &header, header.value.n ? 1 : 0);
}
