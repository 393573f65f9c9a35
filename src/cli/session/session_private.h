/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of a session. */
#ifndef CAY_CLI_SESSION_SESSION_PRIVATE_H
#define CAY_CLI_SESSION_SESSION_PRIVATE_H

#include "cli/session/session.h"

/* ---- output.c ---- */
void session_make_remark(struct session *s);
void session_say_size(struct session *s);
/* One message of the daemon; arg is the session. */
void session_on_message(void *arg, bool is_text, struct str bytes);
/* A connection starts: pending bytes were sent over the previous one. */
void session_connected(struct session *s);
/* Passes on pending output and acknowledges it. */
void session_pass_on(struct session *s);
bool session_is_passing(const struct session *s);  /* output is pending */
int session_output_error(const struct session *s); /* -errno, 0: none */

/* ---- input.c ---- */
bool session_wants_input(const struct session *s);
void session_read_input(struct session *s);
void session_send_input(struct session *s);
/* Sends the signal (by name) to the command; arg is the session. */
void session_send_signal(void *arg, const char *name, int count);
/* Ctrl-P was not followed by Ctrl-Q in time: it is sent as a key. */
void session_release_key(struct session *s);

#endif
