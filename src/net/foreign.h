/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that a hostile process passed to us and may still hold. The open file is shared: the
 * other side can change its flags and options at any time. Three rules follow, and only for such
 * sockets:
 *  - O_NONBLOCK may be cleared behind our back: every read and write says MSG_DONTWAIT, and
 *    splice(2), which looks at that flag alone, is never used on them;
 *  - SO_LINGER may be set behind our back, and a close(2) with unsent bytes would then wait:
 *    foreign_close() is the only way to close one;
 *  - what it is (family, type, connected) cannot change: looked at once.
 */
#ifndef CAY_NET_FOREIGN_H
#define CAY_NET_FOREIGN_H

#include "base/macro.h"

/* 0: a connected TCP socket, its delay switched off. -ENOTCONN: it is not, or not any more: its
 * peer may have reset it by now. -EPROTO: something else. */
int foreign_check(int fd) _must_check_;
/*
 * A read returned 0: whether the connection was cut instead of ended. Connections that the link
 * carries as streams are one end of a Unix socket pair, where a reset by the other side shows as a
 * hang-up. Only for a socket whose own direction has not been shut down. TCP: false, for the read
 * itself reports a reset.
 */
bool foreign_was_cut(int fd);
/* Never waits. Bytes the peer has not taken yet are thrown away. */
void foreign_close(int fd);

#endif
