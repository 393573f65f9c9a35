/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that the warden reports, from what it found on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "warden/capability.h"

static struct warden warden;

static int setup(void **state)
{
	(void)state;
	memset(&warden, 0, sizeof(warden));
	for (size_t i = 0; i < ARRAY_LEN(warden.cgroups.fd); i++)
		warden.cgroups.fd[i] = -1;
	warden.snapshots_fd = -1;
	return 0;
}

static void a_host_without_controllers_only_isolates(void **state)
{
	(void)state;
	assert_int_equal(capability_bits(&warden),
			 WARDEN_CAN_ISOLATE | WARDEN_CAN_SURVIVE | WARDEN_CAN_POOL);
}

static void each_controller_adds_its_limit(void **state)
{
	uint32_t least = capability_bits(&warden);

	(void)state;
	warden.cgroups.fd[CGROUP_MEMORY] = 3;
	assert_int_equal(capability_bits(&warden) ^ least, WARDEN_CAN_LIMIT_MEMORY);
	warden.cgroups.fd[CGROUP_CPU] = 3;
	warden.cgroups.fd[CGROUP_PIDS] = 3;
	warden.pool_has_quota = true;
	assert_int_equal(capability_bits(&warden) ^ least,
			 WARDEN_CAN_LIMIT_MEMORY | WARDEN_CAN_LIMIT_CPU | WARDEN_CAN_LIMIT_PIDS |
				 WARDEN_CAN_LIMIT_DISK);
}

static void snapshots_need_the_freezer_and_memory_needs_snapshots(void **state)
{
	uint32_t least = capability_bits(&warden);

	(void)state;
	warden.criu_works = true;
	warden.snapshots_fd = 4;
	assert_int_equal(capability_bits(&warden), least);
	warden.cgroups.fd[CGROUP_FREEZER] = 3;
	assert_int_equal(capability_bits(&warden) ^ least,
			 WARDEN_CAN_PAUSE | WARDEN_CAN_SNAPSHOT | WARDEN_CAN_SNAPSHOT_MEMORY);
	warden.snapshots_fd = -1;
	assert_int_equal(capability_bits(&warden) ^ least, WARDEN_CAN_PAUSE);
}

static void memory_is_undecided_while_criu_is_checked(void **state)
{
	uint32_t least;

	(void)state;
	warden.criu_checking = true;
	assert_false(capability_bits(&warden) & WARDEN_CHECKS_MEMORY);
	warden.snapshots_fd = 4;
	warden.cgroups.fd[CGROUP_FREEZER] = 3;
	least = capability_bits(&warden);
	assert_true(least & WARDEN_CHECKS_MEMORY);
	assert_false(least & WARDEN_CAN_SNAPSHOT_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(memory_is_undecided_while_criu_is_checked, setup),
		cmocka_unit_test_setup(a_host_without_controllers_only_isolates, setup),
		cmocka_unit_test_setup(each_controller_adds_its_limit, setup),
		cmocka_unit_test_setup(snapshots_need_the_freezer_and_memory_needs_snapshots,
				       setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
