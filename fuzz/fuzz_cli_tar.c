/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive from a sandbox, on its way to tar(1) on the user's machine: the verdict does not
 * depend on how the bytes arrive. The first byte is the size of the pieces.
 */
#include <assert.h>

#include "cli/files/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(const char *p, size_t n, size_t step, struct tar_filter *f)
{
	int r = 0;

	*f = (struct tar_filter){ .have = 0 };
	for (size_t at = 0; at < n && r == 0; at += step)
		r = tar_filter_feed(f, p + at, MIN(step, n - at));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tar_filter whole, parts;
	const char *p = (const char *)data + 1;
	int a, b;

	if (size < 2)
		return 0;
	a = feed(p, size - 1, size, &whole);
	b = feed(p, size - 1, data[0] + 1U, &parts);
	assert(a == b);
	assert(a < 0 || (whole.ended == parts.ended && whole.skip == parts.skip &&
			 whole.have == parts.have));
	return 0;
}
