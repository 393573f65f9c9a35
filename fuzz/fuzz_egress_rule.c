/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a policy: an accepted entry has one canonical form, which means the same. */
#include <assert.h>

#include "service/network/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct egress_rule rule, again;
	struct err err;

	if (size > 4096 || egress_rule_parse(text, "x", &rule, &err) < 0)
		return 0;
	assert(rule.text && (rule.kind == EGRESS_NET) == (rule.name == NULL));
	assert(egress_rule_parse(str_of(rule.text), "x", &again, &err) == 0);
	assert(strcmp(rule.text, again.text) == 0 && rule.kind == again.kind &&
	       rule.bits == again.bits && rule.port == again.port &&
	       memcmp(rule.address, again.address, sizeof(rule.address)) == 0);
	egress_rule_done(&rule);
	egress_rule_done(&again);
	return 0;
}
