/* SPDX-License-Identifier: Apache-2.0 */
/* Versions against the table of known vulnerabilities. */
#include "check.h"

#include <string.h>

#include "cli/doctor/doctor.h"

static const char *verdict(const char *program, const char *text, unsigned kernel)
{
	return doctor_known_bad(program, doctor_version(text), kernel);
}

static void test_versions(void **state)
{
	assert_true(doctor_version("runc version 1.1.5+ds1") < doctor_version("1.1.10"));
	assert_true(doctor_version("Docker version 28.2.2, build e6534b4") >
		    doctor_version("20.10.24"));
	assert_true(doctor_version("1.28") == doctor_version("1.28.0"));
	assert_int_equal(doctor_version("no version"), 0);
	assert_int_equal(doctor_version(""), 0);
}

static void test_known_bad(void **state)
{
	assert_non_null(verdict("runc", "1.1.5+ds1", 6018));
	assert_non_null(verdict("runc", "1.2.7", 6018));
	assert_non_null(verdict("runc", "1.3.5", 6018));
	assert_null(verdict("runc", "1.3.6", 6018));
	assert_non_null(verdict("runc", "1.4.2", 6018));
	assert_null(verdict("runc", "1.4.3", 6018));
	assert_null(verdict("runc", "1.5.0", 6018));
	assert_non_null(verdict("crun", "1.8.1", 6018));
	assert_non_null(verdict("crun", "1.27.1", 6018));
	assert_null(verdict("crun", "1.28", 6018));
	assert_non_null(verdict("containerd", "1.6.20~ds1", 6018));
	assert_null(verdict("containerd", "2.2.5", 6018));
	assert_null(verdict("bash", "1.0.0", 6018));
}

static void test_criu_depends_on_the_kernel(void **state)
{
	assert_non_null(strstr(verdict("criu", "Version: 3.17.1", 6013), "does not work"));
	assert_null(strstr(verdict("criu", "Version: 3.17.1", 6012), "does not work"));
	assert_null(verdict("criu", "Version: 4.0", 6018));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_known_bad),
		cmocka_unit_test(test_criu_depends_on_the_kernel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
