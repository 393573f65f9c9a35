/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may reach, from E2B's words to ours. There everything public is reachable until it
 * is denied, and what is allowed beats what is denied; here a mode says what the lists are about.
 */
#include "face/e2b/call.h"
#include "face/kit/texts.h"
#include "service/network/egress.h"

static bool is_all(struct str net)
{
	return str_is(net, "0.0.0.0/0") || str_is(net, "::/0");
}

static bool denies_all(const struct text_list *deny)
{
	for (size_t i = 0; i < deny->count; i++)
		if (is_all(deny->list[i]))
			return true;
	return false;
}

static int read_list(struct e2b_call *call, const struct json *from, const char *key,
		     struct text_list *ret, struct err *err)
{
	const struct json *value = e2b_json_get(from, key);

	if (value && json_type(value) != JSON_ARRAY)
		return err_set(err, ERR_INVALID_REQUEST, "%s: must be an array", key);
	return texts_read_list(value, "network.", key, call->req->arena, ret, err);
}

/* Parts of it that the product has no like of; empty ones ask for nothing. */
static int check_rest(const struct json *from, struct err *err)
{
	static const char *const absent[] = { "rules", "egressProxy", "maskRequestHost",
					      "httpsPorts" };

	for (size_t i = 0; i < ARRAY_LEN(absent); i++) {
		const struct json *value = e2b_json_get(from, absent[i]);

		if (value && ((json_type(value) != JSON_OBJECT && json_type(value) != JSON_ARRAY) ||
			      json_size(value) > 0))
			return err_set(err, ERR_UNSUPPORTED,
				       "network.%s is not supported by this server", absent[i]);
	}
	return 0;
}

/* Ports are open to everybody unless told otherwise. */
int network_read_ports(const struct json *from, enum e2b_ports *ret, struct err *err)
{
	const struct json *value = e2b_json_get(from, "allowPublicTraffic");

	if (value && json_type(value) != JSON_BOOL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "network.allowPublicTraffic: must be true or false");
	*ret = !value || json_bool(value) ? E2B_PORTS_OPEN : E2B_PORTS_TOKEN;
	return 0;
}

/* Whatever is not named is cleared. */
int network_read(struct e2b_call *call, const struct json *from, struct egress_want *ret,
		 bool *ret_told, struct err *err)
{
	const struct json *access = e2b_json_get(call->doc, "allow_internet_access");
	struct text_list allow = { NULL, 0 }, deny = { NULL, 0 };
	bool closed;

	if (access && json_type(access) != JSON_BOOL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "allow_internet_access: must be true or false");
	if (from && json_type(from) != JSON_OBJECT)
		return err_set(err, ERR_INVALID_REQUEST, "network: must be an object");
	if (read_list(call, from, "allowOut", &allow, err) < 0 ||
	    read_list(call, from, "denyOut", &deny, err) < 0 || check_rest(from, err) < 0)
		return -1;
	closed = (access && !json_bool(access)) || denies_all(&deny);
	*ret = (struct egress_want){ .has_mode = true, .has_allow = true, .has_deny = true };
	if (!closed) {
		ret->mode = NETWORK_FULL;
		ret->deny = deny;
	} else if (allow.count) {
		ret->mode = NETWORK_RESTRICTED;
		ret->allow = allow;
	} else {
		ret->mode = NETWORK_NONE;
	}
	*ret_told = access || allow.count || deny.count;
	return 0;
}

static void put_rules(struct json_writer *w, const char *key, const struct egress_rule *rules,
		      uint32_t count, bool all)
{
	json_begin_array(w, key);
	if (all)
		json_put_text(w, NULL, "0.0.0.0/0");
	for (uint32_t i = 0; i < count; i++)
		json_put_text(w, NULL, rules[i].text);
	json_end_array(w);
}

void network_write(const struct sandbox *sandbox, struct json_writer *w)
{
	bool open = egress_mode(sandbox) == NETWORK_FULL;
	const struct egress_policy *policy;
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	policy = view.network;
	json_put_bool(w, "allowInternetAccess", open);
	json_begin_object(w, "network");
	put_rules(w, "allowOut", policy ? policy->allow : NULL, policy ? policy->allow_count : 0,
		  false);
	put_rules(w, "denyOut", policy ? policy->deny : NULL, policy ? policy->deny_count : 0,
		  !open);
	json_put_bool(w, "allowPublicTraffic", session_ports(sandbox) == E2B_PORTS_OPEN);
	json_end_object(w);
}

static void on_changed(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	(void)sandbox;
	if (e2b_pending_done(pending, err))
		e2b_answer_empty(call, 204);
}

void e2b_sandboxes_network(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct sandbox_patch patch = { .has_name = false };
	struct e2b_pending *pending;
	struct err err;
	bool told;
	int r;

	if (!sandbox)
		return;
	if (network_read(call, call->doc, &patch.network, &told, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	pending = e2b_pending_new(call);
	if (!pending)
		return;
	r = sandbox_patch(sandbox, &patch, on_changed, pending, &err);
	if (r <= 0) {
		e2b_pending_begun(pending, r, &err);
		return;
	}
	(void)e2b_pending_end(pending);
	e2b_answer_empty(call, 204);
}
