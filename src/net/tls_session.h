/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: the session that the pipe uses. */
#ifndef CAY_NET_TLS_SESSION_H
#define CAY_NET_TLS_SESSION_H

#include <sys/types.h>

#include "net/tls.h"

struct tls_session;

/* Reads and writes fd, which the caller owns. server_name NULL: the server's side. */
int tls_session_new(struct tls_ctx *ctx, int fd, struct str unread, const char *server_name,
		    struct tls_session **ret) _must_check_;
void tls_session_free(struct tls_session *session);

/*
 * All return -EAGAIN with *want set to LOOP_READ or LOOP_WRITE if the socket is not ready. A write
 * must be repeated with the same bytes at the front. Other errors end the session.
 */
int tls_session_handshake(struct tls_session *session, int *want) _must_check_;
ssize_t tls_session_read(struct tls_session *session, char *p, size_t n,
			 int *want) _must_check_; /* 0: end of the peer's stream */
ssize_t tls_session_write(struct tls_session *session, const char *p, size_t n,
			  int *want) _must_check_;
/* sends close_notify, once */
int tls_session_close(struct tls_session *session, int *want) _must_check_;

#endif
