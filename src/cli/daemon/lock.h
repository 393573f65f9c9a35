/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock files of the state directory. A running program holds an exclusive flock() on its file
 * and has written its pid to it: the lock proves that it is alive, and the pid identifies it. A pid
 * alone is not trusted, because it may have been reused.
 */
#ifndef CAY_CLI_DAEMON_LOCK_H
#define CAY_CLI_DAEMON_LOCK_H

#include <sys/types.h>

#include "base/macro.h"

#define LOCK_SUPERVISOR "supervisor.lock"
#define LOCK_DAEMON "cayd.lock"
#define LOCK_WARDEN "warden.lock"

/* Takes the lock and writes our pid; -EWOULDBLOCK if another process holds it. */
int lock_take(const char *dir, const char *name, int *ret_fd) _must_check_;

struct lock_holder {
	pid_t pid;
	int pidfd; /* becomes readable when it ends; the caller closes it */
};

/*
 * Finds the holder of a lock. -ENOENT: none. -EAGAIN: one that has not written its pid yet, or has
 * just ended. -EBADMSG: the pid in the file is not the one that the kernel lists as the holder.
 */
int lock_find(const char *dir, const char *name, struct lock_holder *ret) _must_check_;
bool lock_is_held(const char *dir, const char *name);

/* Sends a signal to the holder through its pidfd. 0 or -errno. */
int lock_signal(const struct lock_holder *holder, int signum) _must_check_;
/* Waits until the holder has ended: 0 or -ETIMEDOUT. */
int lock_wait(const struct lock_holder *holder, int timeout_ms) _must_check_;
void lock_holder_done(struct lock_holder *holder);

int lock_pidfd(pid_t pid) _must_check_; /* the descriptor or -errno */

#endif
