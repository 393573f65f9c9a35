/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that need root. Include it after cmocka.h. */
#ifndef CAY_TESTS_SYS_NEED_ROOT_H
#define CAY_TESTS_SYS_NEED_ROOT_H

#include <unistd.h>

static inline void need_root(void)
{
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
}

#endif
