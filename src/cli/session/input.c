/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends standard input to the process. At most SENT_MAX bytes are in flight that the process has
 * not taken, so that other messages (acknowledgements, signals, pongs) are never stuck behind input
 * that the daemon cannot read.
 */
#include <errno.h>

#include "cli/session/session_private.h"

#define INPUT_BYTES ((size_t)128 << 10) /* per message */
#define SENT_MAX ((size_t)768 << 10)
#define TYPED_MAX SESSION_TYPED_BYTES
#define CTRL_C 0x03
#define CTRL_P 0x10
#define CTRL_Q 0x11

void session_send_signal(void *arg, const char *name, int count)
{
	struct session *s = arg;
	char text[64];

	(void)count;
	if (s->process[0] == '\0') {
		s->interrupt.leave = true;
		return;
	}
	(void)snprintf(text, sizeof(text), "{\"type\":\"signal\",\"signal\":\"%s\"}", name);
	if (s->ws == NULL || websocket_client_send(s->ws, true, str_of(text)) < 0)
		interrupt_process(s->cli, s->sandbox, s->process, name);
}

/* Ctrl-P Ctrl-Q detaches. A Ctrl-P is held until the next key is known. */
static void take_keys(struct session *s, const char *p, size_t n)
{
	for (size_t i = 0; i < n && !s->detached; i++) {
		if (s->held && p[i] == CTRL_Q) {
			s->detached = true;
			break;
		}
		if (s->held)
			(void)!buf_putc(&s->typed, CTRL_P);
		s->held = p[i] == CTRL_P && !s->no_detach;
		if (!s->held)
			(void)!buf_putc(&s->typed, p[i]);
		if (p[i] == CTRL_C && s->ws == NULL)
			s->given_up = true; /* the user need not wait for the daemon */
	}
}

void session_release_key(struct session *s)
{
	s->held = false;
	(void)!buf_putc(&s->typed, CTRL_P);
}

bool session_wants_input(const struct session *s)
{
	return s->input_open && buf_len(&s->typed) + INPUT_BYTES + 1 <= TYPED_MAX &&
	       s->sent < SENT_MAX && s->end == NULL;
}

void session_read_input(struct session *s)
{
	static char bytes[INPUT_BYTES];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		s->input_open = false;
		s->close_wanted = !s->tty && (s->input_seen || !s->keep_stdin_open);
		return;
	}
	s->input_seen = true;
	if (s->tty)
		take_keys(s, bytes, (size_t)n);
	else
		(void)!buf_append(&s->typed, bytes, (size_t)n);
}

void session_send_input(struct session *s)
{
	struct str typed = buf_str(&s->typed);

	if (s->ws == NULL || s->end != NULL)
		return;
	while (typed.n > 0 && s->sent < SENT_MAX) {
		struct str piece = { typed.p, MIN(typed.n, INPUT_BYTES) };

		if (websocket_client_send(s->ws, false, piece) < 0)
			return;
		s->sent += piece.n;
		buf_consume(&s->typed, piece.n);
		typed = buf_str(&s->typed);
	}
	if (s->close_wanted && typed.n == 0 &&
	    websocket_client_send(s->ws, true, STR_LIT("{\"type\":\"close_stdin\"}")) == 0)
		s->close_wanted = false;
}
