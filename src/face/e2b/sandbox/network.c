/* SPDX-License-Identifier: Apache-2.0 */
/* Translates E2B's network rules. In E2B every public address is allowed unless it is denied,
 * and allowed entries take precedence. Here a mode says what the lists mean. */
#include "face/e2b/call.h"
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

bool network_want(const struct network_body *body, struct egress_want *ret)
{
	bool closed = !body->internet || denies_all(&body->deny);

	*ret = (struct egress_want){ .has_mode = true, .has_allow = true, .has_deny = true };
	if (!closed) {
		ret->mode = NETWORK_FULL;
		ret->deny = body->deny;
	} else if (body->allow.count) {
		ret->mode = NETWORK_RESTRICTED;
		ret->allow = body->allow;
	} else {
		ret->mode = NETWORK_NONE;
	}
	return body->has_internet || body->allow.count || body->deny.count;
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
	json_put_bool(w, "allowPublicTraffic",
		      (session_ports(sandbox) & E2B_PORTS_ACCESS) == E2B_PORTS_OPEN);
	if (session_ports(sandbox) & E2B_PORTS_LOCAL)
		json_put_text(w, "maskRequestHost", "localhost:${PORT}");
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

static const struct field fields[] = { NETWORK_ROWS, NETWORK_INTERNET_ROW, { .type = FIELD_END } };

void e2b_sandboxes_network(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct sandbox_patch patch = { .has_name = false };
	struct network_body body = { .internet = false };
	struct e2b_pending *pending;
	struct err err;
	int r;

	if (!sandbox || !call_decode(call, fields, &body))
		return;
	(void)network_want(&body, &patch.network);
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
