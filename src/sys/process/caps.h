/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SYS_PROCESS_CAPS_H
#define CAY_SYS_PROCESS_CAPS_H

#include "base/macro.h"

/* What root keeps inside its user namespace: what package managers and sudo need, and no more. */
extern const uint64_t caps_sandbox;

/* Drops everything else from the bounding set; an exec as root then gets exactly the kept ones. */
int caps_bound(uint64_t keep) _must_check_;

#endif
