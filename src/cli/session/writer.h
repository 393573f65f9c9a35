/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our standard output or standard error, written without blocking where the kernel allows it: the
 * connection to the daemon must be served (pings, signals) however slow the reader behind a pipe
 * is. What the reader has not taken yet waits here.
 */
#ifndef CAY_CLI_SESSION_WRITER_H
#define CAY_CLI_SESSION_WRITER_H

#include "base/buf.h"
#include "base/str.h"

/* Policy at the limit: outlet_put() blocks. The daemon sends no more than half of it before the
 * first of it is acknowledged. */
#define OUTLET_MAX_BYTES ((size_t)1 << 20)

enum outlet_kind {
	OUTLET_PLAIN, /* a file or a terminal: writing may block */
	OUTLET_PIPE,  /* a descriptor of our own for the same pipe, non-blocking */
	OUTLET_SOCKET,
};

/* Owner: the session. */
struct outlet {
	int fd;
	enum outlet_kind kind;
	struct buf pending;
	uint64_t passed; /* bytes written so far */
	int error;	 /* -errno; from then on everything is dropped */
};

void outlet_init(struct outlet *outlet, int fd);
void outlet_done(struct outlet *outlet);
void outlet_put(struct outlet *outlet, struct str bytes);
/* Writes what can be written now. */
void outlet_flush(struct outlet *outlet);
size_t outlet_pending(const struct outlet *outlet);

#endif
