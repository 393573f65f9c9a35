/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/procfile.h"

#include <errno.h>

#define TICK_US 10000 /* unit of the counters in /proc/stat: 100 per second on every Linux */
#define NUMBER_MAX 20
#define LINE_MAX_BYTES 256 /* per processor in /proc/stat */

/*
 * Never writes beyond size; n continues to count, so that the caller can see whether everything
 * fitted.
 */
struct text {
	char *p;
	size_t size, n;
};

static void put(struct text *t, struct str s)
{
	if (t->n + s.n <= t->size)
		memcpy(t->p + t->n, s.p, s.n);
	t->n += s.n;
}

static void put_text(struct text *t, const char *s)
{
	put(t, str_of(s));
}

/* Right-aligned in width. */
static void put_number(struct text *t, uint64_t number, size_t width)
{
	char digits[NUMBER_MAX], pad = ' ';
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	for (size_t n = sizeof(digits) - at; n < width; n++)
		put(t, (struct str){ &pad, 1 });
	put(t, (struct str){ digits + at, sizeof(digits) - at });
}

static size_t length(const struct text *t)
{
	return t->n <= t->size ? t->n : 0;
}

/* ---- cgroup files ---- */

uint64_t procfile_field(struct str text, const char *name)
{
	struct str line, key, number;
	uint64_t value;

	while (str_cut(text, '\n', &line, &text))
		if (str_cut(line, ' ', &key, &number) && str_is(key, name))
			return str_to_u64(number, UINT64_MAX, &value) < 0 ? 0 : value;
	return 0;
}

struct stat_name {
	const char *v1, *v2;
	size_t at;
};

static const struct stat_name stat_names[] = {
	{ "total_rss", "anon", offsetof(struct proc_memory, anon) },
	{ "total_cache", "file", offsetof(struct proc_memory, file) },
	{ "total_shmem", "shmem", offsetof(struct proc_memory, shmem) },
	{ "total_mapped_file", "file_mapped", offsetof(struct proc_memory, mapped) },
	{ "total_dirty", "file_dirty", offsetof(struct proc_memory, dirty) },
	{ "total_writeback", "file_writeback", offsetof(struct proc_memory, writeback) },
	{ "total_active_anon", "active_anon", offsetof(struct proc_memory, active_anon) },
	{ "total_inactive_anon", "inactive_anon", offsetof(struct proc_memory, inactive_anon) },
	{ "total_active_file", "active_file", offsetof(struct proc_memory, active_file) },
	{ "total_inactive_file", "inactive_file", offsetof(struct proc_memory, inactive_file) },
	{ "total_unevictable", "unevictable", offsetof(struct proc_memory, unevictable) },
	{ "", "slab_reclaimable", offsetof(struct proc_memory, slab_reclaimable) },
	{ "", "slab_unreclaimable", offsetof(struct proc_memory, slab_unreclaimable) },
	{ "", "kernel_stack", offsetof(struct proc_memory, kernel_stack) },
	{ "", "pagetables", offsetof(struct proc_memory, page_tables) },
};

void procfile_memory_stat(struct str text, bool v2, struct proc_memory *memory)
{
	struct str line, key, number;
	uint64_t value;

	while (str_cut(text, '\n', &line, &text)) {
		if (!str_cut(line, ' ', &key, &number) ||
		    str_to_u64(number, UINT64_MAX, &value) < 0)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(stat_names); i++)
			if (str_is(key, v2 ? stat_names[i].v2 : stat_names[i].v1))
				memcpy((char *)memory + stat_names[i].at, &value, sizeof(value));
	}
}

unsigned procfile_cpus(uint64_t quota_us, uint64_t period_us)
{
	uint64_t count;

	if (!quota_us || !period_us)
		return 0;
	count = quota_us / period_us + (quota_us % period_us ? 1 : 0);
	return (unsigned)MIN(count, (uint64_t)PROCFILE_CPUS_MAX);
}

unsigned procfile_cpu_max(struct str text)
{
	struct str line = text, rest, quota, period;
	uint64_t quota_us, period_us;

	(void)str_cut(text, '\n', &line, &rest);
	if (!str_cut(line, ' ', &quota, &period) || str_to_u64(quota, UINT64_MAX, &quota_us) < 0 ||
	    str_to_u64(period, UINT64_MAX, &period_us) < 0)
		return 0; /* "max" */
	return procfile_cpus(quota_us, period_us);
}

/* ---- /proc/meminfo ---- */

static void put_kb(struct text *t, const char *name, uint64_t bytes)
{
	size_t n = strlen(name);

	put_text(t, name);
	put_text(t, ":");
	put_number(t, bytes >> 10, n < 15 ? 23 - n : 8); /* same columns as the kernel */
	put_text(t, " kB\n");
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

size_t procfile_meminfo(char *dst, size_t size, const struct proc_memory *m)
{
	struct text t = { dst, size, 0 };
	uint64_t unused = above(m->total, m->used);
	/* Shared memory counts as cache, but the kernel cannot drop it. */
	uint64_t droppable = MIN(m->active_file + m->inactive_file + m->slab_reclaimable, m->used);
	const struct {
		const char *name;
		uint64_t bytes;
	} lines[] = {
		{ "MemTotal", m->total },
		{ "MemFree", unused },
		{ "MemAvailable", MIN(unused + droppable, m->total) },
		{ "Buffers", 0 },
		{ "Cached", m->file },
		{ "SwapCached", 0 },
		{ "Active", m->active_anon + m->active_file },
		{ "Inactive", m->inactive_anon + m->inactive_file },
		{ "Active(anon)", m->active_anon },
		{ "Inactive(anon)", m->inactive_anon },
		{ "Active(file)", m->active_file },
		{ "Inactive(file)", m->inactive_file },
		{ "Unevictable", m->unevictable },
		{ "Mlocked", 0 },
		{ "SwapTotal", 0 },
		{ "SwapFree", 0 },
		{ "Dirty", m->dirty },
		{ "Writeback", m->writeback },
		{ "AnonPages", m->anon },
		{ "Mapped", m->mapped },
		{ "Shmem", m->shmem },
		{ "KReclaimable", m->slab_reclaimable },
		{ "Slab", m->slab_reclaimable + m->slab_unreclaimable },
		{ "SReclaimable", m->slab_reclaimable },
		{ "SUnreclaim", m->slab_unreclaimable },
		{ "KernelStack", m->kernel_stack },
		{ "PageTables", m->page_tables },
		{ "NFS_Unstable", 0 },
		{ "Bounce", 0 },
		{ "WritebackTmp", 0 },
		{ "CommitLimit", m->total },
		{ "Committed_AS", m->anon + m->shmem },
		{ "VmallocTotal", 0 },
		{ "VmallocUsed", 0 },
		{ "VmallocChunk", 0 },
		{ "AnonHugePages", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		put_kb(&t, lines[i].name, lines[i].bytes);
	put_text(&t, "HugePages_Total:       0\nHugePages_Free:        0\n"
		     "HugePages_Rsvd:        0\nHugePages_Surp:        0\n");
	put_kb(&t, "Hugepagesize", 2 << 20);
	return length(&t);
}

/* ---- /proc/stat ---- */

/* Splits a counter: the remainder goes to the first processors, so that the sum is correct. */
static uint64_t share(uint64_t sum, unsigned count, unsigned i)
{
	return sum / count + (i < sum % count);
}

static void put_times(struct text *t, uint64_t user, uint64_t system, uint64_t idle)
{
	put_text(t, " ");
	put_number(t, user, 0);
	put_text(t, " 0 ");
	put_number(t, system, 0);
	put_text(t, " ");
	put_number(t, idle, 0);
	put_text(t, " 0 0 0 0 0 0\n");
}

static void put_line(struct text *t, const char *name, uint64_t number)
{
	put_text(t, name);
	put_number(t, number, 0);
	put_text(t, "\n");
}

size_t procfile_stat(char *dst, size_t size, const struct proc_cpu *cpu)
{
	struct text t = { dst, size, 0 };
	unsigned count = MIN(MAX(cpu->count, 1U), (unsigned)PROCFILE_CPUS_MAX);
	uint64_t user = cpu->user_us / TICK_US, system = cpu->system_us / TICK_US;
	uint64_t idle = above(cpu->uptime_us / TICK_US * count, user + system);

	put_text(&t, "cpu ");
	put_times(&t, user, system, idle);
	for (unsigned i = 0; i < count; i++) {
		put_text(&t, "cpu");
		put_number(&t, i, 0);
		put_times(&t, share(user, count, i), share(system, count, i),
			  share(idle, count, i));
	}
	put_text(&t, "intr 0\nctxt 0\n");
	put_line(&t, "btime ", (uint64_t)MAX(cpu->boot_s, 0));
	put_line(&t, "processes ", cpu->started);
	put_line(&t, "procs_running ", cpu->running);
	put_text(&t, "procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n");
	return length(&t);
}

/* ---- /proc/loadavg ---- */

#define LOAD_ONE (1U << PROCFILE_LOAD_SHIFT)

void procfile_load_step(struct proc_load *load, uint32_t running)
{
	/* exp(-5 s / 1, 5 and 15 min), the kernel's constants. */
	static const uint32_t decay[] = { 1884, 2014, 2037 };

	for (size_t i = 0; i < ARRAY_LEN(decay); i++) {
		uint64_t sum = (uint64_t)load->average[i] * decay[i] +
			       (uint64_t)running * (LOAD_ONE - decay[i]);

		if (running >= load->average[i])
			sum += LOAD_ONE - 1;
		load->average[i] = (uint32_t)(sum >> PROCFILE_LOAD_SHIFT);
	}
}

size_t procfile_loadavg(char *dst, size_t size, const struct proc_load *load)
{
	struct text t = { dst, size, 0 };

	for (size_t i = 0; i < ARRAY_LEN(load->average); i++) {
		uint32_t rounded = load->average[i] + LOAD_ONE / 200;
		uint32_t hundredths = (rounded & (LOAD_ONE - 1)) * 100 >> PROCFILE_LOAD_SHIFT;

		put_number(&t, rounded >> PROCFILE_LOAD_SHIFT, 0);
		put_text(&t, hundredths < 10 ? ".0" : ".");
		put_number(&t, hundredths, 0);
		put_text(&t, " ");
	}
	put_number(&t, load->running, 0);
	put_text(&t, "/");
	put_number(&t, load->total, 0);
	put_text(&t, " ");
	put_number(&t, load->last_pid, 0);
	put_text(&t, "\n");
	return length(&t);
}

size_t procfile_disk(char *dst, size_t size, uint64_t limit, uint64_t used)
{
	struct text t = { dst, size, 0 };

	put_number(&t, limit, 20);
	put_text(&t, " ");
	put_number(&t, used, 20);
	put_text(&t, "\n");
	return length(&t);
}

/* ---- /proc/cpuinfo ---- */

/* Lines with values of this processor: its number, and the number of siblings and cores. */
static bool is_own(struct str key)
{
	return str_is(key, "processor") || str_is(key, "core id") || str_is(key, "apicid") ||
	       str_is(key, "initial apicid");
}

static bool is_sum(struct str key)
{
	return str_is(key, "siblings") || str_is(key, "cpu cores");
}

static void put_processor(struct text *t, struct str block, unsigned i, unsigned count)
{
	struct str line, key, value;

	while (str_cut(block, '\n', &line, &block)) {
		bool has = str_cut(line, ':', &key, &value);
		struct str name = has ? str_trim(key, " \t") : line;

		if (!has || (!is_own(name) && !is_sum(name) && !str_is(name, "physical id"))) {
			put(t, line);
		} else {
			put(t, key);
			put_text(t, ": ");
			put_number(t, is_own(name) ? i : is_sum(name) ? count : 0, 0);
		}
		put_text(t, "\n");
	}
	put_text(t, "\n");
}

/* Returns the block up to its empty line, at most PROCFILE_CPUINFO_BLOCK bytes, in whole lines. */
static struct str first_block(struct str source)
{
	struct str rest = source, line;
	size_t n = 0;

	while (str_cut(rest, '\n', &line, &rest) && line.n &&
	       n + line.n + 1 <= PROCFILE_CPUINFO_BLOCK - 64)
		n += line.n + 1;
	return (struct str){ source.p, n };
}

size_t procfile_cpuinfo(char *dst, size_t size, struct str source, unsigned count)
{
	struct text t = { dst, size, 0 };
	struct str block = first_block(source);

	count = MIN(MAX(count, 1U), (unsigned)PROCFILE_CPUS_MAX);
	for (unsigned i = 0; block.n && i < count && t.n <= t.size; i++)
		put_processor(&t, block, i, count);
	return length(&t);
}
