/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses what a client sends to an explicit proxy: HTTP CONNECT, an HTTP request in absolute form,
 * or SOCKS5. Works on bytes in memory, without I/O. All input comes from inside a sandbox and is
 * hostile.
 */
#ifndef CAY_FACE_EGRESS_TARGET_H
#define CAY_FACE_EGRESS_TARGET_H

#include "base/buf.h"
#include "service/network/egress.h"

#define TARGET_HEAD_MAX \
	6144 /* bytes of a request's head, or of SOCKS5; rewritten, SNIFF_MAX holds it */

enum target_kind {
	TARGET_MORE,	    /* more bytes are needed */
	TARGET_BAD,	    /* why is the reason; socks: its reply code */
	TARGET_SOCKS_HELLO, /* reply 05 00 and parse the rest */
	TARGET_SOCKS,
	TARGET_CONNECT,
	TARGET_FORWARD, /* absolute form: target_rewrite() makes the request for the server */
};

struct target {
	enum target_kind kind;
	size_t used; /* bytes of the request; the rest belongs to the connection */
	char name[EGRESS_NAME_MAX + 1]; /* lower case; "": use the address */
	uint32_t address;		/* IPv4, host byte order */
	uint16_t port;
	const char *why;
	uint8_t socks_code;
};

/* greeted: the client has sent its SOCKS5 greeting before these bytes. */
void target_read(struct str bytes, bool greeted, struct target *ret);
/*
 * Writes the request of a TARGET_FORWARD for its server: origin form, Host as in the target,
 * without headers for proxies. The connection is for this one request, because the next may have
 * another target. -EINVAL: it cannot be written.
 */
int target_rewrite(struct str head, const struct target *target, struct buf *out) _must_check_;

#endif
