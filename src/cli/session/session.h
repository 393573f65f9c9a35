/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects a process and the user by a WebSocket: keys and piped bytes in, output and the exit
 * status back. With a terminal, ours is in raw mode. A broken connection is reestablished and
 * continues after the last byte.
 *
 * The session is a foreground reader: the process blocks if our reader is slow. We acknowledge the
 * bytes that we have passed on, and the daemon those that the process has taken. Neither side
 * therefore sends more than a window of bytes, and the connection itself never stalls.
 */
#ifndef CAY_CLI_SESSION_SESSION_H
#define CAY_CLI_SESSION_SESSION_H

#include "cli/api/api.h"
#include "cli/session/follow.h"
#include "cli/session/interrupt.h"
#include "cli/session/writer.h"
#include "cli/api/retry.h"
#include "http/websocket/client.h"

#define SESSION_TYPED_BYTES                                                  \
	((size_t)512 << 10) /* read but not sent; at the limit reading stops \
			     */

struct session {
	struct cli *cli;
	const char *sandbox;
	char process[FOLLOW_PROCESS_MAX];
	bool tty;	 /* the process has a terminal, so ours is raw */
	bool input;	 /* standard input goes to the process; with tty always */
	bool no_signals; /* the caller handles signals */
	bool no_detach;	 /* nothing remains that one could reattach to */
	bool known;	 /* the start is known; otherwise the daemon chooses the last screen */
	uint64_t out_cursor, err_cursor;
	bool keep_stdin_open;  /* an end of input without any input is not passed on */
	uint64_t timeout_sec;  /* for messages */
	const char *open_path; /* path of the first connection, if that starts the process */

	/* Private. */
	struct err *err;
	struct websocket_client *ws;
	struct retry retry;
	struct interrupt interrupt;
	int signal_fd; /* WINCH, CONT */
	struct json *end;
	bool detached, failed, given_up;
	bool lost; /* output was lost */
	struct writer writers[2];
	uint64_t acked; /* bytes that the writers have passed on and we acknowledged */
	size_t sent;	/* input that the process has not taken */
	bool input_open, input_seen, close_wanted;
	bool held;	  /* a Ctrl-P waits for the next key */
	struct buf typed; /* read, not yet sent */
	struct buf bytes; /* decoded */
	char remark[320]; /* how to reattach */
};

/* Zero it, set the first part, run it. Returns the command's exit status, or -1. */
int session_run(struct session *session, struct err *err);

#endif
