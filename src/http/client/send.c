/* SPDX-License-Identifier: Apache-2.0 */
/* Sending requests: heads, bodies in memory, bodies from a source. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/message/chunked.h"
#include "http/client/state.h"

#define SOURCE_BYTES 262144

int client_wait(struct http_client *client, short events, short *ret_events)
{
	struct pollfd pfds[] = { { .fd = client->fd, .events = events },
				 { .fd = client->wake_fd, .events = POLLIN } };
	int r;

	for (;;) {
		r = poll(pfds, ARRAY_LEN(pfds), client->idle_ms > 0 ? client->idle_ms : -1);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0)
			return -ETIMEDOUT;
		if (r > 0 && pfds[1].revents) {
			r = client->wake(client->wake_arg);
			if (r < 0)
				return r;
		}
		if (pfds[0].revents)
			break;
	}
	*ret_events = pfds[0].revents;
	return 0;
}

int client_head(struct http_client *client, const struct client_call *call, const char *path,
		struct str content_type, struct str lines, struct buf *out)
{
	const char *method = call->method;
	struct str body = call->body;
	struct str m = str_of(method), target = str_of(path);
	bool framed = body.n || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
		      strcmp(method, "PATCH") == 0;
	int r;

	if (!http_is_token(m) || target.n == 0 || target.p[0] != '/' ||
	    !http_is_field_value(content_type))
		return -EINVAL;
	for (size_t i = 0; i < target.n; i++)
		if ((unsigned char)target.p[i] <= ' ' || (unsigned char)target.p[i] >= 0x7f)
			return -EINVAL; /* would end the request line, or is not a URL */
	r = buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, client->host_header);
	for (size_t i = 0; i < client->header_count && r == 0; i++)
		r = buf_printf(out, "%s: %s\r\n", client->headers[i].name,
			       client->headers[i].value);
	if (r == 0 && content_type.n)
		r = buf_printf(out, "Content-Type: %.*s\r\n", (int)content_type.n, content_type.p);
	if (r == 0 && call->source && call->source->length < 0)
		r = buf_puts(out, "Transfer-Encoding: chunked\r\n");
	else if (r == 0 && call->source)
		r = buf_printf(out, "Content-Length: %lld\r\n", (long long)call->source->length);
	else if (r == 0 && framed)
		r = buf_printf(out, "Content-Length: %zu\r\n", body.n);
	if (r == 0)
		r = buf_append(out, lines.p, lines.n);
	return r == 0 ? buf_puts(out, "\r\n") : r;
}

/* 1: everything was sent; 0: a reply arrived before; -errno. */
static int send_all(struct client_call *call, struct iovec *iov, size_t count)
{
	struct http_client *client = call->client;

	while (count) {
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
		ssize_t n = sendmsg(client->fd, &msg, MSG_NOSIGNAL);
		short events = 0;
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0; /* a reply may have arrived before the reset */
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0) {
			r = client_wait(client, POLLIN | POLLOUT, &events);
			if (r < 0)
				return r;
			if (events & POLLIN)
				return 0;
			continue;
		}
		for (; count && (size_t)n >= iov->iov_len; iov++, count--)
			n -= (ssize_t)iov->iov_len;
		if (count) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 1;
}

static struct iovec iov_of(struct str s)
{
	return (struct iovec){ (char *)(uintptr_t)s.p, s.n };
}

static int send_source(struct client_call *call)
{
	const struct http_client_source *source = call->source;
	char *bytes = malloc(SOURCE_BYTES), line[HTTP_CHUNK_HEAD_SIZE];
	int r = bytes ? 1 : -ENOMEM;
	bool chunked = source->length < 0;
	int64_t left = source->length;

	while (r == 1 && (chunked || left)) {
		ssize_t n = source->read(source->arg, bytes, SOURCE_BYTES);
		struct iovec iov[3];

		if (n > 0 && !chunked && n > left)
			n = (ssize_t)left; /* the source grew: send only the announced length */
		if (n == 0 && !chunked)
			n = -EPIPE; /* the source shrank */
		if (n <= 0) {
			r = n < 0 ? (int)n : 1;
			break;
		}
		left -= n;
		iov[0] = iov_of((struct str){ line, http_chunk_head(line, (size_t)n) });
		iov[1] = iov_of((struct str){ bytes, (size_t)n });
		iov[2] = iov_of(STR_LIT("\r\n"));
		r = send_all(call, chunked ? iov : iov + 1, chunked ? 3 : 1);
	}
	free(bytes);
	if (r == 1 && chunked) {
		struct iovec last = iov_of(STR_LIT(HTTP_CHUNK_LAST));

		r = send_all(call, &last, 1);
	}
	return r;
}

int client_send(struct client_call *call, bool *ret_complete)
{
	struct iovec iov[2] = { iov_of(call->head), iov_of(call->body) };
	int r = send_all(call, iov, call->body.n ? 2 : 1);

	if (r == 1 && call->source)
		r = send_source(call);
	*ret_complete = r == 1;
	return MIN(r, 0);
}
