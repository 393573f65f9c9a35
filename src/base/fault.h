/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which a program can be made to die once, for tests/fault. The test and the program
 * share a file that holds the number of remaining steps. The program dies at the step that
 * decrements it to zero. When it is started again, it finds zero and runs on.
 *
 * Only the variants of cayd and cay-warden that are linked for the tests do this
 * (tests/fault/meson.build compiles fault.c with CAY_FAULTS). In the product both functions are
 * empty.
 */
#ifndef CAY_BASE_FAULT_H
#define CAY_BASE_FAULT_H

#include <stdbool.h>

/* Call before privileges are dropped. Without the variable, the program never dies. */
void fault_open(const char *variable);
/* Counts one step; true if the program must die here. */
bool fault_due(void);

#endif
