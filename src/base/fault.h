/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps at which a test build (-Dfaults=true) can be made to die, once: tests/fault. A file that
 * the test and the program share holds how many steps are left; the one that brings it to zero is
 * the last. The next start of the program finds zero and lives. In other builds: nothing.
 */
#ifndef CAY_BASE_FAULT_H
#define CAY_BASE_FAULT_H

#include <stdbool.h>

#ifdef CAY_FAULTS
/* Before privileges are given up. Without the variable no step is ever the last. */
void fault_open(const char *variable);
/* Counts one step: whether it is the last. */
bool fault_due(void);
#else
static inline void fault_open(const char *variable)
{
	(void)variable;
}

static inline bool fault_due(void)
{
	return false;
}
#endif

#endif
