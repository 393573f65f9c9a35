/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one exec of /bin/true through link and agent, interleaved with the minimum on this host:
 * vfork, exec, wait. Prints microseconds.
 */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/time.h"
#include "rig.h"

#define ROUNDS 1000

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t plain(char *const *argv)
{
	static char *const env[] = { NULL };
	int64_t start_us = time_mono_us();
	pid_t pid = vfork();

	if (pid == 0) {
		execve(argv[0], argv, env);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
	return time_mono_us() - start_us;
}

static void test_latency(void **state)
{
	static const char *const options[] = {
		"--trust-any-peer", "--user", "root", "--cwd", "/", NULL
	};
	static int64_t linked_us[ROUNDS], plain_us[ROUNDS];
	char program[] = "/bin/true";
	char *const plain_argv[] = { program, NULL };
	const char *const argv[] = { "/bin/true", NULL };
	struct link_exec exec = { .argv = argv, .output_max_bytes = 4096, .timeout_ms = 60000 };
	struct rig rig;

	rig_init(&rig);
	rig_start_agent(&rig, options);
	for (int i = 0; i < ROUNDS; i++) {
		struct rig_result r;
		int64_t start_us = time_mono_us();

		rig_exec(&rig, &exec, &r);
		while (!r.deliveries)
			loop_turn(rig.loop, -1);
		linked_us[i] = time_mono_us() - start_us;
		rig_result_done(&r);
		plain_us[i] = plain(plain_argv);
	}
	qsort(linked_us, ROUNDS, sizeof(linked_us[0]), compare);
	qsort(plain_us, ROUNDS, sizeof(plain_us[0]), compare);
	printf("link p50 %lld p99 %lld us, vfork+exec+wait p50 %lld p99 %lld us, ratio %.2f\n",
	       (long long)linked_us[ROUNDS / 2], (long long)linked_us[ROUNDS * 99 / 100],
	       (long long)plain_us[ROUNDS / 2], (long long)plain_us[ROUNDS * 99 / 100],
	       (double)linked_us[ROUNDS / 2] / (double)plain_us[ROUNDS / 2]);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_latency) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
