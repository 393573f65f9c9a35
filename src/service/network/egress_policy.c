/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's policy: built from requests, shown, stored and copied. */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "service/network/egress_internal.h"

const char *const network_mode_names[] = { "none", "restricted", "full", NULL };
static_assert(ARRAY_LEN(network_mode_names) == NETWORK_MODE_COUNT + 1, "a name for every mode");

static void rules_free(struct egress_rule *rules, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		egress_rule_done(&rules[i]);
	free(rules);
}

void egress_policy_free(struct egress_policy *policy)
{
	if (!policy)
		return;
	rules_free(policy->allow, policy->allow_count);
	rules_free(policy->deny, policy->deny_count);
	free(policy);
}

static int rules_copy(const struct egress_rule *from, uint32_t count, struct egress_rule **ret,
		      uint32_t *ret_count)
{
	if (!count)
		return 0;
	*ret = calloc(count, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (; *ret_count < count; (*ret_count)++) {
		struct egress_rule *to = &(*ret)[*ret_count];

		*to = from[*ret_count];
		to->text = strdup(to->text);
		to->name = to->name ? strdup(to->name) : NULL;
		if (!to->text || (from[*ret_count].name && !to->name)) {
			egress_rule_done(to);
			return -ENOMEM;
		}
	}
	return 0;
}

struct egress_policy *egress_policy_copy(const struct egress_policy *policy)
{
	struct egress_policy *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->mode = policy->mode;
	copy->learn = policy->learn;
	if (rules_copy(policy->allow, policy->allow_count, &copy->allow, &copy->allow_count) == 0 &&
	    rules_copy(policy->deny, policy->deny_count, &copy->deny, &copy->deny_count) == 0)
		return copy;
	egress_policy_free(copy);
	return NULL;
}

static int parse_rules(const struct text_list *list, const char *field, struct egress_rule **ret,
		       uint32_t *ret_count, struct err *err)
{
	size_t n = list->count;
	struct egress_rule *rules;

	if (n > EGRESS_RULES_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "%s: at most %d entries", field,
			       EGRESS_RULES_MAX);
	rules = calloc(MAX(n, 1), sizeof(*rules));
	if (!rules)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	for (size_t i = 0; i < n; i++) {
		char at[64];

		(void)snprintf(at, sizeof(at), "%s[%zu]", field, i);
		if (egress_rule_parse(list->list[i], at, &rules[i], err) < 0) {
			rules_free(rules, (uint32_t)i);
			return -1;
		}
	}
	rules_free(*ret, *ret_count);
	*ret = rules;
	*ret_count = (uint32_t)n;
	return 0;
}

int egress_policy_make(const struct egress_policy *old, const struct egress_want *want,
		       struct egress_policy **ret, struct err *err)
{
	struct egress_policy *policy = old ? egress_policy_copy(old) : calloc(1, sizeof(*policy));

	if (!policy)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (want->has_mode)
		policy->mode = (uint8_t)want->mode;
	if (want->has_learn)
		policy->learn = want->learn;
	if ((want->has_allow && parse_rules(&want->allow, "network.allow", &policy->allow,
					    &policy->allow_count, err) < 0) ||
	    (want->has_deny && parse_rules(&want->deny, "network.deny", &policy->deny,
					   &policy->deny_count, err) < 0)) {
		egress_policy_free(policy);
		return -1;
	}
	*ret = policy;
	return 0;
}

static void write_rules(const struct egress_rule *rules, uint32_t count, struct json_writer *w,
			const char *key)
{
	json_begin_array(w, key);
	for (uint32_t i = 0; i < count; i++)
		json_put_text(w, NULL, rules[i].text);
	json_end_array(w);
}

/* The stored form. */
static void write_policy(const struct egress_policy *policy, struct json_writer *w)
{
	static const struct egress_policy none = { .mode = NETWORK_NONE };

	if (!policy)
		policy = &none;
	json_begin_object(w, NULL);
	json_put_text(w, "mode", network_mode_names[policy->mode]);
	write_rules(policy->allow, policy->allow_count, w, "allow");
	write_rules(policy->deny, policy->deny_count, w, "deny");
	json_put_bool(w, "learn", policy->learn);
	json_end_object(w);
}

int egress_policy_save(const struct egress_policy *policy, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	write_policy(policy, &w);
	return json_writer_end(&w);
}

/* A stored list; an element that is not text was not written by us. */
static int load_texts(const struct json *array, struct str texts[EGRESS_RULES_MAX],
		      struct text_list *ret)
{
	for (size_t i = 0; array && i < json_size(array); i++) {
		if (json_type(json_at(array, i)) != JSON_STRING)
			return -EUCLEAN;
		texts[i] = json_str(json_at(array, i));
	}
	*ret = (struct text_list){ texts, array ? json_size(array) : 0 };
	return 0;
}

int egress_policy_load(const char *text, struct egress_policy **ret)
{
	struct err err;
	_cleanup_json_ struct json *doc = json_parse(str_of(text), &err);
	struct egress_want want = {
		.has_mode = true, .has_learn = true, .has_allow = true, .has_deny = true
	};
	struct str texts[2][EGRESS_RULES_MAX];
	const struct json *lists[2];
	struct json_reader r;

	if (!doc)
		return -EUCLEAN;
	json_reader_init(&r, doc, "", &err);
	json_read_enum(&r, "mode", network_mode_names, &want.mode);
	json_read_bool(&r, "learn", &want.learn);
	lists[0] = json_read_array(&r, "allow", EGRESS_RULES_MAX);
	lists[1] = json_read_array(&r, "deny", EGRESS_RULES_MAX);
	if (json_reader_end(&r) < 0 || load_texts(lists[0], texts[0], &want.allow) < 0 ||
	    load_texts(lists[1], texts[1], &want.deny) < 0)
		return -EUCLEAN;
	return egress_policy_make(NULL, &want, ret, &err) < 0 ? -EUCLEAN : 0;
}

enum engine_link egress_policy_link(const struct egress_policy *policy)
{
	if (!policy || policy->mode == NETWORK_NONE)
		return ENGINE_LINK_NONE;
	/* Only the proxy knows names: with denied names, no other traffic may leave. */
	return policy->mode == NETWORK_FULL && !policy->deny_count ? ENGINE_LINK_ROUTED
								   : ENGINE_LINK_PROXY;
}

enum engine_link egress_link(const struct sandbox *sandbox)
{
	return egress_policy_link(sandbox->attrs.network);
}

enum network_mode egress_mode(const struct sandbox *sandbox)
{
	return sandbox->attrs.network ? (enum network_mode)sandbox->attrs.network->mode
				      : NETWORK_NONE;
}
