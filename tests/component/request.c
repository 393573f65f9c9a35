/* SPDX-License-Identifier: Apache-2.0 */
/* The client side of world.h: requests over socket pairs, and what their replies contain. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "world.h"

/* ---- requests ---- */

void request_open(struct request *req)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			 0);
	assert_int_equal(http_server_adopt(world.server, ends[1]), 0);
	*req = (struct request){ .fd = ends[0] };
}

void request_write(struct request *req, struct str bytes)
{
	while (bytes.n) {
		ssize_t n = write(req->fd, bytes.p, bytes.n);

		if (n < 0 && errno == EAGAIN)
			loop_turn(world.loop, 1);
		else if (n < 0)
			break; /* rejected before the end: the reply says why */
		else
			bytes = (struct str){ bytes.p + n, bytes.n - (size_t)n };
	}
}

void request_send_bytes(struct request *req, const char *key, const char *method, const char *path,
			const char *headers, struct str body)
{
	char auth[128] = "";
	struct buf text;
	int r;

	if (key)
		(void)snprintf(auth, sizeof(auth), "Authorization: Bearer %s\r\n", key);
	buf_init(&text, body.n + 65536);
	r = buf_printf(&text, "%s %s HTTP/1.1\r\n%sConnection: close\r\n%s%s", method, path,
		       headers && strstr(headers, "Host:") ? "" : "Host: localhost\r\n", auth,
		       headers ? headers : "");
	if (r == 0 && body.p)
		r = buf_printf(&text, "%sContent-Length: %zu\r\n",
			       headers && strstr(headers, "Content-Type")
				       ? ""
				       : "Content-Type: application/json\r\n",
			       body.n);
	if (r == 0)
		r = buf_puts(&text, "\r\n");
	if (r == 0)
		r = buf_append(&text, body.p, body.n);
	assert_int_equal(r, 0);
	request_open(req);
	request_write(req, buf_str(&text));
	buf_done(&text);
}

void request_send(struct request *req, const char *key, const char *method, const char *path,
		  const char *headers, const char *body)
{
	request_send_bytes(req, key, method, path, headers, str_of(body));
}

static void pump(struct request *req)
{
	for (;;) {
		ssize_t r;

		if (req->size - req->n < 4096) {
			req->size = req->size ? req->size * 2 : 16384;
			req->bytes = realloc(req->bytes, req->size);
			assert_non_null(req->bytes);
		}
		r = read(req->fd, req->bytes + req->n, req->size - req->n - 1);
		if (r < 0 && errno == EAGAIN)
			return;
		if (r <= 0) {
			req->done = true;
			return;
		}
		req->n += (size_t)r;
	}
}

const char *request_until(struct request *req, const char *text)
{
	int64_t end_us = time_mono_us() + WORLD_WAIT_US;
	char *at;

	for (;;) {
		pump(req);
		req->bytes[req->n] = '\0';
		at = memmem(req->bytes + req->seen, req->n - req->seen, text, strlen(text));
		if (at)
			break;
		if (req->done || time_mono_us() > end_us)
			fail_msg("no '%s' after: %s", text, req->bytes + req->seen);
		loop_turn(world.loop, 5);
	}
	req->seen = (size_t)(at - req->bytes) + strlen(text);
	return at;
}

bool request_ended(struct request *req)
{
	pump(req);
	return req->done;
}

/* In place; the body is then the raw bytes. An incomplete body is not changed. */
static void unchunk(struct answer *answer, size_t n)
{
	char *from = answer->body, *to = answer->body, *end = answer->body + n;

	if (!strstr(answer->head, "Transfer-Encoding: chunked"))
		return;
	while (from < end) {
		size_t size = strtoul(from, &from, 16);

		from += 2;
		if (size == 0 || from + size > end)
			break;
		memmove(to, from, size);
		to += size;
		from += size + 2;
		answer->complete = from + 3 <= end && strncmp(from, "0\r\n", 3) == 0;
	}
	*to = '\0';
	answer->n = (size_t)(to - answer->body);
}

void request_wait(struct request *req, struct answer *ret)
{
	int64_t end_us = time_mono_us() + WORLD_WAIT_US;
	char *body;

	while (!req->done) {
		loop_turn(world.loop, 5);
		pump(req);
		if (time_mono_us() > end_us)
			fail_msg("no reply within %d s", WORLD_WAIT_US / 1000000);
	}
	(void)close(req->fd);
	assert_true(req->n > 12);
	req->bytes[req->n] = '\0';
	*ret = (struct answer){ .head = req->bytes };
	ret->status = atoi(req->bytes + 9);
	body = strstr(req->bytes, "\r\n\r\n");
	assert_non_null(body);
	body[2] = '\0';
	ret->body = body + 4;
	ret->n = req->n - (size_t)(ret->body - req->bytes);
	unchunk(ret, ret->n);
	if (ret->body[0] == '{')
		ret->doc = json_parse(str_of(ret->body), NULL);
}

void request_drop(struct request *req)
{
	(void)close(req->fd);
	free(req->bytes);
}

void answer_free(struct answer *answer)
{
	json_free(answer->doc);
	free(answer->head);
	*answer = (struct answer){ 0 };
}

static struct answer last;

void call_done(void)
{
	answer_free(&last);
}

struct answer *call_as(const char *key, const char *method, const char *path, const char *body)
{
	struct request req;

	answer_free(&last);
	request_send(&req, key, method, path, NULL, body);
	request_wait(&req, &last);
	return &last;
}

struct answer *call(const char *method, const char *path, const char *body)
{
	return call_as(world.admin, method, path, body);
}

/* ---- answers ---- */

const struct json *member(const struct json *object, const char *key)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (object && json_type(object) == JSON_OBJECT && json_next(object, &it, &name, &value))
		if (strcmp(name, key) == 0)
			return value;
	return NULL;
}

static const char *text(const struct json *value)
{
	return value && json_type(value) == JSON_STRING ? json_str(value).p : "";
}

const char *text_of(const struct answer *answer, const char *key)
{
	return text(member(answer->doc, key));
}

int64_t int_of(const struct answer *answer, const char *key)
{
	const struct json *value = member(answer->doc, key);

	return value && json_type(value) == JSON_INT ? json_int(value) : -1;
}

const char *error_code(const struct answer *answer)
{
	return text(member(member(answer->doc, "error"), "code"));
}

const char *error_message(const struct answer *answer)
{
	return text(member(member(answer->doc, "error"), "message"));
}

static char *next_buffer(void)
{
	static char buffers[64][512];
	static unsigned turn;

	return buffers[turn++ % 64];
}

const char *path_of(const char *fmt, ...)
{
	char *buffer = next_buffer();
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buffer, 512, fmt, ap);
	va_end(ap);
	return buffer;
}

const char *make(const char *body)
{
	const struct answer *a = call("POST", "/v1/sandboxes", body);
	char *id = next_buffer();

	expect_status(a, 201);
	(void)snprintf(id, 512, "%s", text_of(a, "id"));
	return id;
}

const char *make_key(const char *scopes)
{
	const struct answer *a =
		call("POST", "/v1/keys", path_of("{\"name\":\"k\",\"scopes\":%s}", scopes));
	char *key = next_buffer();

	expect_status(a, 201);
	(void)snprintf(key, 512, "%s", text_of(a, "key"));
	return key;
}

void follow_send(struct request *req, const char *id, const char *process, const char *query)
{
	request_send(req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/%s/output?%s", id, process, query), NULL,
		     NULL);
}
