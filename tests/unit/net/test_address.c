/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/address.h"

static bool is_public(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		return address_is_public((const struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	return address_is_public((const struct sockaddr *)&in6);
}

static void test_near(void **state)
{
	static const char *const near[] = {
		"0.0.0.0",
		"0.255.255.255",
		"10.0.0.0",
		"10.255.255.255",
		"100.64.0.0",
		"100.127.255.255",
		"127.0.0.1",
		"127.255.255.255",
		"169.254.0.0",
		"169.254.169.254",
		"172.16.0.0",
		"172.31.255.255",
		"192.0.0.8",
		"192.0.2.1",
		"192.88.99.1",
		"192.168.0.0",
		"192.168.255.255",
		"198.18.0.0",
		"198.19.255.255",
		"198.51.100.7",
		"203.0.113.9",
		"224.0.0.1",
		"239.255.255.255",
		"240.0.0.1",
		"255.255.255.255",
		"::",
		"::1",
		"::127.0.0.1",
		"::ffff:127.0.0.1",
		"::ffff:169.254.169.254",
		"::ffff:10.1.2.3",
		"64:ff9b::10.0.0.1",
		"64:ff9b:1::1",
		"100::1",
		"2001::1",
		"2001:1ff:ffff::",
		"2001:db8::1",
		"2002:7f00:1::",
		"2002:a00:1::",
		"fc00::1",
		"fdff::1",
		"fe80::1",
		"fec0::1",
		"ff02::1",
		"3fff::1",
		"fd00:ec2::254",
		"4000::1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(near); i++)
		if (is_public(near[i]))
			fail_msg("%s passes for a public address", near[i]);
}

static void test_public(void **state)
{
	/* Also those next to the ranges. */
	static const char *const far[] = {
		"1.1.1.1",	   "8.8.8.8",	       "9.255.255.255",	  "11.0.0.0",
		"100.63.255.255",  "100.128.0.0",      "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0",      "172.15.255.255",  "172.32.0.0",
		"192.167.255.255", "192.169.0.0",      "198.17.255.255",  "198.20.0.0",
		"223.255.255.255", "2606:4700::1111",  "2001:200::1",	  "2a00::1",
		"::ffff:8.8.8.8",  "64:ff9b::8.8.8.8", "2002:808:808::1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(far); i++)
		if (!is_public(far[i]))
			fail_msg("%s does not pass for a public address", far[i]);
}

static void test_other_families(void **state)
{
	struct sockaddr other = { .sa_family = AF_UNIX };

	(void)state;
	assert_false(address_is_public(&other));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_near),
					    cmocka_unit_test(test_public),
					    cmocka_unit_test(test_other_families) };

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
