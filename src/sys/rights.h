/* SPDX-License-Identifier: Apache-2.0 */
/* Passing descriptors over a Unix socket (SCM_RIGHTS). */
#ifndef CAY_SYS_RIGHTS_H
#define CAY_SYS_RIGHTS_H

#include "base/macro.h"

#define RIGHTS_MAX 8 /* per message; the kernel truncates messages with more */

struct rights {
	int fds[RIGHTS_MAX]; /* owned by the receiver, close-on-exec; -1 after the last */
	size_t count;
	bool cut; /* more arrived than requested, or other control data; all of it was discarded */
};

/*
 * One sendmsg(2) with MSG_NOSIGNAL and flags. Returns the number of bytes sent or -errno. Up to
 * RIGHTS_MAX descriptors travel with the first byte; the caller keeps its own. -EINVAL with more.
 */
ssize_t rights_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t count,
		    int flags) _must_check_;
/*
 * One recvmsg(2) with flags. Returns the number of bytes, 0 at the end, or -errno. The first max
 * (up to RIGHTS_MAX) received descriptors are in ret, which is written only on success; all others
 * are closed.
 */
ssize_t rights_receive(int socket_fd, void *bytes, size_t size, size_t max, int flags,
		       struct rights *ret) _must_check_;

#endif
