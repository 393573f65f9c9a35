/* SPDX-License-Identifier: Apache-2.0 */
/* Usage of a slot, and how long it waited for resources. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/cgroup/slot.h"

uint64_t cgroup_slot_read(const struct cgroup_tree *tree, int which, unsigned slot,
			  const char *file, const char *field)
{
	char path[64];
	uint64_t value = 0;
	int r = tree->fd[which] < 0 ? -ENOENT : slot_path(path, slot, file);

	if (r >= 0)
		r = field ? file_read_field(tree->fd[which], path, field, &value)
			  : file_read_u64(tree->fd[which], path, &value);
	return r < 0 ? 0 : value;
}

uint64_t cgroup_oom_kills(const struct cgroup_tree *tree, unsigned slot)
{
	return cgroup_slot_read(tree, CGROUP_MEMORY, slot,
				tree->v2[CGROUP_MEMORY] ? "memory.events" : "memory.oom_control",
				"oom_kill");
}

/* Parses "avg10=1.23 avg60=0.00 avg300=0.00 total=4567" after "some " or "full ". */
static int parse_line(const char *text, const char *kind, uint64_t *ret_us, uint32_t *ret_percent)
{
	unsigned whole, hundredths;
	unsigned long long total;
	const char *at = strstr(text, kind), *sum = at ? strstr(at, " total=") : NULL;

	if (!sum || sscanf(at + strlen(kind), " avg10=%u.%2u", &whole, &hundredths) != 2 ||
	    sscanf(sum, " total=%llu", &total) != 1 || whole > 100 || hundredths > 99)
		return -EINVAL;
	*ret_us = total;
	*ret_percent = whole * 100 + hundredths;
	return 0;
}

int cgroup_stall_parse(const char *text, struct stall *ret)
{
	struct stall stall = { 0 };
	int r = parse_line(text, "some", &stall.some_us, &stall.some_percent);

	if (r < 0)
		return r;
	/* cpu.pressure has no second line before Linux 5.13. */
	if (strstr(text, "full") &&
	    parse_line(text, "full", &stall.full_us, &stall.full_percent) < 0)
		return -EINVAL;
	*ret = stall;
	return 0;
}

/* Kernels without PSI lack these files; with psi=0, reading them fails with EOPNOTSUPP. */
static bool read_stall(const struct cgroup_tree *tree, unsigned slot, struct cgroup_stat *stat)
{
	static const char *const files[STALL_COUNT] = {
		[STALL_CPU] = "cpu.pressure",
		[STALL_MEMORY] = "memory.pressure",
		[STALL_IO] = "io.pressure",
	};

	if (tree->v2_fd < 0)
		return false;
	for (int i = 0; i < STALL_COUNT; i++) {
		char path[64], text[256];

		if (slot_path(path, slot, files[i]) < 0 ||
		    file_read(tree->v2_fd, path, text, sizeof(text)) < 0 ||
		    cgroup_stall_parse(text, &stat->stall[i]) < 0)
			return false;
	}
	return true;
}

int cgroup_stat(const struct cgroup_tree *tree, unsigned slot, struct cgroup_stat *ret)
{
	bool v2 = tree->v2[CGROUP_MEMORY];

	*ret = (struct cgroup_stat){
		.oom_kills = cgroup_oom_kills(tree, slot),
		.memory_bytes =
			cgroup_slot_read(tree, CGROUP_MEMORY, slot,
					 v2 ? "memory.current" : "memory.usage_in_bytes", NULL),
		.memory_peak_bytes =
			cgroup_slot_read(tree, CGROUP_MEMORY, slot,
					 v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL),
		.pids = cgroup_slot_read(tree, CGROUP_PIDS, slot, "pids.current", NULL),
	};
	if (tree->v2[CGROUP_CPUACCT])
		ret->cpu_us =
			cgroup_slot_read(tree, CGROUP_CPUACCT, slot, "cpu.stat", "usage_usec");
	else
		ret->cpu_us =
			cgroup_slot_read(tree, CGROUP_CPUACCT, slot, "cpuacct.usage", NULL) / 1000;
	ret->has_stall = read_stall(tree, slot, ret);
	return 0;
}

uint64_t cgroup_unwritten(const struct cgroup_tree *tree, unsigned slot)
{
	bool v2 = tree->v2[CGROUP_MEMORY];
	char path[64];
	uint64_t dirty = 0, under_way = 0;
	int fd = tree->fd[CGROUP_MEMORY];

	if (fd < 0 || slot_path(path, slot, "memory.stat") < 0 ||
	    file_read_field(fd, path, v2 ? "file_dirty" : "total_dirty", &dirty) < 0 ||
	    file_read_field(fd, path, v2 ? "file_writeback" : "total_writeback", &under_way) < 0)
		return UINT64_MAX;
	return dirty + under_way;
}
