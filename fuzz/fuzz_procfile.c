/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers of cgroup files and of the agent's own cpuinfo, which root inside may have written:
 * nothing is read beyond a buffer, and a generated text can be parsed again.
 */
#include <assert.h>
#include <stdlib.h>

#include "sys/procfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cpuinfo(struct str source, unsigned count)
{
	size_t most = (size_t)count * PROCFILE_CPUINFO_BLOCK, n, again;
	char *first = malloc(most), *second = malloc(most);

	assert(first && second);
	n = procfile_cpuinfo(first, most, source, count);
	assert(n <= most);
	again = n ? procfile_cpuinfo(second, most, (struct str){ first, n }, count) : 0;
	assert(again <= most);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct proc_memory memory = { .total = 1 << 30 };
	char dst[PROCFILE_MEMINFO_SIZE];
	size_t n;

	check_cpuinfo(text, size ? data[0] % 4 + 1U : 1);
	for (int v2 = 0; v2 < 2; v2++)
		procfile_memory_stat(text, v2, &memory);
	n = procfile_meminfo(dst, sizeof(dst), &memory);
	assert(n > 0 && n <= sizeof(dst));
	assert(procfile_cpu_max(text) <= PROCFILE_CPUS_MAX);
	(void)procfile_field(text, "user_usec");
	return 0;
}
