/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox, their previews, and share tokens. */
#include "service/network/preview.h"

#include <stdio.h>

#include "face/rest/call.h"
#include "service/network/port.h"

#define AT(member) offsetof(struct preview_spec, member)
const struct field preview_fields[] = {
	{ .name = "port",
	  .type = FIELD_INT,
	  .offset = AT(port),
	  .min = 1,
	  .max = 65535,
	  .required = true },
	{ .name = "visibility",
	  .type = FIELD_ENUM,
	  .offset = AT(visibility),
	  .names = preview_visibility_names,
	  .fallback = PREVIEW_PUBLIC,
	  .doc = "private: needs a share token or an API key" },
	{ .name = "expires_in_sec",
	  .type = FIELD_INT,
	  .offset = AT(expires_in_sec),
	  .max = PREVIEW_EXPIRES_MAX_SEC,
	  .doc = "0: until the sandbox ends" },
	{ .name = "host_header",
	  .type = FIELD_ENUM,
	  .offset = AT(host),
	  .names = preview_host_names,
	  .fallback = PREVIEW_HOST_PREVIEW,
	  .doc = "localhost: the server inside sees Host and Origin as localhost:PORT" },
	{ .name = "allow_reserved",
	  .type = FIELD_BOOL,
	  .offset = AT(allow_reserved),
	  .doc = "also permit ports 22 and 5900 to 5999" },
	{ .type = FIELD_END }
};
#undef AT

struct share_body {
	int64_t ttl_sec;
};
const struct field share_fields[] = { { .name = "ttl_sec",
					.type = FIELD_INT,
					.offset = offsetof(struct share_body, ttl_sec),
					.min = 1,
					.max = PREVIEW_EXPIRES_MAX_SEC,
					.fallback = PREVIEW_SHARE_DEFAULT_SEC },
				      { .type = FIELD_END } };

void previews_create(struct rest_call *call)
{
	struct preview_spec spec = { 0 };
	struct sandbox *sandbox = life_find(call, preview_fields, &spec);
	const struct preview *preview;
	struct idempotency *idem;
	struct json_writer w;
	struct err err;

	if (!sandbox || once_open(call, &idem) != 0)
		return;
	if (preview_create(sandbox, &spec, &preview, &err) < 0) {
		once_fail(call, idem, &err);
		return;
	}
	w = answer_begin(call->rest);
	preview_write(sandbox, preview, &w, NULL);
	if (once_answer(call, idem, 201, &w) < 0)
		(void)!preview_delete(sandbox, str_of(preview->id), &err);
}

void previews_list(struct rest_call *call)
{
	const struct sandbox *sandbox = answer_find(call);
	const struct preview *preview = NULL;
	struct json_writer w;

	if (!sandbox)
		return;
	w = page_begin(call);
	while ((preview = preview_next(sandbox, preview)))
		preview_write(sandbox, preview, &w, NULL);
	page_send(call, &w, NULL);
}

void previews_get(struct rest_call *call)
{
	struct sandbox *sandbox = answer_find(call);
	const struct preview *preview;
	struct json_writer w;
	struct err err;

	if (!sandbox)
		return;
	preview = preview_find(sandbox, call->args[1], &err);
	if (!preview) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	preview_write(sandbox, preview, &w, NULL);
	answer_send(call->rest, call->req, 200, &w);
}

void previews_delete(struct rest_call *call)
{
	struct sandbox *sandbox = answer_find(call);
	struct err err;

	if (!sandbox)
		return;
	if (preview_delete(sandbox, call->args[1], &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}

void previews_share(struct rest_call *call)
{
	struct share_body body = { 0 };
	struct sandbox *sandbox = life_find(call, share_fields, &body);
	char token[PREVIEW_TOKEN_SIZE], url[PREVIEW_URL_SIZE];
	char full[PREVIEW_URL_SIZE + PREVIEW_TOKEN_SIZE + 16];
	const struct preview *preview;
	struct idempotency *idem;
	int64_t expires_ms;
	struct json_writer w;
	struct err err;

	if (!sandbox || once_open(call, &idem) != 0)
		return;
	preview = preview_find(sandbox, call->args[1], &err);
	if (!preview ||
	    preview_share(sandbox, call->args[1], body.ttl_sec, token, &expires_ms, &err) < 0) {
		once_fail(call, idem, &err);
		return;
	}
	if (!preview_url(sandbox, preview->port, url))
		url[0] = '\0';
	(void)snprintf(full, sizeof(full), "%s/?cay_token=%s", url, token);
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_put_text(&w, "preview_id", preview->id);
	json_put_text(&w, "token", token);
	json_put_text(&w, "url", url[0] ? full : NULL);
	json_put_time(&w, "expires_at", expires_ms);
	json_end_object(&w);
	(void)!once_answer(call, idem, 201, &w); /* a token that no client received opens nothing */
}

void previews_unshare(struct rest_call *call)
{
	struct sandbox *sandbox = answer_find(call);
	struct err err;

	if (!sandbox)
		return;
	if (preview_unshare(sandbox, call->args[1], &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		answer_empty(call->rest, call->req, 204);
}

/* ---- ports ---- */

static void on_port(void *arg, const struct port_info *port, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct json_writer *w = &pending->list->w;

	if (!port) {
		list_answer(pending, err);
		return;
	}
	json_begin_object(w, NULL);
	json_put_int(w, "port", port->port);
	json_put_text(w, "address", port->address);
	json_put_int(w, "uid", port->uid);
	if (port->pid)
		json_put_int(w, "pid", port->pid);
	else
		json_put_null(w, "pid");
	json_put_text(w, "process", port->process[0] ? port->process : NULL);
	json_end_object(w);
}

void ports_list(struct rest_call *call)
{
	struct rest_pending *pending = list_begin(call);
	struct err err;

	if (pending)
		answer_later(pending, port_list(call->sandbox, on_port, pending, &err), &err);
}
