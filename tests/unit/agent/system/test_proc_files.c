/* SPDX-License-Identifier: Apache-2.0 */
/* Files that show the sandbox's own memory and processors, and the clock that stands still while it
 * is frozen. Plain directories on a tmpfs play /proc and the cgroup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "../../own_place.h"
#include "agent/agent.h"
#include "agent/system/clock.h"
#include "base/time.h"

static struct agent *agent;
static uint64_t frozen_us, disk_note;

/* What the modules call of the groups. */
uint64_t groups_frozen_us(const struct groups *groups)
{
	(void)groups;
	return frozen_us;
}

uint64_t groups_note(const struct groups *groups, const char *name)
{
	(void)groups;
	(void)name;
	return disk_note;
}

static int setup(void **state)
{
	static const char *const files[] = { "meminfo", "stat", "loadavg", "cpuinfo" };
	int r = own_place_renew(state), dir_fd;

	agent = calloc(1, sizeof(*agent));
	agent->proc_fd = own_place_open("proc");
	dir_fd = own_place_open("group");
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		put_text(agent->proc_fd, files[i], "processor\t: 0\nmodel name\t: test\n\n");
	put_text(dir_fd, "memory.max", "67108864\n");
	put_text(dir_fd, "memory.current", "4194304\n");
	put_text(dir_fd, "memory.peak", "8388608\n");
	put_text(dir_fd, "memory.stat", "inactive_file 1048576\n");
	put_text(dir_fd, "memory.events", "low 0\noom 0\noom_kill 2\noom_group_kill 9\n");
	put_text(dir_fd, "cpu.max", "150000 100000\n");
	put_text(dir_fd, "cpu.stat", "usage_usec 30\nuser_usec 20000000\nsystem_usec 10000000\n");
	put_text(dir_fd, "pids.current", "5\n");
	agent->memory = (struct memory){ .dir_fd = dir_fd, .events_fd = -1, .v2 = true };
	agent->memory.events_fd = openat(dir_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	agent->inside.disk_fd = -1;
	disk_note = 0;
	return r;
}

static int teardown(void **state)
{
	(void)state;
	(void)close(agent->proc_fd);
	if (agent->memory.dir_fd >= 0)
		(void)close(agent->memory.dir_fd);
	if (agent->memory.events_fd >= 0)
		(void)close(agent->memory.events_fd);
	free(agent);
	return 0;
}

static void files_show_the_group(void **state)
{
	char text[16384];

	(void)state;
	put_text(agent->proc_fd, "meminfo",
		 "a long text of the last version that must not show through ............\n");
	inside_check(agent);
	assert_false(agent->inside.off);
	assert_int_equal(agent->inside.cpus, 2); /* one and a half */
	assert_true(get_text(agent->proc_fd, "meminfo", text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "65536 kB\n"));
	assert_null(strstr(text, "....."));
	assert_true(get_text(agent->proc_fd, "stat", text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "\ncpu1 "));
	assert_null(strstr(text, "\ncpu2 "));
	assert_true(get_text(agent->proc_fd, "cpuinfo", text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "processor\t: 1"));
	assert_null(strstr(text, "processor\t: 2"));
	assert_true(get_text(agent->proc_fd, "loadavg", text, sizeof(text)) > 0);
}

static void current_files_are_not_written_again(void **state)
{
	(void)state;
	inside_check(agent);
	put_text(agent->proc_fd, "meminfo", "seen");
	agent->inside.done_us = time_mono_us() + 1000000000; /* however slow this host is */
	inside_check(agent);
	assert_text(agent->proc_fd, "meminfo", "seen");
	put_text(agent->memory.dir_fd, "memory.max", "33554432\n"); /* another limit: at once */
	inside_check(agent);
	assert_int_equal(agent->inside.memory_limit, 33554432);
}

static void a_file_that_is_not_ours_turns_it_off(void **state)
{
	int fd;

	(void)state;
	fd = open("/proc/self/comm",
		  O_WRONLY | O_CLOEXEC); /* a file of another file system that can be written */
	assert_return_code(fd, errno);
	(void)close(fd);
	(void)unlinkat(agent->proc_fd, "meminfo", 0);
	put_text(agent->proc_fd, "meminfo", "");
	assert_return_code(mount("/proc/self/comm", "/tmp/proc/meminfo", NULL, MS_BIND, NULL),
			   errno);
	inside_check(agent);
	assert_true(agent->inside.off);
	put_text(agent->proc_fd, "stat", "untouched");
	agent->inside.done_us = 0;
	inside_check(agent);
	inside_expect(agent);
	assert_text(agent->proc_fd, "stat", "untouched");
	assert_int_equal(inside_sleep_ms(agent), -1);
	(void)umount2("/tmp/proc/meminfo", MNT_DETACH);
}

static void times_begin_at_nothing_and_never_go_back(void **state)
{
	(void)state;
	inside_check(agent);
	assert_int_equal(agent->inside.user_us,
			 0); /* what the last user of the group took is not ours */
	put_text(agent->memory.dir_fd, "cpu.stat", "user_usec 20000500\nsystem_usec 10000100\n");
	agent->inside.done_us = 0;
	inside_check(agent);
	assert_int_equal(agent->inside.user_us, 500);
	assert_int_equal(agent->inside.system_us, 100);
	put_text(agent->memory.dir_fd, "cpu.stat", "user_usec 20000400\nsystem_usec 10000200\n");
	agent->inside.done_us = 0;
	inside_check(agent);
	assert_int_equal(agent->inside.user_us, 500);
	assert_int_equal(agent->inside.system_us, 200);
	put_text(agent->memory.dir_fd, "cpu.stat",
		 "user_usec 7\nsystem_usec 7\n"); /* another group, after a wake */
	inside_rebase(agent);
	inside_check(agent);
	assert_int_equal(agent->inside.user_us, 500);
}

static void a_refresh_is_due_while_processes_run(void **state)
{
	(void)state;
	assert_int_equal(inside_sleep_ms(agent), -1);
	inside_check(agent);
	inside_expect(agent);
	assert_in_range(inside_sleep_ms(agent), 1, 1001);
	inside_run(agent); /* not yet, or just done: both leave it due */
	agent->memory.away = true;
	assert_int_equal(inside_sleep_ms(agent), -1);
	agent->memory.away = false;
	agent->inside.due_us = 1;
	put_text(agent->proc_fd, "loadavg", "old");
	inside_run(agent);
	assert_true(agent->inside.due_us > 1);		  /* others run on this host */
	assert_int_equal(agent->inside.wait_us, 2000000); /* idle: twice as long */
	for (int i = 0; i < 5; i++) {
		agent->inside.due_us = 1;
		inside_run(agent);
	}
	assert_int_equal(agent->inside.wait_us, 8000000);
	put_text(agent->memory.dir_fd, "cpu.stat", "user_usec 29000000\nsystem_usec 10000000\n");
	agent->inside.due_us = 1;
	inside_run(agent);
	assert_int_equal(agent->inside.wait_us, 1000000);
}

static void only_a_file_of_sysfs_shows_the_disk(void **state)
{
	int fd;

	(void)state;
	inside_take_disk(agent, -1);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	inside_take_disk(agent, fd);
	assert_int_equal(agent->inside.disk_fd, -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken, whatever it is */
	fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
	if (fd < 0)
		fd = open("/sys/kernel/notes", O_RDONLY);
	assert_return_code(fd, errno);
	inside_take_disk(agent, fd);
	assert_int_equal(agent->inside.disk_fd, fd);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	inside_take_disk(agent, -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* ---- the memory group ---- */

static void kills_are_claimed_once(void **state)
{
	struct memory *memory = &agent->memory;

	(void)state;
	assert_int_equal(memory_kills(memory), 2);
	assert_int_equal(memory_limit(memory), 67108864);
	assert_int_equal(memory_peak(memory), 8388608);
	assert_false(memory_claim_kill(memory, 2)); /* none since */
	assert_true(memory_claim_kill(memory, 0));
	assert_true(memory_claim_kill(memory, 0));
	assert_false(memory_claim_kill(memory, 0));
	put_text(memory->dir_fd, "memory.max", "max\n");
	assert_int_equal(memory_limit(memory), 0);
	put_text(memory->dir_fd, "memory.max",
		 "1152921504606846976\n"); /* as version 1 says "none" */
	assert_int_equal(memory_limit(memory), 0);
	put_text(memory->dir_fd, "memory.events", "oom_kill many\n");
	assert_int_equal(memory_kills(memory), 0);
}

static void a_group_that_was_let_go_counts_on(void **state)
{
	struct memory *memory = &agent->memory;
	int fd;

	(void)state;
	memory_let_go(memory);
	assert_true(memory->away);
	assert_int_equal(memory_kills(memory), 2);
	assert_int_equal(memory_limit(memory), 0);
	memory_let_go(memory); /* once */
	assert_int_equal(memory_kills(memory), 2);
	fd = open("/tmp/group", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	memory_take_back(memory, fd); /* no cgroup: it is closed, and the count stays */
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(memory_kills(memory), 2);
	assert_false(memory->away);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	memory_take_back(memory, fd); /* nothing was let go */
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* ---- the clock ---- */

static void the_clock_stands_still_while_the_sandbox_is_frozen(void **state)
{
	static struct groups groups;
	int64_t before, after;

	(void)state;
	frozen_us = 0;
	clock_open(&groups);
	(void)clock_us();
	frozen_us = 3600000000ULL; /* an hour */
	/* The note is looked at again after 20 ms at most. */
	for (before = time_mono_us(); time_mono_us() - before <= 20000;)
		;
	after = clock_us();
	assert_true(after < before);
	assert_true(after + 3600000000LL >= before);
	before = time_mono_us() - 3600000000LL;
	frozen_us = 5; /* less: another group, after a wake; its first value is where it begins */
	while (time_mono_us() - 3600000000LL - before <= 20000)
		;
	after = clock_us();
	assert_true(after >= before);
	groups.away = true; /* no note to be read */
	frozen_us = UINT64_MAX / 2;
	while (clock_us() - after <= 40000)
		;
	assert_true(clock_us() > after);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(files_show_the_group),
		T(current_files_are_not_written_again),
		T(a_file_that_is_not_ours_turns_it_off),
		T(times_begin_at_nothing_and_never_go_back),
		T(a_refresh_is_due_while_processes_run),
		T(only_a_file_of_sysfs_shows_the_disk),
		T(kills_are_claimed_once),
		T(a_group_that_was_let_go_counts_on),
		cmocka_unit_test(the_clock_stands_still_while_the_sandbox_is_frozen),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
