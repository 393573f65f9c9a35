/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/oom.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/str.h"
#include "wire/agent.h"

#define LIMIT_NONE (1ULL << 60) /* v1 shows "no limit" as the largest page-aligned number */

static int open_file(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/*
 * The descriptor holds a separate mount, whose removal takes the kernel 40 us: another reason to
 * keep it open.
 */
static void use(struct memory *memory, int dir_fd)
{
	struct statfs fs;

	if (fstatfs(dir_fd, &fs) < 0)
		return;
	memory->v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
	if (memory->v2 || fs.f_type == CGROUP_SUPER_MAGIC)
		memory->events_fd =
			open_file(dir_fd, memory->v2 ? "memory.events" : "memory.oom_control");
	if (memory->events_fd >= 0 && fcntl(dir_fd, F_SETFD, FD_CLOEXEC) == 0)
		memory->dir_fd = dir_fd;
	else
		(void)close(dir_fd);
}

void memory_open(struct memory *memory, int dir_fd)
{
	*memory = (struct memory){ .dir_fd = -1, .events_fd = -1 };
	use(memory, dir_fd);
}

void memory_let_go(struct memory *memory)
{
	if (memory->dir_fd < 0)
		return;
	memory->before = memory_kills(memory);
	(void)close(memory->events_fd);
	(void)close(memory->dir_fd);
	memory->dir_fd = memory->events_fd = -1;
	memory->away = true;
}

void memory_take_back(struct memory *memory, int dir_fd)
{
	uint64_t before = memory->before;

	if (!memory->away) {
		(void)close(dir_fd);
		return;
	}
	memory->away = false;
	memory->before = 0;
	use(memory, dir_fd);
	memory->before = before - memory_kills(memory); /* unsigned; may wrap */
}

static struct str read_text(int fd, char *space, size_t size)
{
	ssize_t n = fd < 0 ? 0 : pread(fd, space, size, 0);

	return (struct str){ space, n > 0 ? (size_t)n : 0 };
}

uint64_t memory_kills(const struct memory *memory)
{
	char space[512];
	struct str rest = read_text(memory->events_fd, space, sizeof(space)), line, key, number;
	uint64_t count;

	while (str_cut(rest, '\n', &line, &rest))
		if (str_cut(line, ' ', &key, &number) && str_is(key, "oom_kill") &&
		    str_to_u64(number, UINT64_MAX, &count) >= 0)
			return memory->before + count;
	return memory->before;
}

bool memory_claim_kill(struct memory *memory, uint64_t since)
{
	uint64_t first = MAX(memory->claimed, since);

	if (memory_kills(memory) <= first)
		return false;
	memory->claimed = first + 1;
	return true;
}

uint32_t memory_kills_since(const struct memory *memory, uint64_t since)
{
	uint64_t now = memory_kills(memory);

	return now > since ? (uint32_t)MIN(now - since, (uint64_t)AGENT_OOM_KILLS_MAX) : 0;
}

static uint64_t read_number(const struct memory *memory, const char *name)
{
	_cleanup_close_ int fd = memory->dir_fd < 0 ? -1 : open_file(memory->dir_fd, name);
	char space[32];
	struct str text = read_text(fd, space, sizeof(space)), line, rest;
	uint64_t value;

	if (!str_cut(text, '\n', &line, &rest) || str_to_u64(line, UINT64_MAX, &value) < 0)
		return 0; /* also "max" */
	return value;
}

uint64_t memory_peak(const struct memory *memory)
{
	return read_number(memory, memory->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
}

uint64_t memory_limit(const struct memory *memory)
{
	uint64_t bytes = read_number(memory, memory->v2 ? "memory.max" : "memory.limit_in_bytes");

	return bytes < LIMIT_NONE ? bytes : 0;
}
