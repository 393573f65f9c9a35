/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests on one kept-alive connection, told apart so that each one's Host can be judged. No
 * I/O. HEAD -> BODY -> HEAD ...; a first request that wants another protocol: HEAD -> ASKED -> OPEN
 * or HEAD, as its server answers.
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
	REQUESTS_PASS, /* so many bytes belong to what was judged */
	REQUESTS_NEW,  /* so many bytes are a head; what it says is in ret */
	REQUESTS_MORE, /* a head without its end: more bytes are needed */
	REQUESTS_WAIT, /* for requests_answer() */
	REQUESTS_BAD,  /* no HTTP, or none that everybody reads alike: nothing more may pass */
};

/* n > 0. What passes is consumed by the caller. */
enum requests_next requests_next(struct requests *r, const char *p, size_t n, size_t *ret_n,
				 struct sniff *ret);
/* The server's bytes, in order, while somebody waits for them. */
void requests_answer(struct requests *r, const char *p, size_t n);

#endif
