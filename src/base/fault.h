/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps at which a program can be made to die, once: tests/fault. A file that the test and the
 * program share holds how many steps are left; the one that brings it to zero is the last. The
 * next start of the program finds zero and lives.
 *
 * Only the twins of cayd and cay-warden that are linked for the tests can (tests/fault/meson.build:
 * fault.c compiled with CAY_FAULTS); in the product both functions are empty.
 */
#ifndef CAY_BASE_FAULT_H
#define CAY_BASE_FAULT_H

#include <stdbool.h>

/* Before privileges are given up. Without the variable no step is ever the last. */
void fault_open(const char *variable);
/* Counts one step: whether it is the last. */
bool fault_due(void);

#endif
