/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/digits.h"
#include "agent/dirent.h"
#include "base/time.h"

/* Process starts within this time share one refresh, which takes about 0.1 ms. */
#define FRESH_US 100000LL
#define REFRESH_FIRST_US 1000000LL
#define REFRESH_LAST_US 8000000LL
#define IDLE_USED_US 1000 /* less processor time since the last refresh counts as idle */
#define LOAD_STEP_US 5000000LL
#define LOAD_STEPS_MAX 720 /* an hour; older values no longer matter */
#define SCAN_MAX 128	   /* processes inspected for their run state */
#define TEXT_BYTES 8192	   /* per cgroup file; memory.stat has about 2 KiB */
#define STAT_BYTES 65536
#define V1_ROOT "/sys/fs/cgroup/"

/* Owner: inside_run(); the agent has one thread. */
static char text_space[TEXT_BYTES];

static struct str read_fd(int fd)
{
	ssize_t n = fd < 0 ? 0 : read(fd, text_space, sizeof(text_space));

	if (fd >= 0)
		(void)close(fd);
	return (struct str){ text_space, n > 0 ? (size_t)n : 0 };
}

/* One text at a time: the next one reuses the space. */
static struct str read_text(int dir_fd, const char *path)
{
	return read_fd(openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

static uint64_t first_number(struct str text)
{
	struct str line = text, rest;
	uint64_t value;

	(void)str_cut(text, '\n', &line, &rest);
	return str_to_u64(line, UINT64_MAX, &value) < 0 ? 0 : value;
}

static uint64_t read_number(int dir_fd, const char *path)
{
	return first_number(read_text(dir_fd, path));
}

/* ---- writing ---- */

/*
 * In place, because a mounted file cannot be replaced, and in one write. O_NONBLOCK, because root
 * inside owns the file and could hold a lease on it, for which an open would wait.
 */
static void write_file(struct inside *inside, int proc_fd, const char *name, const char *text,
		       size_t n)
{
	_cleanup_close_ int fd =
		n ? openat(proc_fd, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return;
	if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC) {
		inside->off = true;
		return;
	}
	if (pwrite(fd, text, n, 0) == (ssize_t)n && fstat(fd, &st) == 0 && st.st_size > (off_t)n)
		(void)!ftruncate(fd, (off_t)n);
}

static void write_meminfo(struct agent *agent)
{
	struct memory *memory = &agent->memory;
	uint64_t limit = agent->inside.memory_limit;
	struct proc_memory values = { 0 };
	char text[PROCFILE_MEMINFO_SIZE];
	struct sysinfo host;

	if (sysinfo(&host) == 0)
		values.total = (uint64_t)host.totalram * host.mem_unit;
	if (limit && limit < values.total)
		values.total = limit;
	if (memory->dir_fd >= 0) {
		values.used = read_number(memory->dir_fd,
					  memory->v2 ? "memory.current" : "memory.usage_in_bytes");
		procfile_memory_stat(read_text(memory->dir_fd, "memory.stat"), memory->v2, &values);
	}
	write_file(&agent->inside, agent->proc_fd, "meminfo", text,
		   procfile_meminfo(text, sizeof(text), &values));
}

/* ---- processors ---- */

static unsigned count_cpus(const struct agent *agent)
{
	unsigned limit, host = (unsigned)get_nprocs();

	if (agent->memory.v2)
		limit = procfile_cpu_max(read_text(agent->memory.dir_fd, "cpu.max"));
	else
		limit = procfile_cpus(read_number(AT_FDCWD, V1_ROOT "cpu/cpu.cfs_quota_us"),
				      read_number(AT_FDCWD, V1_ROOT "cpu/cpu.cfs_period_us"));
	if (!limit)
		limit = agent->inside.cpus;
	return limit ? limit : MAX(host, 1U);
}

static void take_times(struct agent *agent)
{
	struct inside *inside = &agent->inside;
	uint64_t user, system;

	if (agent->memory.v2) {
		struct str text = read_text(agent->memory.dir_fd, "cpu.stat");

		user = procfile_field(text, "user_usec");
		system = procfile_field(text, "system_usec");
	} else {
		user = read_number(AT_FDCWD, V1_ROOT "cpuacct/cpuacct.usage_user") / 1000;
		system = read_number(AT_FDCWD, V1_ROOT "cpuacct/cpuacct.usage_sys") / 1000;
	}
	if (!inside->based) {
		inside->user_base_us = user - inside->user_us; /* unsigned; may wrap */
		inside->system_base_us = system - inside->system_us;
		inside->based = true;
	}
	user -= inside->user_base_us;
	system -= inside->system_base_us;
	/*
	 * The kernel's split into user and system time may decrease slightly; these values do not.
	 */
	if ((int64_t)(user - inside->user_us) > 0)
		inside->user_us = user;
	if ((int64_t)(system - inside->system_us) > 0)
		inside->system_us = system;
}

static int64_t now_us(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void write_stat(struct agent *agent)
{
	static char text[STAT_BYTES];
	struct inside *inside = &agent->inside;
	int64_t uptime_us = now_us(CLOCK_BOOTTIME);
	struct proc_cpu cpu = {
		.count = inside->cpus,
		.user_us = inside->user_us,
		.system_us = inside->system_us,
		.uptime_us = (uint64_t)MAX(uptime_us, 0),
		/* The kernel's own sum, in this time namespace; ps adds start times to it. */
		.boot_s = (now_us(CLOCK_REALTIME) - uptime_us) / 1000000,
		.started = inside->load.last_pid,
		.running = MAX(inside->load.running, 1U),
	};

	write_file(inside, agent->proc_fd, "stat", text, procfile_stat(text, sizeof(text), &cpu));
}

/* The file itself contains the text of the first processor, which the warden wrote. */
static void write_cpuinfo(struct agent *agent, unsigned count)
{
	struct str now = read_text(agent->proc_fd, "cpuinfo");
	size_t size = (size_t)count * PROCFILE_CPUINFO_BLOCK;
	char *text = malloc(size);

	if (text)
		write_file(&agent->inside, agent->proc_fd, "cpuinfo", text,
			   procfile_cpuinfo(text, size, now, count));
	free(text);
}

/* ---- load ---- */

/* "PID (NAME) STATE ...": the name may contain anything. */
static bool is_running(const struct agent *agent, const char *pid)
{
	char path[DIGITS_MAX + 8];
	struct str text;
	size_t at;

	if (strlen(pid) > DIGITS_MAX)
		return false;
	(void)digits_text(digits_text(path, pid), "/stat");
	text = read_text(agent->proc_fd, path);
	for (at = text.n; at && text.p[at - 1] != ')'; at--)
		;
	return at && at + 1 < text.n && text.p[at + 1] == 'R';
}

static uint32_t count_running(const struct agent *agent)
{
	_cleanup_close_ int fd = openat(agent->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char space[4096] __attribute__((aligned(8)));
	unsigned left = SCAN_MAX;
	uint32_t count = 0;
	long n;

	while (fd >= 0 && left && (n = syscall(SYS_getdents64, fd, space, sizeof(space))) > 0) {
		for (long at = 0; at < n && left;) {
			const struct dirent64 *d = (const struct dirent64 *)(space + at);

			at += d->reclen;
			if (d->name[0] < '0' || d->name[0] > '9' || strcmp(d->name, "1") == 0)
				continue; /* 1 is the agent, which runs because it is looking */
			left--;
			count += is_running(agent, d->name);
		}
	}
	return count;
}

/* The average use, or the number of running processes if that is more. */
static uint32_t sample(struct agent *agent, uint64_t used_us, int64_t time_us)
{
	uint64_t load = (used_us << PROCFILE_LOAD_SHIFT) / (uint64_t)MAX(time_us, 1);
	uint32_t running = 0;

	if (used_us >= IDLE_USED_US)
		running = count_running(agent);
	agent->inside.load.running = running;
	return MAX((uint32_t)MIN(load, (uint64_t)1 << 24), running << PROCFILE_LOAD_SHIFT);
}

static void write_loadavg(struct agent *agent)
{
	struct inside *inside = &agent->inside;
	uint64_t used_us = inside->user_us + inside->system_us;
	int64_t now = time_mono_us(), steps;
	char text[PROCFILE_LOADAVG_SIZE];
	bool v2 = agent->memory.v2;

	if (!inside->load_us)
		inside->load_us = now;
	steps = (now - inside->load_us) / LOAD_STEP_US;
	if (steps) {
		uint32_t running =
			sample(agent, used_us - inside->load_used_us, now - inside->load_us);

		for (int64_t i = 0; i < MIN(steps, LOAD_STEPS_MAX); i++)
			procfile_load_step(&inside->load, running);
		inside->load_us += steps * LOAD_STEP_US;
		inside->load_used_us = used_us;
	}
	inside->load.total =
		(uint32_t)read_number(v2 ? agent->memory.dir_fd : AT_FDCWD,
				      v2 ? "pids.current" : V1_ROOT "pids/pids.current");
	inside->load.last_pid = (uint32_t)read_number(agent->proc_fd, "sys/kernel/ns_last_pid");
	write_file(inside, agent->proc_fd, "loadavg", text,
		   procfile_loadavg(text, sizeof(text), &inside->load));
}

/* ---- disk ---- */

void inside_take_disk(struct agent *agent, int fd)
{
	struct inside *inside = &agent->inside;
	struct statfs fs;

	if (inside->disk_fd > 0)
		(void)close(inside->disk_fd);
	inside->disk_fd = -1;
	inside->disk_limit = 0;
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return;
	if (fs.f_type == SYSFS_MAGIC && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		inside->disk_fd = fd;
	else
		(void)close(fd);
}

static uint64_t disk_limit(const struct agent *agent)
{
	return agent->inside.disk_fd < 0 ? 0 : groups_note(&agent->groups, AGENT_DISK_NOTE);
}

static void write_disk(struct agent *agent)
{
	struct inside *inside = &agent->inside;
	uint64_t limit = disk_limit(agent), used;
	char text[PROCFILE_DISK_SIZE], space[32];
	ssize_t n = limit ? pread(inside->disk_fd, space, sizeof(space), 0) : 0;

	used = first_number((struct str){ space, n > 0 ? (size_t)n : 0 });
	used -= groups_note(&agent->groups, AGENT_DISK_OFFSET_NOTE);
	if (!limit || n <= 0 || (int64_t)used < 0)
		used = 0;
	if (limit == inside->disk_limit && used == inside->disk_used)
		return;
	write_file(inside, AT_FDCWD, "/sys/fs/disk", text,
		   procfile_disk(text, sizeof(text), limit, used));
	inside->disk_limit = limit;
	inside->disk_used = used;
}

/* ---- schedule ---- */

static void refresh(struct agent *agent)
{
	struct inside *inside = &agent->inside;
	unsigned cpus = count_cpus(agent);

	inside->memory_limit = memory_limit(&agent->memory);
	write_meminfo(agent);
	if (inside->off)
		return;
	take_times(agent);
	if (cpus != inside->cpus)
		write_cpuinfo(agent, cpus);
	inside->cpus = cpus;
	write_loadavg(agent);
	write_stat(agent);
	write_disk(agent);
}

static bool alone(void)
{
	return kill(-1, 0) < 0 && errno == ESRCH;
}

void inside_open(struct agent *agent)
{
	struct inside *inside = &agent->inside;

	inside->off = getpid() != 1;
	if (inside->off)
		return;
	/* The value that the warden wrote. */
	inside->cpus = count_cpus(agent);
	inside->memory_limit = memory_limit(&agent->memory);
	inside->done_us = time_mono_us();
}

void inside_check(struct agent *agent)
{
	struct inside *inside = &agent->inside;

	int64_t now = time_mono_us();

	if (inside->off || agent->memory.away)
		return;
	if (now - inside->done_us < FRESH_US && count_cpus(agent) == inside->cpus &&
	    memory_limit(&agent->memory) == inside->memory_limit) {
		if (disk_limit(agent) != inside->disk_limit)
			write_disk(agent); /* the first time, or a new limit */
		return;
	}
	refresh(agent);
	inside->done_us = now;
}

void inside_expect(struct agent *agent)
{
	struct inside *inside = &agent->inside;

	if (inside->off)
		return;
	inside->wait_us = REFRESH_FIRST_US;
	inside->due_us = inside->done_us + REFRESH_FIRST_US;
}

void inside_rebase(struct agent *agent)
{
	agent->inside.based = false;
	agent->inside.done_us = 0;
	if (!agent->inside.off)
		agent->inside.due_us = 1; /* immediately */
}

void inside_run(struct agent *agent)
{
	struct inside *inside = &agent->inside;
	uint64_t used_us = inside->user_us + inside->system_us;
	int64_t now = inside->due_us ? time_mono_us() : 0;

	if (!inside->due_us || now < inside->due_us || agent->memory.away)
		return;
	refresh(agent);
	inside->done_us = now;
	if (inside->off || alone()) {
		inside->due_us = 0;
		return;
	}
	used_us = inside->user_us + inside->system_us - used_us;
	inside->wait_us = used_us < IDLE_USED_US ? MIN(inside->wait_us * 2, REFRESH_LAST_US)
						 : REFRESH_FIRST_US;
	inside->due_us = now + inside->wait_us;
}

int inside_sleep_ms(const struct agent *agent)
{
	if (!agent->inside.due_us || agent->memory.away)
		return -1;
	return (int)(MAX(agent->inside.due_us - time_mono_us(), 0) / 1000 + 1);
}
