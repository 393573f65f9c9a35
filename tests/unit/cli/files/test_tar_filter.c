/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of an untrusted archive may reach tar(1). */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/files/files.h"

static size_t put(char *dst, char type, const char *size, size_t content)
{
	memset(dst, 0, 512 + content);
	(void)snprintf(dst, 100, "name");
	memcpy(dst + 124, size, MIN(strlen(size), 12));
	dst[156] = type;
	return 512 + content;
}

static int feed(const char *p, size_t n, size_t step)
{
	struct tar_filter f = { .have = 0 };
	int r = 0;

	for (size_t at = 0; at < n && r == 0; at += step)
		r = tar_filter_feed(&f, p + at, MIN(step, n - at));
	return r;
}

static void plain_entries_pass(void **state)
{
	static char archive[16384];
	size_t n = 0;

	(void)state;
	n += put(archive + n, '5', "00000000000", 0);
	n += put(archive + n, '0', "00000001001", 1024); /* 513 bytes: two blocks */
	n += put(archive + n, '2', "00000000077", 0); /* a link has no content, whatever it says */
	n += put(archive + n, 'x', "00000000012", 512);
	n += put(archive + n, '\0', "0000000001 ", 512);
	n += 1024;		       /* the end */
	memset(archive + n, 'j', 512); /* bytes after the end are ignored */
	n += 512;
	for (size_t step = 1; step < 1100; step += 7)
		assert_int_equal(feed(archive, n, step), 0);
}

static void nothing_else_passes(void **state)
{
	static const char types[] = "346789AZ\x01";
	static char archive[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(types) - 1; i++) {
		size_t n = put(archive, types[i], "00000000000", 0);

		assert_int_equal(feed(archive, n, 512), -EPROTO);
	}
	assert_int_equal(feed(archive, put(archive, '0', "0000x000000", 0), 512), -EPROTO);
	/* A size out of range. */
	assert_int_equal(
		feed(archive,
		     put(archive, '0', "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0), 512),
		-EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_entries_pass),
		cmocka_unit_test(nothing_else_passes),
	};

	return cmocka_run_group_tests_name("tar_filter", tests, NULL, NULL);
}
