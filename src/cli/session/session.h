/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process and the user, connected by a WebSocket: keys and piped bytes in, output and its end
 * back. With a terminal it is raw; a broken connection is made again behind the last byte.
 *
 * The session is a foreground reader: the process blocks when our reader is slow. We acknowledge
 * what we have passed on, the daemon what the process has taken, so neither side sends more than a
 * window of bytes, and the connection itself never stalls.
 */
#ifndef CAY_CLI_SESSION_SESSION_H
#define CAY_CLI_SESSION_SESSION_H

#include "cli/api/api.h"
#include "cli/session/follow.h"
#include "cli/session/interrupt.h"
#include "cli/session/writer.h"
#include "cli/api/retry.h"
#include "http/websocket/client.h"

#define SESSION_TYPED_BYTES ((size_t)512 << 10) /* read and not sent; then no more is read */

struct session {
	struct cli *cli;
	const char *sandbox;
	char process[FOLLOW_PROCESS_MAX];
	bool tty;	 /* the process has one, so ours is raw */
	bool input;	 /* standard input goes to the process; with tty always */
	bool no_signals; /* they are the caller's */
	bool no_detach;	 /* nothing is left that one could come back to */
	bool known;	 /* where to begin is; else the daemon chooses the last screen */
	uint64_t out_cursor, err_cursor;
	bool keep_stdin_open;  /* an end of input without any input is no end */
	uint64_t timeout_sec;  /* for words */
	const char *open_path; /* the first connection's, when that starts the process */

	/* Private. */
	struct err *err;
	struct websocket_client *ws;
	struct retry retry;
	struct interrupt interrupt;
	int signal_fd; /* WINCH, CONT */
	struct json *end;
	bool detached, failed, given_up;
	bool lost; /* output was */
	struct writer writers[2];
	uint64_t acked; /* of the bytes that the writers have passed on */
	size_t sent;	/* input that the process has not taken */
	bool input_open, input_seen, close_wanted;
	bool held;	  /* a Ctrl-P waits for what follows it */
	struct buf typed; /* read, not yet sent */
	struct buf bytes; /* decoded */
	char remark[320]; /* how to come back */
};

/* Zero it, set the first part, run it. The command's exit status, or -1. */
int session_run(struct session *session, struct err *err);

#endif
