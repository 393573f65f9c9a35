/* SPDX-License-Identifier: Apache-2.0 */
/* Input: the file with the disk's numbers, which root inside may have written; or a block size. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/df/df.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct df_format format = { .human_base = 1024, .unit = "" };
	uint64_t limit = 0, used = 0;
	char dst[DF_TEXT_SIZE], *text = malloc(size + 1);

	assert(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (df_block_bytes(text, &format.block_bytes) == 0)
		assert(format.block_bytes);
	if (df_disk_parse((struct str){ text, size }, &limit, &used))
		assert(limit);
	df_count(dst, limit, &format);
	df_percent(dst, used, limit - MIN(used, limit));
	assert(strlen(dst) < sizeof(dst));
	free(text);
	return 0;
}
