/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the daemon to a session, and writing the output to our own descriptors. */
#include <stdio.h>

#include "cli/api/exit.h"
#include "cli/session/session_private.h"
#include "cli/session/terminal.h"

#define ACK_BYTES ((uint64_t)64 << 10) /* bytes passed on before they are acknowledged */

/* The last message, for a signal handler. */
void session_make_remark(struct session *s)
{
	char name[128];

	style_clean(name, sizeof(name), str_of(s->sandbox));
	if (s->no_detach)
		(void)snprintf(s->remark, sizeof(s->remark), "\r\ncay: ended by a signal\r\n");
	else if (s->process[0] != '\0')
		(void)snprintf(
			s->remark, sizeof(s->remark),
			"\r\ncay: ended by a signal; the command continues: cay attach %s %s\r\n",
			name, s->process);
	else
		(void)snprintf(s->remark, sizeof(s->remark),
			       "\r\ncay: ended by a signal; the command continues: cay ps %s\r\n",
			       name);
}

static void say_size(struct session *s, unsigned int cols, unsigned int rows)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols,
		       rows);
	(void)!websocket_client_send(s->ws, true, str_of(text));
}

void session_say_size(struct session *s)
{
	unsigned int cols, rows;

	terminal_size(&cols, &rows);
	say_size(s, cols, rows);
}

/* ---- output to our descriptors ---- */

static uint64_t passed(const struct session *s)
{
	return s->writers[0].passed + s->writers[1].passed;
}

/* After this many passed bytes, they belong to this connection. */
void session_connected(struct session *s)
{
	s->acked = passed(s) + writer_pending(&s->writers[0]) + writer_pending(&s->writers[1]);
	s->sent = 0;
}

static void acknowledge(struct session *s)
{
	uint64_t now = passed(s);
	char text[64];

	if (s->ws == NULL || s->end != NULL || now < s->acked + ACK_BYTES)
		return;
	(void)snprintf(text, sizeof(text), "{\"type\":\"ack\",\"bytes\":%llu}",
		       (unsigned long long)(now - s->acked));
	if (websocket_client_send(s->ws, true, str_of(text)) == 0)
		s->acked = now;
}

void session_pass_on(struct session *s)
{
	writer_flush(&s->writers[0]);
	writer_flush(&s->writers[1]);
	acknowledge(s);
}

bool session_is_passing(const struct session *s)
{
	return writer_pending(&s->writers[0]) || writer_pending(&s->writers[1]);
}

int session_output_error(const struct session *s)
{
	return s->writers[0].error ? s->writers[0].error : s->writers[1].error;
}

static void write_out(struct session *s, int i, struct str bytes)
{
	if (s->tty)
		/* before it is displayed, because a signal may arrive in between */
		terminal_watch(bytes);
	writer_put(&s->writers[i], bytes);
	acknowledge(s);
}

/* ---- messages ---- */

static void on_failure(struct session *s, const struct json *doc)
{
	struct str message = field_str(doc, "message");
	char name[64];

	if (str_copy(name, sizeof(name), field_str(doc, "code")) < 0)
		name[0] = '\0';
	s->cli->exit_status = exit_of_answer(name, 500);
	s->failed = true;
	(void)err_set(s->err, err_from_name(name), "%.*s",
		      (int)MIN(message.n, (size_t)ERR_MESSAGE_MAX), message.p);
}

/* Our notes may have disturbed a full screen: two size changes make the program redraw it. */
static void have_redrawn(struct session *s)
{
	unsigned int cols, rows;

	terminal_size(&cols, &rows);
	say_size(s, cols, rows > 1 ? rows - 1 : rows + 1);
	say_size(s, cols, rows);
}

static void on_started(struct session *s, const struct json *doc)
{
	(void)snprintf(s->process, sizeof(s->process), "%lld",
		       (long long)field_int(doc, "process_id", 0));
	session_make_remark(s);
	if (!s->known)
		s->out_cursor = (uint64_t)MAX(field_int(doc, "cursor", 0), (int64_t)0);
	s->known = true;
	if (s->tty && s->retry.until_ms != 0)
		have_redrawn(s);
	retry_connected(&s->retry, s->cli);
}

static void on_stderr(struct session *s, const struct json *doc)
{
	struct str bytes;

	if (follow_bytes(doc, "data", "data_b64", &s->bytes, &bytes) < 0)
		return;
	s->err_cursor += bytes.n;
	write_out(s, 1, bytes);
}

static void on_gap(struct session *s, const struct json *doc)
{
	bool is_err = str_is(field_str(doc, "stream"), "stderr");
	uint64_t *cursor = is_err ? &s->err_cursor : &s->out_cursor;
	uint64_t bytes = (uint64_t)MAX(field_int(doc, "bytes", 0), (int64_t)0);

	follow_lost(s->cli, s->process, is_err, bytes, *cursor);
	*cursor += bytes;
	s->lost = true;
}

static void on_taken(struct session *s, const struct json *doc)
{
	uint64_t bytes = (uint64_t)MAX(field_int(doc, "bytes", 0), (int64_t)0);

	s->sent -= (size_t)MIN(bytes, (uint64_t)s->sent);
}

/* The process has closed its input, or has ended: it determines the result, as with a pipe. */
static void on_stdin_closed(struct session *s)
{
	s->input_open = s->close_wanted = false;
	buf_clear(&s->typed);
}

void session_on_message(void *arg, bool is_text, struct str bytes)
{
	struct session *s = arg;
	struct err err = { 0 };
	struct json *doc;
	struct str type;

	if (!is_text) {
		s->out_cursor += bytes.n;
		write_out(s, 0, bytes);
		return;
	}
	doc = json_parse(bytes, &err);
	type = field_str(doc, "type");
	if (str_is(type, "started"))
		on_started(s, doc);
	else if (str_is(type, "stderr"))
		on_stderr(s, doc);
	else if (str_is(type, "gap"))
		on_gap(s, doc);
	else if (str_is(type, "taken"))
		on_taken(s, doc);
	else if (str_is(type, "stdin_closed"))
		on_stdin_closed(s);
	else if (str_is(type, "error"))
		on_failure(s, doc);
	else if (str_is(type, "exit") && s->end == NULL)
		s->end = TAKE_PTR(doc);
	json_free(doc);
}
