/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SYS_PROCESS_CAPS_H
#define CAY_SYS_PROCESS_CAPS_H

#include "base/macro.h"

/*
 * The capabilities that root keeps inside its user namespace: only those that package managers and
 * sudo need.
 */
extern const uint64_t caps_sandbox;

/*
 * Drops all other capabilities from the bounding set. An exec as root then has exactly the kept
 * ones.
 */
int caps_bound(uint64_t keep) _must_check_;

#endif
