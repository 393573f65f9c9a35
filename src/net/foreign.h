/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that a hostile process passed to us and may still hold. The open file is shared: the
 * other side can change its flags and options at any time. Three rules apply to such sockets only:
 * - O_NONBLOCK may be cleared at any time: every read and write uses MSG_DONTWAIT. splice(2), which
 *   honours only O_NONBLOCK, is never used on them.
 * - SO_LINGER may be set at any time, and a close(2) with unsent bytes would then block: use only
 *   foreign_close() to close one.
 * - Family, type and connection cannot change and are checked once.
 */
#ifndef CAY_NET_FOREIGN_H
#define CAY_NET_FOREIGN_H

#include "base/macro.h"

/*
 * 0: a connected TCP socket; TCP_NODELAY is now set. -ENOTCONN: not connected, or reset by its peer
 * meanwhile. -EPROTO: not a TCP socket.
 */
int foreign_check(int fd) _must_check_;
/*
 * After a read returned 0: whether the connection was reset instead of closed. Connections that the
 * link carries as streams are one end of a Unix socket pair, where a reset by the other side
 * appears as a hang-up. Only for a socket whose own direction has not been shut down. TCP: false,
 * because the read itself reports a reset.
 */
bool foreign_was_cut(int fd);
/* Never blocks. Bytes that the peer has not received are discarded. */
void foreign_close(int fd);

#endif
