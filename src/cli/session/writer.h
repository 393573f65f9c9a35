/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes our standard output or standard error, without blocking where the kernel allows it: the
 * connection to the daemon must be served (pings, signals) however slow the reader of a pipe is.
 * Bytes that the reader has not taken are queued here.
 */
#ifndef CAY_CLI_SESSION_WRITER_H
#define CAY_CLI_SESSION_WRITER_H

#include "base/buf.h"
#include "base/str.h"

/*
 * Policy at the limit: writer_put() blocks. The daemon sends at most half of it without an
 * acknowledgement.
 */
#define WRITER_MAX_BYTES ((size_t)1 << 20)

enum outlet_kind {
	WRITER_PLAIN, /* a file or a terminal: writing may block */
	WRITER_PIPE,  /* our own non-blocking descriptor for the same pipe */
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
/* Writes as much as possible now. */
void writer_flush(struct writer *writer);
size_t writer_pending(const struct writer *writer);

#endif
