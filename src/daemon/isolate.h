/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own isolation: main() drops its privileges before it reads any input. */
#ifndef CAY_DAEMON_ISOLATE_H
#define CAY_DAEMON_ISOLATE_H

#include <sys/types.h>

#include "base/err.h"

struct isolate_user {
	uid_t uid;
	gid_t gid;
};

int isolate_find_user(const char *name, struct isolate_user *ret, struct err *err) _must_check_;
/* Changes to the user permanently: groups, ids, all capabilities, no new privileges. */
int isolate_drop(const struct isolate_user *user, struct err *err) _must_check_;
/* The same without a change of user, for a daemon that was not started as root. */
int isolate_lock_down(struct err *err) _must_check_;
/*
 * Prevents other processes of the same user from reading our memory. It also blocks our own access
 * to /proc/self/fd.
 */
int isolate_hide(bool hidden, struct err *err) _must_check_;
/*
 * Allows only what the daemon needs; with allow_exec (the local engine starts programs itself),
 * everything except what no program needs.
 */
int isolate_filter(bool allow_exec, struct err *err) _must_check_;

#endif
