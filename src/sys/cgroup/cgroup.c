/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <sys/sysinfo.h>

#include "sys/cgroup/slot.h"
#include "sys/file.h"

#define CPU_PERIOD_US 100000U
#define CPU_QUOTA_LEAST_US 1000U  /* minimum that the kernel accepts */
#define PIDS_KEEP_FREE_PERCENT 15 /* share of the host's pid_max that sandboxes cannot use */
#define MEMORY_KEEP_FREE_PERCENT 8
#define MEMORY_KEEP_FREE_BYTES (128ULL << 20) /* on small hosts, for the daemons and the system */
#define MEMORY_KEEP_MOST_PERCENT 25
#define GROUPS_BELOW_MAX "4096"
#define LEFTOVER_MAX_BYTES (512 << 10) /* charge of one user that may pass to the next */

static const struct {
	const char *v1_dir;  /* below /sys/fs/cgroup */
	const char *v2_name; /* in cgroup.controllers; NULL: part of the v2 core */
} controllers[CGROUP_COUNT] = {
	[CGROUP_CPU] = { "cpu", "cpu" },
	[CGROUP_CPUACCT] = { "cpuacct", NULL },
	[CGROUP_MEMORY] = { "memory", "memory" },
	[CGROUP_PIDS] = { "pids", "pids" },
	[CGROUP_FREEZER] = { "freezer", NULL },
	[CGROUP_DEVICES] = { "devices", "" }, /* v2 has no controller: device.c uses BPF */
	[CGROUP_IO] = { NULL, "io" },
};

/* The devices that every sandbox may open: null, zero, full, random, urandom, tty, ptmx, pts. */
static const char *const device_rules[] = { "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm",
					    "c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm" };

static int make_dir(int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static bool word_in(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0'))
			return true;
	return false;
}

static int make_parent(int hierarchy_fd, unsigned instance)
{
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "cay-%u", instance);
	r = make_dir(hierarchy_fd, name);
	return r < 0 ? r : cgroup_open_dir(hierarchy_fd, name);
}

static int open_v1(struct cgroup_tree *tree, int root_fd, unsigned instance, int which)
{
	const char *dir = controllers[which].v1_dir;
	_cleanup_close_ int fd = dir ? cgroup_open_dir(root_fd, dir) : -1;
	int r;

	if (fd < 0 || faccessat(fd, "tasks", F_OK, 0) < 0)
		return -ENOENT;
	r = make_parent(fd, instance);
	if (r < 0)
		return r;
	tree->fd[which] = r;
	return 0;
}

static int open_place(int root_fd, const char *place)
{
	_cleanup_close_ int fd = cgroup_open_unified(root_fd);
	char path[CGROUP_PATH_SIZE + 1];

	if (fd < 0)
		return fd;
	(void)snprintf(path, sizeof(path), ".%s", place);
	return cgroup_open_dir(fd, path);
}

/* Enables a controller for the children of the place and of cay-N in it. */
static int enable_v2(struct cgroup_tree *tree, int place_fd, unsigned instance)
{
	char have[256];
	bool any = false;
	int r = file_read(place_fd, "cgroup.controllers", have, sizeof(have));

	if (r < 0)
		return r;
	for (int i = 0; i < CGROUP_COUNT; i++) {
		const char *name = controllers[i].v2_name;

		if (tree->fd[i] >= 0 || !name || !*name || !word_in(have, name))
			continue;
		r = cgroup_enable(place_fd, name);
		if (r < 0 && i != CGROUP_IO)
			return r;
		tree->v2[i] = r >= 0;
		any |= r >= 0;
	}
	if (!any)
		return 0;
	tree->v2_fd = make_parent(place_fd, instance);
	r = tree->v2_fd;
	for (int i = 0; r >= 0 && i < CGROUP_COUNT; i++)
		if (tree->v2[i])
			r = cgroup_enable(tree->v2_fd, controllers[i].v2_name);
	return r;
}

static int open_v2(struct cgroup_tree *tree, int root_fd, const char *place, unsigned instance)
{
	_cleanup_close_ int fd = open_place(root_fd, place);
	const char *top = faccessat(root_fd, "cgroup.controllers", F_OK, 0) == 0 ? "" : "/unified";
	int r;

	if (fd == -ENOENT && !cgroup_v2_has_controllers(root_fd))
		return 0;
	r = fd < 0 ? fd : enable_v2(tree, fd, instance);
	if (r < 0 || tree->v2_fd < 0)
		return r;
	r = snprintf(tree->v2_path, sizeof(tree->v2_path), CGROUP_ROOT "%s%s/cay-%u", top,
		     strcmp(place, "/") == 0 ? "" : place, instance);
	if (r >= (int)sizeof(tree->v2_path))
		return -ENAMETOOLONG;
	/* Accounting and freezing are part of the v2 core. */
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (tree->fd[i] < 0 && !controllers[i].v2_name)
			tree->v2[i] = true;
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (tree->v2[i])
			tree->fd[i] = fcntl(tree->v2_fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

/*
 * The memory that all sandboxes may use together: a share of the host's, or of the limit of the
 * group above ours, as in a container or a unit with a limit.
 */
static uint64_t memory_for_all(const struct cgroup_tree *tree, uint64_t total)
{
	uint64_t above = UINT64_MAX, keep;

	if (file_read_u64(tree->fd[CGROUP_MEMORY],
			  tree->v2[CGROUP_MEMORY] ? "../memory.max" : "../memory.limit_in_bytes",
			  &above) >= 0)
		total = MIN(total, above);
	keep = MAX(total / 100 * MEMORY_KEEP_FREE_PERCENT, MEMORY_KEEP_FREE_BYTES);
	return total - MIN(keep, total / 100 * MEMORY_KEEP_MOST_PERCENT);
}

/* Limits all sandboxes together, so that the host can still fork and has free memory. */
static int bound_all(const struct cgroup_tree *tree)
{
	char text[32];
	uint64_t pid_max;
	struct sysinfo info;
	uint64_t memory;

	if (tree->fd[CGROUP_PIDS] >= 0) {
		int r = file_read_u64(AT_FDCWD, "/proc/sys/kernel/pid_max", &pid_max);

		if (r < 0)
			return r;
		(void)snprintf(text, sizeof(text), "%" PRIu64,
			       pid_max * (100 - PIDS_KEEP_FREE_PERCENT) / 100);
		r = file_write(tree->fd[CGROUP_PIDS], "pids.max", text);
		if (r < 0)
			return r;
	}
	if (tree->fd[CGROUP_MEMORY] < 0 || sysinfo(&info) < 0)
		return 0;
	memory = memory_for_all(tree, (uint64_t)info.totalram * info.mem_unit);
	(void)snprintf(text, sizeof(text), "%" PRIu64, memory);
	return file_write(tree->fd[CGROUP_MEMORY],
			  tree->v2[CGROUP_MEMORY] ? "memory.max" : "memory.limit_in_bytes", text);
}

int cgroup_open(int root_fd, const char *place, unsigned instance, struct cgroup_tree *ret)
{
	struct cgroup_tree tree = { .v2_fd = -1, .groups_view_fd = -1, .memory_view_fd = -1 };
	int r;

	for (int i = 0; i < CGROUP_COUNT; i++)
		tree.fd[i] = -1;
	tree.cpuset_fd = -1;
	for (int i = 0; i < CGROUP_SHOWN_COUNT; i++)
		tree.shown_fd[i] = -1;
	for (int i = 0; i < CGROUP_COUNT; i++) {
		r = open_v1(&tree, root_fd, instance, i);
		if (r < 0 && r != -ENOENT)
			goto fail;
	}
	r = open_v2(&tree, root_fd, place, instance);
	if (r >= 0)
		r = bound_all(&tree);
	if (r < 0)
		goto fail;
	*ret = tree;
	return 0;
fail:
	cgroup_close(&tree);
	return r;
}

void cgroup_close(struct cgroup_tree *tree)
{
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (tree->fd[i] >= 0)
			(void)close(tree->fd[i]);
	if (tree->v2_fd >= 0)
		(void)close(tree->v2_fd);
	if (tree->groups_view_fd >= 0)
		(void)close(tree->groups_view_fd);
	if (tree->memory_view_fd >= 0)
		(void)close(tree->memory_view_fd);
	if (tree->cpuset_fd >= 0)
		(void)close(tree->cpuset_fd);
	for (int i = 0; i < CGROUP_SHOWN_COUNT; i++)
		if (tree->shown_fd[i] >= 0)
			(void)close(tree->shown_fd[i]);
}

static void remove_instance(int hierarchy_fd, unsigned instance)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "cay-%u", instance);
	(void)cgroup_remove_group(hierarchy_fd, name);
}

int cgroup_remove_tree(int root_fd, const char *place, unsigned instance)
{
	for (int i = 0; i < CGROUP_COUNT; i++) {
		const char *dir = controllers[i].v1_dir;
		_cleanup_close_ int fd = dir ? cgroup_open_dir(root_fd, dir) : -1;

		if (fd >= 0)
			remove_instance(fd, instance);
	}
	_cleanup_close_ int cpuset = cgroup_open_dir(root_fd, "cpuset");
	if (cpuset >= 0)
		remove_instance(cpuset, instance);
	_cleanup_close_ int unified = open_place(root_fd, place);
	if (unified >= 0)
		remove_instance(unified, instance);
	return 0;
}

static int slot_write_u64(const struct cgroup_tree *tree, int which, unsigned slot,
			  const char *file, uint64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return slot_write(tree, which, slot, file, text);
}

/* The agent creates one level of groups, one per process. Nothing beyond that is allowed. */
static void bound_below(const struct cgroup_tree *tree, unsigned slot)
{
	char path[64];

	if (slot_path(path, slot, "cgroup.max.depth") >= 0)
		(void)!file_write(tree->v2_fd, path, "1");
	if (slot_path(path, slot, "cgroup.max.descendants") >= 0)
		(void)!file_write(tree->v2_fd, path, GROUPS_BELOW_MAX);
}

int cgroup_make(const struct cgroup_tree *tree, unsigned slot)
{
	char name[16];
	int r;

	(void)snprintf(name, sizeof(name), "%u", slot);
	for (int i = 0; i < CGROUP_COUNT; i++) {
		if (tree->fd[i] < 0)
			continue;
		r = make_dir(tree->fd[i], name);
		if (r < 0)
			return r;
	}
	if (tree->v2_fd >= 0)
		bound_below(tree, slot);
	r = tree->cpuset_fd < 0 ? 0 : make_dir(tree->cpuset_fd, name);
	if (r < 0)
		return r;
	if (tree->fd[CGROUP_DEVICES] < 0 || tree->v2[CGROUP_DEVICES])
		return 0;
	r = slot_write(tree, CGROUP_DEVICES, slot, "devices.deny", "a");
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(device_rules); i++)
		r = slot_write(tree, CGROUP_DEVICES, slot, "devices.allow", device_rules[i]);
	return r;
}

int cgroup_own(const struct cgroup_tree *tree, unsigned slot, uint32_t id)
{
	char path[64];
	int r, fd = tree->fd[CGROUP_FREEZER];

	if (fd < 0)
		return 0;
	r = slot_path(path, slot, "");
	if (r < 0)
		return r;
	if (fchownat(fd, path, id, id, 0) < 0)
		return -errno;
	if (!tree->v2[CGROUP_FREEZER])
		return 0;
	/* v2 also requires write access to that of the common ancestor */
	r = slot_path(path, slot, "cgroup.procs");
	if (r < 0)
		return r;
	return fchownat(fd, path, id, id, 0) < 0 ? -errno : 0;
}

int cgroup_remove(const struct cgroup_tree *tree, unsigned slot)
{
	char name[16];
	int r = 0;

	(void)snprintf(name, sizeof(name), "%u", slot);
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (tree->fd[i] >= 0) {
			int error = cgroup_remove_group(tree->fd[i], name);

			r = error < 0 ? error : r;
		}
	if (r >= 0 && tree->cpuset_fd >= 0)
		r = cgroup_remove_group(tree->cpuset_fd, name);
	return r;
}

/*
 * v1 requires limit <= memsw limit at all times: raise memsw first when growing, lower the limit
 * first when shrinking. The correct order is the one that does not fail with EINVAL.
 */
static int limit_memory_v1(const struct cgroup_tree *tree, unsigned slot,
			   const struct cgroup_limits *limits)
{
	static const char plain[] = "memory.limit_in_bytes",
			  with_swap[] = "memory.memsw.limit_in_bytes";
	uint64_t bytes = limits->memory_bytes, both = bytes + limits->swap_bytes;
	int r = slot_write_u64(tree, CGROUP_MEMORY, slot, plain, bytes);
	int swap;

	if (r == -EINVAL) {
		swap = slot_write_u64(tree, CGROUP_MEMORY, slot, with_swap, both);
		return swap < 0 ? swap : slot_write_u64(tree, CGROUP_MEMORY, slot, plain, bytes);
	}
	if (r < 0)
		return r;
	swap = slot_write_u64(tree, CGROUP_MEMORY, slot, with_swap, both);
	return swap == -ENOENT ? 0 : swap; /* hosts without swap accounting do not have the file */
}

/*
 * memory.oom.group stays 0: the kernel kills one process, whose command ends with the reason "oom",
 * and the sandbox continues. v1 always behaves like this.
 */
static int limit_memory(const struct cgroup_tree *tree, unsigned slot,
			const struct cgroup_limits *limits)
{
	int r;

	if (!tree->v2[CGROUP_MEMORY])
		return limit_memory_v1(tree, slot, limits);
	r = slot_write_u64(tree, CGROUP_MEMORY, slot, "memory.max", limits->memory_bytes);
	if (r < 0)
		return r;
	r = slot_write_u64(tree, CGROUP_MEMORY, slot, "memory.swap.max", limits->swap_bytes);
	return r == -ENOENT ? 0 : r; /* likewise */
}

static int limit_cpu(const struct cgroup_tree *tree, unsigned slot, uint32_t millis)
{
	uint64_t quota_us = (uint64_t)millis * CPU_PERIOD_US / 1000;
	char text[48];

	quota_us = MAX(quota_us, (uint64_t)CPU_QUOTA_LEAST_US);
	if (!tree->v2[CGROUP_CPU])
		return slot_write_u64(tree, CGROUP_CPU, slot, "cpu.cfs_quota_us", quota_us);
	(void)snprintf(text, sizeof(text), "%" PRIu64 " %u", quota_us, CPU_PERIOD_US);
	return slot_write(tree, CGROUP_CPU, slot, "cpu.max", text);
}

void cgroup_hurry(const struct cgroup_tree *tree, unsigned slot, bool hurry)
{
	bool v2 = tree->v2[CGROUP_CPU];

	if (tree->fd[CGROUP_CPU] < 0)
		return;
	if (v2)
		(void)!slot_write(tree, CGROUP_CPU, slot, "cpu.weight", hurry ? "10000" : "100");
	else
		(void)!slot_write(tree, CGROUP_CPU, slot, "cpu.shares", hurry ? "262144" : "1024");
}

int cgroup_limit(const struct cgroup_tree *tree, unsigned slot, const struct cgroup_limits *limits)
{
	int r = 0;

	if (tree->fd[CGROUP_CPU] >= 0)
		r = limit_cpu(tree, slot, limits->cpu_milli);
	if (r >= 0 && tree->fd[CGROUP_MEMORY] >= 0)
		r = limit_memory(tree, slot, limits);
	if (r >= 0 && tree->fd[CGROUP_PIDS] >= 0)
		r = slot_write_u64(tree, CGROUP_PIDS, slot, "pids.max", limits->pids_max);
	return r;
}

int cgroup_note(const struct cgroup_tree *tree, unsigned slot, const char *name, uint64_t value)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	int r = tree->fd[CGROUP_FREEZER] < 0 ? -ENOENT : slot_path(path, slot, "");

	if (r < 0)
		return r;
	fd = openat(tree->fd[CGROUP_FREEZER], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsetxattr(fd, name, &value, sizeof(value), 0) < 0 ? -errno : 0;
}

bool cgroup_is_reusable(const struct cgroup_tree *tree)
{
	return !tree->v2[CGROUP_MEMORY];
}

/*
 * Memory that stays charged, mostly cached files of templates, keeps a removed v2 group in the
 * kernel. It is reclaimed before the group is removed.
 */
static void recycle_v2(const struct cgroup_tree *tree, unsigned slot)
{
	uint64_t bytes = cgroup_slot_read(tree, CGROUP_MEMORY, slot, "memory.current", NULL);

	if (bytes > LEFTOVER_MAX_BYTES)
		(void)!slot_write_u64(tree, CGROUP_MEMORY, slot, "memory.reclaim", bytes);
}

void cgroup_recycle(const struct cgroup_tree *tree, unsigned slot)
{
	(void)!cgroup_freeze(tree, slot, false);
	cgroup_clear_below(tree, slot);
	if (tree->fd[CGROUP_CPUACCT] >= 0 && !tree->v2[CGROUP_CPUACCT])
		(void)!slot_write(tree, CGROUP_CPUACCT, slot, "cpuacct.usage", "0");
	if (tree->fd[CGROUP_MEMORY] < 0)
		return;
	if (tree->v2[CGROUP_MEMORY]) {
		recycle_v2(tree, slot);
		return;
	}
	if (cgroup_slot_read(tree, CGROUP_MEMORY, slot, "memory.usage_in_bytes", NULL) >
	    LEFTOVER_MAX_BYTES)
		(void)!slot_write(tree, CGROUP_MEMORY, slot, "memory.force_empty", "0");
	(void)!slot_write(tree, CGROUP_MEMORY, slot, "memory.max_usage_in_bytes", "0");
	(void)!slot_write(tree, CGROUP_MEMORY, slot, "memory.failcnt", "0");
}
