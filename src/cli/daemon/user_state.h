/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory of a user other than root: $XDG_STATE_HOME/cay, otherwise ~/.local/state/cay.
 * It is the default for 'cay up --engine-local', and for every command once it exists.
 */
#ifndef CAY_CLI_DAEMON_USER_STATE_H
#define CAY_CLI_DAEMON_USER_STATE_H

#include <stddef.h>

#include "base/macro.h"

/* false for root, and if neither variable is an absolute path. */
bool user_state(char *dst, size_t size) _must_check_;
/* Whether a path is that directory. */
bool user_state_is(const char *state);

#endif
