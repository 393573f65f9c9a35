/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of a connection to a host with brokered secrets: parsed strictly, its header
 * serialized again. Only header values are replaced, never the target or the body. No I/O.
 */
#ifndef CAY_FACE_BROKER_REQUEST_H
#define CAY_FACE_BROKER_REQUEST_H

#include <sys/types.h>

#include "base/buf.h"
#include "http/message/chunked.h"
#include "http/message/head.h"

#define REQUEST_HEAD_MAX 65536 /* before and after */
#define REQUEST_HEADERS_MAX 200

struct sandbox;

struct request {
	const char *name; /* the connection's host name, which Host must equal */
	uint16_t port;
	struct http_scan scan;
	struct http_head head; /* views of the bytes read; the caller owns headers */
	size_t head_bytes;
	const char *status, *why; /* for a rejection */
};

/* p, n: the same bytes, with more appended each time. 1: done; 0: more is needed; -1: rejected. */
int request_read(struct request *req, const char *p, size_t n) _must_check_;
/* Writes the head for the host; out then contains secrets. */
int request_write(const struct request *req, const struct sandbox *sandbox,
		  struct buf *out) _must_check_;

struct request_body {
	bool chunked, endless; /* endless: another protocol follows */
	bool done;
	uint64_t left;
	struct http_chunked chunks;
};
void request_body_init(struct request_body *body, const struct http_head *head);
/* How many of these bytes belong to the body. -1: malformed. */
ssize_t request_body_take(struct request_body *body, const char *p, size_t n) _must_check_;

#endif
