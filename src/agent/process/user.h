/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user that a command runs as. The sandbox owns /etc/passwd and /etc/group. They are therefore
 * parsed strictly, by bounded functions and without NSS, so no module of the sandbox is loaded into
 * the agent.
 */
#ifndef CAY_AGENT_PROCESS_USER_H
#define CAY_AGENT_PROCESS_USER_H

#include "base/macro.h"
#include "base/str.h"

#define USER_NAME_MAX 32
#define USER_HOME_MAX 255
#define USER_GROUPS_MAX 64 /* further memberships are ignored */
#define USER_ID_MAX 65535  /* the highest id in a sandbox */

struct user {
	uint32_t uid;
	uint32_t gid;
	char name[USER_NAME_MAX + 1];
	char home[USER_HOME_MAX + 1];
	uint32_t groups[USER_GROUPS_MAX];
	size_t group_count;
};

/*
 * Finds a name (^[a-z_][a-z0-9_-]*$) or a decimal id in the text of a passwd file. An id without an
 * entry is still a user (same gid, home "/"). -EINVAL: neither a name nor an id. -ENOENT: unknown
 * name.
 */
int user_find(struct str passwd, struct str wanted, struct user *ret) _must_check_;
/* Adds the memberships from the text of a group file; the user's own gid is first. */
void user_add_groups(struct str group, struct user *user);

/* Reads the two files (regular, bounded, never through a link) and looks up wanted. */
int user_resolve(const char *wanted, struct user *ret) _must_check_;

#endif
