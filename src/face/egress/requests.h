/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separates the requests on one kept-alive connection, so that the Host of each can be judged. No
 * I/O. States: HEAD -> BODY -> HEAD ...; a first request for another protocol: HEAD -> ASKED ->
 * OPEN or HEAD, depending on the server's reply.
 */
#ifndef CAY_FACE_EGRESS_REQUESTS_H
#define CAY_FACE_EGRESS_REQUESTS_H

#include "face/egress/sniff.h"
#include "http/message/chunked.h"
#include "http/message/head.h"

enum requests_state {
	REQUESTS_HEAD,
	REQUESTS_BODY,
	REQUESTS_CHUNKED,
	REQUESTS_ASKED, /* for another protocol; nothing passes until the server has answered */
	REQUESTS_OPEN,	/* the other protocol: nothing to look at. Never HTTP/2 or TLS */
};

#define REQUESTS_STATUS_BYTES 12 /* "HTTP/1.1 101" */

struct requests {
	enum requests_state state;
	struct http_scan scan;
	struct http_chunked chunks;
	uint64_t left;	   /* of a body */
	unsigned count;	   /* heads so far */
	bool names_follow; /* the protocol asked for carries names of its own: not to be entered */
	size_t status_n;
	char status[REQUESTS_STATUS_BYTES]; /* the answer's first bytes */
};

enum requests_next {
	REQUESTS_PASS, /* this many bytes belong to judged requests */
	REQUESTS_NEW,  /* this many bytes are a head; its content is in ret */
	REQUESTS_MORE, /* an incomplete head: more bytes are needed */
	REQUESTS_WAIT, /* for requests_answer() */
	REQUESTS_BAD,  /* not HTTP, or ambiguous: nothing more may pass */
};

/* n > 0. The caller consumes what passes. */
enum requests_next requests_next(struct requests *r, const char *p, size_t n, size_t *ret_n,
				 struct sniff *ret);
/* The server's bytes, in order, while its reply is awaited. */
void requests_answer(struct requests *r, const char *p, size_t n);

#endif
