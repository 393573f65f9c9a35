/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/value/ipv4.h"
#include "service/network/egress.h"

static void taken(const char *text, const char *shown)
{
	struct egress_rule rule;
	struct err err;

	if (egress_rule_parse(str_of(text), "f", &rule, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	assert_string_equal(rule.text, shown);
	egress_rule_done(&rule);
}

static void refused(const char *text)
{
	struct egress_rule rule;
	struct err err;

	if (egress_rule_parse(str_of(text), "network.allow[3]", &rule, &err) == 0)
		fail_msg("%s was taken as %s", text, rule.text);
	assert_non_null(strstr(err.message, "network.allow[3]"));
}

static void entries_have_one_form(void **state)
{
	(void)state;
	taken("example.com", "example.com");
	taken("EXAMPLE.com.", "example.com");
	taken("*.Example.com:443", "*.example.com:443");
	taken("localhost", "localhost");
	taken("xn--bcher-kva.test", "xn--bcher-kva.test");
	taken("10.0.0.0/8", "10.0.0.0/8");
	taken("10.0.0.1:22", "10.0.0.1:22");
	taken("0.0.0.0/0", "0.0.0.0/0");
	taken("2130706433", "127.0.0.1");
	taken("0x7f.1", "127.0.0.1");
	taken("0177.0.0.01", "127.0.0.1");
	taken("127.1", "127.0.0.1");
	taken("::ffff:10.0.0.1", "10.0.0.1");
	taken("[::ffff:10.0.0.0/104]:80", "10.0.0.0/8:80");
	taken("64:ff9b::a9fe:a9fe", "169.254.169.254");
	taken("2002:a9fe:a9fe::", "169.254.169.254");
	taken("2001:db8::/32", "2001:db8::/32");
	taken("[2001:db8::1]:443", "[2001:db8::1]:443");
}

static void what_means_nothing_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"*",
		"*.",
		"*.com",
		"a b",
		"a..b",
		".a",
		"-a.test",
		"a-.test",
		"a*.test",
		"*.*.test",
		"x.test:",
		"x.test:0",
		"x.test:a",
		"1.2.3.4.5",
		"10.0.0.1/8",
		"10.0.0.0/33",
		"256.1.1.1",
		"1.2.3",
		"a.1",
		"a.0x1",
		"[::1",
		"::ffff:0.0.0.0/90",
		"x.test/8",
		"http://x.y",
		"x.test:65536",
		"a\xc3\xa9.test",
		"0x",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(texts[i], "1.2.3") != 0) /* an address: 1.2.0.3 */
			refused(texts[i]);
}

static bool name_matches(const char *entry, const char *name, uint16_t port)
{
	struct egress_rule rule;
	struct err err;
	bool yes;

	assert_int_equal(egress_rule_parse(str_of(entry), "f", &rule, &err), 0);
	yes = egress_rule_has_name(&rule, str_of(name), port);
	egress_rule_done(&rule);
	return yes;
}

static void names_match_on_label_borders(void **state)
{
	(void)state;
	assert_true(name_matches("a.test", "a.test", 80));
	assert_false(name_matches("a.test", "x.a.test", 80));
	assert_false(name_matches("a.test", "xa.test", 80));
	assert_true(name_matches("*.a.test", "x.a.test", 80));
	assert_true(name_matches("*.a.test", "y.x.a.test", 80));
	assert_false(name_matches("*.a.test", "a.test", 80));
	assert_false(name_matches("*.a.test", "xa.test", 80));
	assert_false(name_matches("*.a.test", "a.test.evil", 80));
	assert_true(name_matches("a.test:443", "a.test", 443));
	assert_false(name_matches("a.test:443", "a.test", 80));
	assert_true(name_matches("a.test:443", "a.test", 0)); /* a DNS question */
}

static bool address_matches(const char *entry, uint32_t address, bool *special)
{
	struct egress_rule rule;
	struct err err;
	bool yes;

	assert_int_equal(egress_rule_parse(str_of(entry), "f", &rule, &err), 0);
	yes = egress_rule_has_address(&rule, address, 80);
	*special = egress_rule_is_special(&rule);
	egress_rule_done(&rule);
	return yes;
}

static void ranges_match_by_bits(void **state)
{
	bool special;

	(void)state;
	assert_true(address_matches("10.0.0.0/9", 0x0a7fffff, &special));
	assert_true(special);
	assert_false(address_matches("10.0.0.0/9", 0x0a800000, &special));
	assert_true(address_matches("0.0.0.0/0", 0x0a800000, &special));
	assert_false(special); /* everything does not mean the private */
	assert_false(address_matches("8.0.0.0/5", 0x10000000, &special));
	assert_true(address_matches("8.0.0.0/5", 0x0a000000, &special));
	assert_false(special);
	assert_false(address_matches("10.0.0.1:443", 0x0a000001, &special));
	assert_false(address_matches("2001:db8::/32", 0x0a000001, &special));
	assert_true(address_matches("::/0", 0x0a000001, &special));
	assert_false(special);
}

static void addresses_have_classes(void **state)
{
	static const struct {
		uint32_t address;
		enum ipv4_class class;
	} rows[] = {
		{ 0x08080808, IPV4_PUBLIC },  { 0x0a000000, IPV4_SPECIAL },
		{ 0x0affffff, IPV4_SPECIAL }, { 0x0b000000, IPV4_PUBLIC },
		{ 0x7f000001, IPV4_NEVER },   { 0xa9fea9fe, IPV4_NEVER },
		{ 0xa9fe0001, IPV4_SPECIAL }, { 0xac0fffff, IPV4_PUBLIC },
		{ 0xac100000, IPV4_SPECIAL }, { 0xac1fffff, IPV4_SPECIAL },
		{ 0xac200000, IPV4_PUBLIC },  { 0xc0a80001, IPV4_SPECIAL },
		{ 0x64400000, IPV4_SPECIAL }, { 0x646464c8, IPV4_NEVER },
		{ 0x64800000, IPV4_PUBLIC },  { 0xe0000001, IPV4_NEVER },
		{ 0xffffffff, IPV4_NEVER },   { 0x00000000, IPV4_NEVER },
		{ 0xf0000001, IPV4_SPECIAL }, { 0xa83f8110, IPV4_NEVER },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(ipv4_class(rows[i].address), rows[i].class);
}

static void a_policy_is_stored_as_it_is_shown(void **state)
{
	static const char text[] =
		"{\"mode\":\"restricted\",\"allow\":[\"a.test:443\",\"10.0.0.0/8\"],"
		"\"deny\":[\"*.b.test\"],\"learn\":true}";
	struct egress_policy *policy, *copy;
	struct buf out;

	(void)state;
	assert_int_equal(egress_policy_load(text, &policy), 0);
	copy = egress_policy_copy(policy);
	egress_policy_free(policy);
	buf_init(&out, 4096);
	assert_int_equal(egress_policy_save(copy, &out), 0);
	assert_true(str_is(buf_str(&out), text));
	egress_policy_free(copy);
	buf_done(&out);
	assert_true(egress_policy_load("{\"mode\":\"restricted\",\"allow\":[\"*\"]}", &policy) < 0);
	assert_true(egress_policy_load("{}x", &policy) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_have_one_form),
		cmocka_unit_test(what_means_nothing_is_refused),
		cmocka_unit_test(names_match_on_label_borders),
		cmocka_unit_test(ranges_match_by_bits),
		cmocka_unit_test(addresses_have_classes),
		cmocka_unit_test(a_policy_is_stored_as_it_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
