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

/* Policy at the limit: writer_put() blocks. The daemon sends no more than half of it before the
 * first of it is acknowledged. */
#define WRITER_MAX_BYTES ((size_t)1 << 20)

enum outlet_kind {
	WRITER_PLAIN, /* a file or a terminal: writing may block */
	WRITER_PIPE,  /* a descriptor of our own for the same pipe, non-blocking */
	WRITER_SOCKET,
};

/* Owner: the session. */
struct writer {
	int fd;
	enum outlet_kind kind;
	struct buf pending;
	uint64_t passed; /* bytes written so far */
	int error;	 /* -errno; from then on everything is dropped */
};

void writer_init(struct writer *writer, int fd);
void writer_done(struct writer *writer);
void writer_put(struct writer *writer, struct str bytes);
/* Writes what can be written now. */
void writer_flush(struct writer *writer);
size_t writer_pending(const struct writer *writer);

#endif
