/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors beside the bytes of a unix socket (SCM_RIGHTS). */
#ifndef CAY_SYS_RIGHTS_H
#define CAY_SYS_RIGHTS_H

#include "base/macro.h"

#define RIGHTS_MAX 8 /* in one message; the kernel cuts what comes with more */

struct rights {
	int fds[RIGHTS_MAX]; /* the receiver's, close-on-exec; -1 behind the last */
	size_t count;
	bool cut; /* more came than was asked for, or something else: none of that is left */
};

/*
 * One sendmsg(2) with MSG_NOSIGNAL and flags: what it sent, or -errno. Up to RIGHTS_MAX descriptors
 * go with the first byte and stay the caller's, too; -EINVAL with more.
 */
ssize_t rights_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t count,
		    int flags) _must_check_;
/*
 * One recvmsg(2) with flags: what came, 0 at the end, or -errno. Of the descriptors that came along
 * the first max (up to RIGHTS_MAX) are in ret, written on success only; all others are closed.
 */
ssize_t rights_receive(int socket_fd, void *bytes, size_t size, size_t max, int flags,
		       struct rights *ret) _must_check_;

#endif
