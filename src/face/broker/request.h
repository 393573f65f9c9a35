/* SPDX-License-Identifier: Apache-2.0 */
/* One request of a connection to a host with brokered secrets: read strictly, its header written
 * anew. Only header values are ever replaced: not the target, not the body. No I/O. */
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
	const char *name; /* the connection's, which Host must be */
	uint16_t port;
	struct http_scan scan;
	struct http_head head; /* views of the bytes read; headers are the caller's */
	size_t head_bytes;
	const char *status, *why; /* of a refusal */
};

/* p, n: the same bytes, longer each time. 1: done; 0: more is needed; -1: refused. */
int request_read(struct request *req, const char *p, size_t n) _must_check_;
/* The head as the host gets it; out holds secrets then. */
int request_write(const struct request *req, const struct sandbox *sandbox,
		  struct buf *out) _must_check_;

struct request_body {
	bool chunked, endless; /* endless: another protocol follows */
	bool done;
	uint64_t left;
	struct http_chunked chunks;
};
void request_body_init(struct request_body *body, const struct http_head *head);
/* How many of these bytes belong to it. -1: malformed. */
ssize_t request_body_take(struct request_body *body, const char *p, size_t n) _must_check_;

#endif
