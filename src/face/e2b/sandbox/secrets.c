/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: the vault's, of global scope. Their values go in and never come out. */
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

/* NULL: answered. */
static struct secret *find(struct e2b_call *call)
{
	struct err err;
	struct secret *secret = secret_find(call->e2b->service, call->key, call->args[0], &err);

	if (!secret)
		e2b_answer_error(call, &err);
	return secret;
}

/* The vault keeps none beside a secret. */
static int check_metadata(struct e2b_call *call, struct err *err)
{
	const struct json *metadata = e2b_json_get(call->doc, "metadata");

	if (metadata && json_size(metadata) > 0)
		return err_set(err, ERR_UNSUPPORTED,
			       "metadata of secrets is not supported by this server");
	return 0;
}

void e2b_secrets_create(struct e2b_call *call)
{
	struct secret_spec spec = { .scope = SECRET_GLOBAL };
	const struct secret *secret = NULL;
	bool ok = true;
	struct err err;

	spec.name = call_str(call, "name", &ok);
	spec.value = call_str(call, "value", &ok);
	if (!ok)
		return;
	if (!spec.name.n || !spec.value.n)
		e2b_answer_status(call, 400, "name and value are required");
	else if (check_metadata(call, &err) < 0 ||
		 secret_create(call->e2b->service, call->key, &spec, &secret, &err) < 0)
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
	bool ok = true;
	struct str value = secret ? call_str(call, "value", &ok) : (struct str){ NULL, 0 };
	struct err err;

	if (!secret || !ok)
		return;
	if (!value.n)
		e2b_answer_status(call, 400, "value is required");
	else if (check_metadata(call, &err) < 0 ||
		 secret_rotate(secret, call->e2b->service, value, &err) < 0)
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
	uint64_t most = 100, count = 0;
	struct json_writer w;

	if (!ok)
		return;
	if (limit.n && (str_to_u64(limit, 1000, &most) < 0 || most == 0)) {
		e2b_answer_status(call, 400, "limit: must be from 1 to 1000");
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
