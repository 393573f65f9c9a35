/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/user_state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool user_state(char *dst, size_t size)
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (geteuid() == 0)
		return false;
	if (base != NULL && base[0] == '/') /* the specification ignores relative paths */
		n = snprintf(dst, size, "%s/cay", base);
	else if (home != NULL && home[0] == '/')
		n = snprintf(dst, size, "%s/.local/state/cay", home);
	else
		return false;
	return n > 0 && (size_t)n < size;
}

bool user_state_is(const char *state)
{
	char own[PATH_MAX], resolved[PATH_MAX];

	return user_state(own, sizeof(own)) &&
	       (strcmp(own, state) == 0 ||
		(realpath(own, resolved) != NULL && strcmp(resolved, state) == 0));
}
