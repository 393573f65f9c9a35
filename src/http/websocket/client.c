/* SPDX-License-Identifier: Apache-2.0 */
#include "http/websocket/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "base/time.h"
#include "http/websocket/frame.h"
#include "http/websocket/key.h"

#define UNREAD_BYTES ((size_t)1 << 20)	   /* after the head of the reply */
#define BYTES_PER_CALL ((size_t)256 << 10) /* then the caller checks its other descriptors */
#define CONTROL_ROOM 1024 /* for pongs and the close, in addition to the limit for messages */

/* Owner: the caller. */
struct websocket_client {
	int fd;
	struct buf unread; /* arrived with the reply */
	struct buf out;
	struct websocket_reader reader;
	websocket_client_fn on_message;
	void *arg;
	int code;
	int error;	   /* -errno: the connection is lost */
	size_t bytes_left; /* to read in this call */
	bool close_sent;
	bool close_got;
	int64_t heard_ms;
};

static size_t on_source(void *arg, void *dst, size_t n)
{
	struct websocket_client *ws = arg;
	size_t early = MIN(n, buf_len(&ws->unread));
	ssize_t got;

	if (early) {
		memcpy(dst, buf_data(&ws->unread), early);
		buf_consume(&ws->unread, early);
		return early;
	}
	if (ws->error || ws->bytes_left == 0)
		return 0;
	do
		got = recv(ws->fd, dst, MIN(n, ws->bytes_left), MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got > 0) {
		ws->bytes_left -= (size_t)got;
		ws->heard_ms = time_boot_ms();
		return (size_t)got;
	}
	if (got == 0)
		ws->error = -ECONNRESET;
	else if (errno != EAGAIN)
		ws->error = -errno;
	return 0;
}

static bool lists_upgrade(struct str value)
{
	struct str token;

	while (value.n) {
		if (!str_cut(value, ',', &token, &value)) {
			token = value;
			value.n = 0;
		}
		if (str_eq_nocase(str_trim(token, " \t"), "upgrade"))
			return true;
	}
	return false;
}

static bool is_answer_to(const struct http_response *res, const char *key)
{
	char answer[WEBSOCKET_ANSWER_LEN + 1];

	websocket_key_answer(answer, str_of(key));
	return str_eq_nocase(http_response_header(res, "Upgrade"), "websocket") &&
	       lists_upgrade(http_response_header(res, "Connection")) &&
	       str_is(http_response_header(res, "Sec-WebSocket-Accept"), answer) &&
	       http_response_header(res, "Sec-WebSocket-Extensions").n == 0 &&
	       http_response_header(res, "Sec-WebSocket-Protocol").n == 0;
}

static int open_connection(struct websocket_client *ws, struct http_client *client,
			   const char *path, struct http_response *res)
{
	char key[WEBSOCKET_KEY_LEN + 1], lines[256];
	int r;

	websocket_key_make(key);
	(void)snprintf(lines, sizeof(lines),
		       "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		       key);
	r = http_client_upgrade(client, path, str_of(lines), res, &ws->fd, &ws->unread);
	if (r != 0)
		return r;
	return is_answer_to(res, key) ? 0 : -EPROTO;
}

int websocket_client_open(struct http_client *client, const char *path, struct http_response *res,
			  websocket_client_fn on_message, void *arg, struct websocket_client **ret)
{
	struct websocket_client *ws = calloc(1, sizeof(*ws));
	int r;

	if (!ws)
		return -ENOMEM;
	ws->fd = -1;
	ws->on_message = on_message;
	ws->arg = arg;
	ws->code = WEBSOCKET_ABNORMAL;
	ws->heard_ms = time_boot_ms();
	buf_init(&ws->unread, UNREAD_BYTES);
	buf_init(&ws->out, WEBSOCKET_CLIENT_QUEUE_BYTES + CONTROL_ROOM);
	r = websocket_reader_init(&ws->reader, false, WEBSOCKET_CLIENT_MESSAGE_BYTES, on_source,
				  ws);
	if (r == 0)
		r = open_connection(ws, client, path, res);
	if (r != 0) {
		websocket_client_free(ws);
		return r;
	}
	*ret = ws;
	return 0;
}

void websocket_client_free(struct websocket_client *ws)
{
	if (!ws)
		return;
	if (ws->fd >= 0)
		(void)close(ws->fd);
	websocket_reader_done(&ws->reader);
	buf_done(&ws->unread);
	buf_done(&ws->out);
	free(ws);
}

int websocket_client_fd(const struct websocket_client *ws)
{
	return ws->fd;
}

short websocket_client_events(const struct websocket_client *ws)
{
	return (short)(POLLIN | (buf_len(&ws->out) ? POLLOUT : 0));
}

static void flush(struct websocket_client *ws)
{
	while (buf_len(&ws->out) && !ws->error) {
		ssize_t n = send(ws->fd, buf_data(&ws->out), buf_len(&ws->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			buf_consume(&ws->out, (size_t)n);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			ws->error = -errno;
	}
}

static int put_frame(struct websocket_client *ws, enum websocket_opcode opcode, struct str bytes)
{
	unsigned char head[WEBSOCKET_HEAD_MAX], mask[4];
	size_t n;
	char *dst;
	int r;

	rand_bytes(mask, sizeof(mask));
	n = websocket_put_head(head, opcode, bytes.n, mask);
	r = buf_reserve(&ws->out, n + bytes.n, &dst);
	if (r < 0)
		return -EAGAIN;
	memcpy(dst, head, n);
	websocket_mask(dst + n, bytes, mask, 0);
	buf_commit(&ws->out, n + bytes.n);
	flush(ws);
	return 0;
}

int websocket_client_send(struct websocket_client *ws, bool is_text, struct str bytes)
{
	if (ws->close_sent || ws->error)
		return -EPIPE;
	if (buf_len(&ws->out) && buf_len(&ws->out) + bytes.n > WEBSOCKET_CLIENT_QUEUE_BYTES)
		return -EAGAIN;
	return put_frame(ws, is_text ? WEBSOCKET_TEXT : WEBSOCKET_BINARY, bytes);
}

bool websocket_client_is_full(const struct websocket_client *ws)
{
	return buf_len(&ws->out) > WEBSOCKET_CLIENT_QUEUE_BYTES / 2;
}

void websocket_client_close(struct websocket_client *ws, int code)
{
	char payload[WEBSOCKET_CONTROL_MAX];
	size_t n = websocket_put_close(payload, code, (struct str){ "", 0 });

	if (ws->close_sent)
		return;
	ws->close_sent = true;
	(void)!put_frame(ws, WEBSOCKET_CLOSE, (struct str){ payload, n });
}

static void on_event(struct websocket_client *ws, enum websocket_event event,
		     const struct websocket_got *got)
{
	switch (event) {
	case WEBSOCKET_GOT_MESSAGE:
		ws->on_message(ws->arg, got->is_text, got->bytes);
		break;
	case WEBSOCKET_GOT_PING:
		if (!ws->close_sent)
			(void)!put_frame(ws, WEBSOCKET_PONG, got->bytes);
		break;
	case WEBSOCKET_GOT_CLOSE:
		ws->code = got->code;
		ws->close_got = true;
		websocket_client_close(ws, got->code);
		break;
	case WEBSOCKET_GOT_BAD:
		websocket_client_close(ws, got->code);
		ws->error = -EPROTO;
		break;
	case WEBSOCKET_GOT_NOTHING:
	case WEBSOCKET_GOT_PONG:
		break;
	}
}

int websocket_client_work(struct websocket_client *ws)
{
	enum websocket_event event = WEBSOCKET_GOT_PONG;
	struct websocket_got got;

	ws->bytes_left = BYTES_PER_CALL;
	flush(ws);
	while (!ws->close_got && event != WEBSOCKET_GOT_NOTHING && event != WEBSOCKET_GOT_BAD) {
		event = websocket_reader_next(&ws->reader, &got);
		on_event(ws, event, &got);
	}
	if (ws->close_got)
		return 1;
	return ws->error;
}

int websocket_client_code(const struct websocket_client *ws)
{
	return ws->code;
}

int64_t websocket_client_heard_ms(const struct websocket_client *ws)
{
	return ws->heard_ms;
}
