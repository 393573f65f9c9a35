/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers for the files that cover parts of /proc in a sandbox, and parsers for the cgroup files
 * that their values come from. No I/O: the warden writes the first version of each file, the agent
 * the later ones. The agent links this file with musl, so it uses no printf.
 *
 * Every writer returns the number of bytes that it wrote to dst, or 0 if they do not fit.
 */
#ifndef CAY_SYS_PROCFILE_H
#define CAY_SYS_PROCFILE_H

#include "base/str.h"

#define PROCFILE_MEMINFO_SIZE 2048
#define PROCFILE_LOADAVG_SIZE 128
#define PROCFILE_DISK_SIZE 42	    /* fixed, so that the file can be overwritten in place */
#define PROCFILE_CPUS_MAX 256	    /* more are shown as this number */
#define PROCFILE_CPUINFO_BLOCK 4096 /* of one processor; the flags take about 1.5 KiB */
#define PROCFILE_LOAD_SHIFT 11	    /* binary places of fixed-point loads */

/* In bytes; 0 if unknown. */
struct proc_memory {
	uint64_t total, used; /* used includes the page cache */
	uint64_t anon, file;  /* file includes shmem */
	uint64_t shmem, mapped, dirty, writeback;
	uint64_t active_anon, inactive_anon, active_file, inactive_file, unevictable;
	uint64_t slab_reclaimable, slab_unreclaimable, kernel_stack, page_tables;
};

struct proc_cpu {
	unsigned count;		     /* processors shown, at least 1 */
	uint64_t user_us, system_us; /* since the sandbox started */
	uint64_t uptime_us;
	int64_t boot_s;	  /* start of the sandbox, wall clock */
	uint64_t started; /* processes started so far */
	uint32_t running;
};

struct proc_load {
	uint32_t average[3]; /* of 1, 5 and 15 minutes */
	uint32_t running, total, last_pid;
};

/* Parses memory.stat of a v1 or v2 group. Does not set total and used. */
void procfile_memory_stat(struct str text, bool v2, struct proc_memory *memory);
/* The number after "NAME " at the start of a line; 0 if there is none. */
uint64_t procfile_field(struct str text, const char *name);
/* Parses "QUOTA PERIOD" of cpu.max: processors rounded up; 0: no limit, or malformed. */
unsigned procfile_cpu_max(struct str text);
unsigned procfile_cpus(uint64_t quota_us, uint64_t period_us); /* the same from two numbers */

size_t procfile_meminfo(char *dst, size_t size, const struct proc_memory *memory) _must_check_;
size_t procfile_stat(char *dst, size_t size, const struct proc_cpu *cpu) _must_check_;
size_t procfile_loadavg(char *dst, size_t size, const struct proc_load *load) _must_check_;
/*
 * Writes count copies of the first processor in source, a /proc/cpuinfo, each with its own number.
 */
size_t procfile_cpuinfo(char *dst, size_t size, struct str source, unsigned count) _must_check_;
/* "LIMIT USED\n" in bytes; a limit of 0 means unknown. */
size_t procfile_disk(char *dst, size_t size, uint64_t limit, uint64_t used) _must_check_;

/* Advances the averages by five seconds with this many (fixed point) running tasks. */
void procfile_load_step(struct proc_load *load, uint32_t running);

#endif
