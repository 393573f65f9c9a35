/* SPDX-License-Identifier: Apache-2.0 */
#include "service/template/template.h"

#include "face/rest/call.h"

#define LOG_PIECE_BYTES (64 * 1024)

/* Names are sorted: the cursor is the last name of the page before. */
static void write_page(struct rest_call *call, const char *names, size_t count, struct str cursor,
		       int64_t limit)
{
	struct json_writer w = page_begin(call);
	const char *last = NULL;
	bool more = false;
	struct err err;

	for (size_t i = 0; i < count && !more; i++, names += strlen(names) + 1) {
		struct template *tpl;

		if (cursor.n && strncmp(names, cursor.p, cursor.n) <= 0 &&
		    strlen(names) <= cursor.n)
			continue;
		tpl = template_find(call->rest->service, str_of(names), &err);
		if (!tpl)
			continue;
		more = limit-- == 0;
		if (more)
			break;
		template_write(tpl, &w, NULL);
		last = names;
	}
	page_send(call, &w, more ? last : NULL);
}

void templates_list(struct rest_call *call)
{
	struct str cursor = { "", 0 };
	int64_t limit = 100;
	char *names = NULL;
	size_t count = 0;
	struct err err;

	if (query_int(call->req, "limit", 1, PAGE_LIMIT_MAX, &limit, &err) < 0 ||
	    query_text(call->req, "cursor", &cursor, &err) < 0 ||
	    template_names(call->rest->service, &names, &count, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		write_page(call, names, count, cursor, limit);
	free(names);
}

void templates_get(struct rest_call *call)
{
	struct err err;
	const struct template *tpl = template_find(call->rest->service, call->args[0], &err);
	struct json_writer w;

	if (!tpl) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	template_write(tpl, &w, NULL);
	answer_send(call->rest, call->req, 200, &w);
}

void templates_delete(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (pending)
		answer_later(pending,
			     template_remove(call->rest->service, call->key, call->args[0],
					     answer_done, pending, &err),
			     &err);
}

static void write_build(struct rest_call *call, struct json_writer *w, const struct build *build,
			int64_t cursor)
{
	char *text = malloc(LOG_PIECE_BYTES);
	size_t n = 0;

	json_begin_object(w, NULL);
	build_write(build, w);
	if (!text || build_log(call->rest->service, build, &cursor, text, LOG_PIECE_BYTES, &n) < 0)
		n = 0;
	json_put_str(w, "log", (struct str){ text ? text : "", n });
	json_put_int(w, "log_cursor", MAX(cursor, 0));
	json_end_object(w);
	free(text);
}

void builds_create(struct rest_call *call)
{
	struct rest_pending *pending;
	const struct build *build = NULL;
	struct idempotency *idem;
	struct json_writer w;
	struct err err;

	if (field_decode(empty_fields, call->doc, "", call->req->arena, call, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = once_begin(call);
	if (!pending)
		return;
	if (build_start(call->rest->service, call->args[0], &build, &err) < 0) {
		once_refuse(pending, &err);
		return;
	}
	idem = pending->idem;
	w = answer_begin(call->rest);
	write_build(call, &w, build, 0);
	idem_answer(call->rest, pending_end(pending), idem, 202, &w);
}

void builds_get(struct rest_call *call)
{
	const struct build *build = build_find(call->rest->service, call->args[0]);
	struct json_writer w;
	int64_t cursor = -1;
	struct err err;

	if (query_int(call->req, "cursor", 0, INT64_MAX, &cursor, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	if (!build || !str_is(call->args[1], build->id)) {
		(void)err_set(&err, ERR_TEMPLATE_NOT_FOUND, "no build '%.*s' of template '%.*s'",
			      (int)MIN(call->args[1].n, 64), call->args[1].p,
			      (int)MIN(call->args[0].n, 64), call->args[0].p);
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	write_build(call, &w, build, cursor);
	answer_send(call->rest, call->req, 200, &w);
}

void builds_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	const struct build *build = build_find(service, call->args[0]);
	struct json_writer w;
	struct err err;

	if (!build && !template_find(service, call->args[0], &err) &&
	    build_check(service, call->args[0], &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = page_begin(call);
	if (build)
		write_build(call, &w, build, -1);
	page_send(call, &w, NULL);
}
