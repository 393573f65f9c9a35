/* SPDX-License-Identifier: Apache-2.0 */
/* How the daemon takes power away from itself before it reads a byte from anybody. */
#ifndef CAY_DAEMON_ISOLATE_H
#define CAY_DAEMON_ISOLATE_H

#include <sys/types.h>

#include "base/err.h"

struct isolate_user {
	uid_t uid;
	gid_t gid;
};

int isolate_find_user(const char *name, struct isolate_user *ret, struct err *err) _must_check_;
/* Becomes the user for good: groups, ids, every capability, no new privileges. */
int isolate_drop(const struct isolate_user *user, struct err *err) _must_check_;
/* The same without a change of user: for a start that was not root's. */
int isolate_lock_down(struct err *err) _must_check_;
/* Nobody of the same user may look into our memory; nor may we into our own /proc/self/fd. */
int isolate_hide(bool hidden, struct err *err) _must_check_;
/* Only what the daemon needs; with allow_exec (the local engine starts programs itself) all but
 * what no program needs. */
int isolate_filter(bool allow_exec, struct err *err) _must_check_;

#endif
