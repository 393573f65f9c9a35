/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First bytes of a connection: a resulting name is valid, and more bytes never change a decision.
 */
#include <assert.h>

#include "face/egress/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sniff first, whole;
	char name[EGRESS_NAME_MAX + 1];
	size_t step = size / 16 + 1;

	if (size > 2 * SNIFF_MAX)
		return 0;
	assert(sniff(data, size, true, &whole));
	if (whole.name[0])
		assert(egress_name_parse(str_of(whole.name), name) == 0 &&
		       strcmp(name, whole.name) == 0 && whole.protocol != EGRESS_TCP);
	for (size_t n = 0; n <= size; n += step) {
		if (!sniff(data, n, false, &first))
			continue;
		assert(first.protocol == whole.protocol && strcmp(first.name, whole.name) == 0 &&
		       first.odd == whole.odd && first.broken == whole.broken);
		break;
	}
	return 0;
}
