/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/usage and .../sandboxes/{id}/usage */
#include "service/account/usage.h"

#include "base/time.h"
#include "face/rest/call.h"
#include "service/event/bus.h"

struct usage_fields {
	struct str from, to, key, external_workspace_id;
};
#define AT(member) offsetof(struct usage_fields, member)
#define WINDOW_QUERY                                                                    \
	{ .name = "from",                                                               \
	  .type = FIELD_STR,                                                            \
	  .offset = AT(from),                                                           \
	  .min = 1,                                                                     \
	  .max = 32,                                                                    \
	  .doc = "RFC 3339 in UTC; default: everything that is stored" },               \
	{                                                                               \
		.name = "to", .type = FIELD_STR, .offset = AT(to), .min = 1, .max = 32, \
		.doc = "default: now"                                                   \
	}
const struct field sandbox_usage_query[] = { WINDOW_QUERY, { .type = FIELD_END } };
const struct field usage_query[] = {
	WINDOW_QUERY,
	{ .name = "key",
	  .type = FIELD_STR,
	  .offset = AT(key),
	  .min = 1,
	  .max = 32,
	  .doc = "the id of a key; only admin keys may name another key" },
	{ .name = "external_workspace_id",
	  .type = FIELD_STR,
	  .offset = AT(external_workspace_id),
	  .min = 1,
	  .max = SANDBOX_WORKSPACE_MAX },
	{ .type = FIELD_END }
};
#undef AT

static int parse_time(const char *name, struct str text, int64_t *ret_ms, struct err *err)
{
	if (!text.n || time_from_rfc3339(text, ret_ms) == 0)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "%s must be a time in UTC such as 2026-11-16T00:00:00Z", name);
}

static int read_query(struct rest_call *call, const struct field *fields, struct usage_query *ret,
		      struct err *err)
{
	struct usage_fields query = { .from = { NULL, 0 } };

	*ret = (struct usage_query){ .from_ms = 0, .to_ms = time_real_ms() };
	if (query_decode(call->req, fields, &query, err) < 0 ||
	    parse_time("from", query.from, &ret->from_ms, err) < 0 ||
	    parse_time("to", query.to, &ret->to_ms, err) < 0)
		return -1;
	if (ret->to_ms < ret->from_ms)
		return err_set(err, ERR_INVALID_REQUEST, "to must not be before from");
	usage_align(call->rest->service, ret);
	ret->owner = query.key;
	ret->external_workspace_id = query.external_workspace_id;
	if (key_is_admin(call->key))
		return 0;
	if (query.key.n && !str_is(query.key, call->key->id))
		return err_set(err, ERR_FORBIDDEN,
			       "only admin keys may query the usage of other keys");
	ret->owner = str_of(call->key->id);
	return 0;
}

struct writing {
	struct json_writer *w;
	struct usage_sum total;
};

static void add(struct usage_sum *total, const struct usage_sum *sum)
{
	total->sandboxes += sum->sandboxes;
	total->running_ms += sum->running_ms;
	total->paused_ms += sum->paused_ms;
	total->vcpu_ms += sum->vcpu_ms;
	total->memory_mb_ms += sum->memory_mb_ms;
	total->storage_byte_ms += sum->storage_byte_ms;
}

static void on_sum(void *arg, const struct usage_sum *sum)
{
	struct writing *writing = arg;

	add(&writing->total, sum);
	if (!writing->w)
		return;
	json_begin_object(writing->w, NULL);
	json_put_text(writing->w, "key_id", sum->owner);
	json_put_text(writing->w, "external_workspace_id", sum->external_workspace_id);
	json_put_int(writing->w, "sandboxes", sum->sandboxes);
	usage_write(sum, writing->w);
	json_end_object(writing->w);
}

static void write_window(struct json_writer *w, const struct usage_query *query)
{
	json_put_time(w, "from", query->from_ms);
	json_put_time(w, "to", query->to_ms);
}

void usage_list(struct rest_call *call)
{
	struct json_writer w = answer_begin(call->rest);
	struct writing writing = { .w = &w };
	struct usage_query query;
	struct err err;

	if (read_query(call, usage_query, &query, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	json_begin_object(&w, NULL);
	write_window(&w, &query);
	json_begin_array(&w, "data");
	if (usage_read(call->rest->service, &query, on_sum, &writing, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	json_end_array(&w);
	json_begin_object(&w, "total");
	json_put_int(&w, "sandboxes", writing.total.sandboxes);
	usage_write(&writing.total, &w);
	json_end_object(&w);
	json_put_null(&w, "next_cursor");
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}

/* Also of a sandbox that has ended, as long as its events are kept. */
void usage_of_sandbox(struct rest_call *call)
{
	struct writing writing = { .w = NULL };
	char id[SANDBOX_ID_LEN + 1];
	struct usage_query query;
	struct json_writer w;
	struct err err;
	bool alive;

	if (read_query(call, sandbox_usage_query, &query, &err) < 0 ||
	    bus_find_sandbox(call->rest->service, call->key, call->args[0], id, &alive, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	query.sandbox_id = str_of(id);
	if (usage_read(call->rest->service, &query, on_sum, &writing, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_put_text(&w, "sandbox_id", id);
	write_window(&w, &query);
	usage_write(&writing.total, &w);
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}
