/* SPDX-License-Identifier: Apache-2.0 */
/* Files over /proc: values, sizes exactly sufficient and one too small, hostile sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "sys/procfile.h"

static char text[PROCFILE_CPUS_MAX * PROCFILE_CPUINFO_BLOCK];

static const char cpuinfo[] = "processor\t: 7\nmodel name\t: A CPU: fast\nphysical id\t: 3\n"
			      "siblings\t: 64\ncore id\t\t: 7\ncpu cores\t: 32\napicid\t\t: 7\n"
			      "flags\t\t: fpu sse\n\nprocessor\t: 8\nmodel name\t: other\n\n";

static uint64_t value_of(const char *name)
{
	const char *at = strstr(text, name);
	unsigned long long value;

	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen(name), " %llu kB\n", &value), 1);
	return value;
}

static void test_meminfo(void **state)
{
	const struct proc_memory memory = {
		.total = 512ULL << 20,
		.used = 100ULL << 20,
		.anon = 50ULL << 20,
		.file = 40ULL << 20,
		.active_file = 10ULL << 20,
		.inactive_file = 20ULL << 20,
	};
	size_t n = procfile_meminfo(text, PROCFILE_MEMINFO_SIZE, &memory);

	(void)state;
	assert_true(n > 0);
	text[n] = '\0';
	assert_memory_equal(text, "MemTotal:         524288 kB\nMemFree:          421888 kB\n", 56);
	assert_int_equal(value_of("MemAvailable:"), (512 - 100 + 30) << 10);
	assert_int_equal(value_of("\nCached:"), 40 << 10);
	assert_int_equal(value_of("AnonPages:"), 50 << 10);
	assert_int_equal(value_of("SwapTotal:"), 0);
	/* exactly enough, and one byte less */
	assert_int_equal(procfile_meminfo(text, n, &memory), n);
	assert_int_equal(procfile_meminfo(text, n - 1, &memory), 0);
	assert_int_equal(procfile_meminfo(text, 0, &memory), 0);
}

static void test_meminfo_more_used_than_there_is(void **state)
{
	const struct proc_memory memory = { .total = 1 << 20,
					    .used = 3 << 20,
					    .inactive_file = UINT64_MAX / 4 };
	size_t n = procfile_meminfo(text, PROCFILE_MEMINFO_SIZE, &memory);

	(void)state;
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(value_of("MemFree:"), 0);
	assert_true(value_of("MemAvailable:") <= 1024);
}

static void test_stat(void **state)
{
	const struct proc_cpu cpu = { .count = 3,
				      .user_us = 1000000,
				      .system_us = 500000,
				      .uptime_us = 10000000,
				      .boot_s = 1700000000,
				      .started = 9,
				      .running = 2 };
	size_t n = procfile_stat(text, sizeof(text), &cpu);
	unsigned long long user = 0, system = 0, idle = 0;

	(void)state;
	assert_true(n > 0);
	text[n] = '\0';
	assert_memory_equal(text, "cpu  100 0 50 2850 0 0 0 0 0 0\ncpu0 34 0 17 950 ", 47);
	for (int i = 0; i < 3; i++) {
		unsigned long long u, s, d;
		char name[16];
		const char *at;

		(void)snprintf(name, sizeof(name), "\ncpu%d ", i);
		at = strstr(text, name);
		assert_non_null(at);
		assert_int_equal(sscanf(at + 6, "%llu 0 %llu %llu", &u, &s, &d), 3);
		user += u;
		system += s;
		idle += d;
	}
	assert_true(user == 100 && system == 50 && idle == 2850);
	assert_null(strstr(text, "cpu3"));
	assert_non_null(strstr(text, "\nbtime 1700000000\nprocesses 9\nprocs_running 2\n"));
	assert_int_equal(procfile_stat(text, n - 1, &cpu), 0);
}

static void test_stat_of_extremes(void **state)
{
	struct proc_cpu cpu = { .count = 0, .user_us = UINT64_MAX, .boot_s = -5 };
	size_t n = procfile_stat(text, sizeof(text), &cpu);

	(void)state;
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\ncpu0 "));
	assert_null(strstr(text, "\ncpu1 "));
	assert_non_null(strstr(text, "\nbtime 0\n"));
	cpu.count = 1000000;
	assert_true(procfile_stat(text, sizeof(text), &cpu) > 0);
}

static void test_load(void **state)
{
	struct proc_load load = { .running = 1, .total = 5, .last_pid = 42 };
	const uint32_t two = 2U << PROCFILE_LOAD_SHIFT;
	size_t n;

	(void)state;
	n = procfile_loadavg(text, PROCFILE_LOADAVG_SIZE, &load);
	text[n] = '\0';
	assert_string_equal(text, "0.00 0.00 0.00 1/5 42\n");
	for (int i = 0; i < 12; i++) /* one minute */
		procfile_load_step(&load, two);
	n = procfile_loadavg(text, PROCFILE_LOADAVG_SIZE, &load);
	text[n] = '\0';
	assert_memory_equal(text, "1.2", 3); /* 2 * (1 - 1/e) */
	assert_true(load.average[0] > load.average[1] && load.average[1] > load.average[2]);
	for (int i = 0; i < 2000; i++)
		procfile_load_step(&load, two);
	assert_int_equal(load.average[0], two);
	for (int i = 0; i < 5000; i++)
		procfile_load_step(&load, 0);
	assert_true(load.average[2] < 20);
	assert_int_equal(procfile_loadavg(text, 5, &load), 0);
}

/* Always the same length, because a program may have the file open while it is overwritten. */
static void test_disk(void **state)
{
	(void)state;
	assert_int_equal(procfile_disk(text, sizeof(text), 0, 0), PROCFILE_DISK_SIZE);
	assert_int_equal(procfile_disk(text, sizeof(text), UINT64_MAX, UINT64_MAX),
			 PROCFILE_DISK_SIZE);
	assert_int_equal(procfile_disk(text, PROCFILE_DISK_SIZE, 3, 20), PROCFILE_DISK_SIZE);
	assert_memory_equal(text, "                   3                   20\n",
			    PROCFILE_DISK_SIZE);
	assert_int_equal(procfile_disk(text, PROCFILE_DISK_SIZE - 1, 3, 20), 0);
}

static void test_cpuinfo(void **state)
{
	size_t n = procfile_cpuinfo(text, sizeof(text), str_of(cpuinfo), 2);

	(void)state;
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "processor\t: 0\nmodel name\t: A CPU: fast\nphysical id\t: 0\n"
				     "siblings\t: 2\ncore id\t\t: 0\ncpu cores\t: 2\n"));
	assert_non_null(strstr(text, "\n\nprocessor\t: 1\n"));
	assert_null(strstr(text, "other"));
	assert_null(strstr(text, "processor\t: 2"));
	/* its own output is a source again */
	memmove(text + n, text, n);
	assert_int_equal(procfile_cpuinfo(text + 2 * n, n, (struct str){ text + n, n }, 2), n);
	assert_int_equal(procfile_cpuinfo(text, n - 1, str_of(cpuinfo), 2), 0);
	assert_int_equal(procfile_cpuinfo(text, sizeof(text), str_of(""), 2), 0);
	assert_int_equal(procfile_cpuinfo(text, sizeof(text), str_of("\n\n"), 2), 0);
}

static void test_cpus(void **state)
{
	(void)state;
	assert_int_equal(procfile_cpu_max(str_of("max 100000\n")), 0);
	assert_int_equal(procfile_cpu_max(str_of("100000 100000\n")), 1);
	assert_int_equal(procfile_cpu_max(str_of("100001 100000\n")), 2);
	assert_int_equal(procfile_cpu_max(str_of("1000 100000")), 1);
	assert_int_equal(procfile_cpu_max(str_of("")), 0);
	assert_int_equal(procfile_cpu_max(str_of("1 0\n")), 0);
	assert_int_equal(procfile_cpu_max(str_of("18446744073709551615 1\n")), PROCFILE_CPUS_MAX);
}

static void test_memory_stat(void **state)
{
	struct proc_memory v1 = { .total = 7 }, v2 = { 0 };

	(void)state;
	procfile_memory_stat(str_of("cache 1\nrss 2\ntotal_cache 30\ntotal_rss 40\nbroken\n"
				    "total_shmem x\ntotal_inactive_file 50\n"),
			     false, &v1);
	assert_true(v1.total == 7 && v1.file == 30 && v1.anon == 40 && v1.shmem == 0 &&
		    v1.inactive_file == 50);
	procfile_memory_stat(str_of("anon 1\nfile 2\nslab_reclaimable 3\npagetables 4\n"), true,
			     &v2);
	assert_true(v2.anon == 1 && v2.file == 2 && v2.slab_reclaimable == 3 &&
		    v2.page_tables == 4);
	assert_int_equal(procfile_field(str_of("a 1\nuser_usec 25\n"), "user_usec"), 25);
	assert_int_equal(procfile_field(str_of("a 1\n"), "user_usec"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_meminfo),
		cmocka_unit_test(test_meminfo_more_used_than_there_is),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_stat_of_extremes),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_disk),
		cmocka_unit_test(test_cpuinfo),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_memory_stat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
