/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/follow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "cli/api/exit.h"
#include "cli/api/request.h"

#define SILENCE_MS 60000 /* the daemon sends something every 15 s */

static int on_event(void *arg, struct str name, struct str id, struct str data);

void follow_init(struct follow *follow, struct cli *cli, const char *sandbox, bool live)
{
	*follow = (struct follow){ .cli = cli, .sandbox = sandbox, .live = live };
	event_init(&follow->events, on_event, follow);
	buf_init(&follow->bytes, EVENT_LIMIT_BYTES);
}

void follow_done(struct follow *follow)
{
	json_free(follow->end);
	event_done(&follow->events);
	buf_done(&follow->bytes);
}

int follow_write(int fd, struct str bytes)
{
	while (bytes.n > 0) {
		ssize_t n = write(fd, bytes.p, bytes.n);

		if (n >= 0) {
			bytes.p += n;
			bytes.n -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd pfd = { .fd = fd, .events = POLLOUT };

			(void)poll(&pfd, 1, -1); /* another program made it non-blocking */
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

int follow_bytes(const struct json *doc, const char *name, const char *name_b64, struct buf *dst,
		 struct str *ret)
{
	struct str coded = field_str(doc, name_b64);

	*ret = field_str(doc, name);
	if (coded.n == 0)
		return 0;
	buf_clear(dst);
	if (request_unb64(coded, dst) < 0)
		return -EPROTO;
	*ret = buf_str(dst);
	return 0;
}

/* Parses "12:7", the positions after everything so far. */
static void take_id(struct follow *follow, struct str id)
{
	uint64_t out, err;
	struct str a, b;

	if (!str_cut(id, ':', &a, &b) || str_to_u64(a, INT64_MAX, &out) < 0 ||
	    str_to_u64(b, INT64_MAX, &err) < 0)
		return;
	follow->out_cursor = out;
	follow->err_cursor = err;
	follow->known = true;
}

static void take_cursor(struct follow *follow, const struct json *doc, bool is_err)
{
	int64_t cursor = field_int(doc, "cursor", -1);

	if (cursor < 0)
		return;
	*(is_err ? &follow->err_cursor : &follow->out_cursor) = (uint64_t)cursor;
}

static int print_event(struct str name, const struct json *doc)
{
	struct json_writer w;
	const struct json *value;
	const char *key;
	struct buf out;
	void *it = NULL;
	int r;

	buf_init(&out, EVENT_LIMIT_BYTES);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_put_str(&w, "type", name);
	while (json_next(doc, &it, &key, &value))
		json_put_value(&w, key, value);
	json_end_object(&w);
	r = json_writer_end(&w);
	if (r == 0)
		r = buf_putc(&out, '\n');
	if (r == 0)
		r = follow_write(STDOUT_FILENO, buf_str(&out));
	buf_done(&out);
	return r;
}

static int on_output(struct follow *follow, const struct json *doc, bool is_err)
{
	struct str bytes;
	int r = follow_bytes(doc, "data", "data_b64", &follow->bytes, &bytes);

	if (r == 0 && !follow->cli->json)
		r = follow_write(is_err ? STDERR_FILENO : STDOUT_FILENO, bytes);
	if (r < 0 && r != -EPROTO)
		follow->output_error = r;
	if (r == 0)
		take_cursor(follow, doc, is_err);
	return r;
}

void follow_lost(const struct cli *cli, const char *process, bool is_err, uint64_t bytes,
		 uint64_t offset)
{
	char name[FOLLOW_PROCESS_MAX + 8];

	style_clean(name, sizeof(name), str_of(process));
	(void)fprintf(stderr,
		      "%scay: output lost: %llu bytes were overwritten before they were read "
		      "(process %s, %s, offset %llu)%s\n",
		      cli->raw ? "\r\n" : "", (unsigned long long)bytes, name,
		      is_err ? "stderr" : "stdout", (unsigned long long)offset,
		      cli->raw ? "\r" : "");
}

static void on_gap(struct follow *follow, const struct json *doc)
{
	bool is_err = str_is(field_str(doc, "stream"), "stderr");
	uint64_t bytes = (uint64_t)MAX(field_int(doc, "bytes", 0), (int64_t)0);
	uint64_t cursor = (uint64_t)MAX(field_int(doc, "cursor", 0), (int64_t)0);

	take_cursor(follow, doc, is_err);
	follow->lost = true;
	if (!follow->cli->json)
		follow_lost(follow->cli, follow->process, is_err, bytes,
			    cursor - MIN(bytes, cursor));
}

static int on_error(struct follow *follow, const struct json *doc)
{
	const struct json *error = field(doc, "error");
	struct str message, code;
	char name[64];

	error = error != NULL ? error : doc;
	code = field_str(error, "code");
	message = field_str(error, "message");
	if (str_copy(name, sizeof(name), code) < 0)
		name[0] = '\0';
	follow->cli->exit_status = exit_of_answer(name, 500);
	follow->failed = true;
	(void)err_set(follow->err, err_from_name(name), "%.*s",
		      (int)MIN(message.n, (size_t)ERR_MESSAGE_MAX), message.p);
	return -ECANCELED;
}

static int on_event(void *arg, struct str name, struct str id, struct str data)
{
	struct follow *follow = arg;
	struct json *doc = json_parse(data, follow->err);
	int r = 0;

	if (doc == NULL)
		return -EPROTO;
	if (str_is(name, "started")) {
		(void)snprintf(follow->process, sizeof(follow->process), "%lld",
			       (long long)field_int(doc, "process_id", 0));
		follow->known = true;
	} else if (str_is(name, "stdout") || str_is(name, "stderr")) {
		r = on_output(follow, doc, str_is(name, "stderr"));
	} else if (str_is(name, "gap")) {
		on_gap(follow, doc);
	} else if (str_is(name, "error")) {
		r = on_error(follow, doc);
	}
	if (r == 0) {
		take_id(follow, id);
		retry_connected(&follow->retry, follow->cli);
		if (follow->cli->json)
			follow->output_error = r = print_event(name, doc);
	}
	if (r == 0 && str_is(name, "exit")) {
		follow->end = doc;
		return 1;
	}
	json_free(doc);
	return r;
}

static int on_piece(void *arg, const char *p, size_t n)
{
	struct follow *follow = arg;

	return event_feed(&follow->events, p, n);
}

static int output_path(const struct follow *follow, char path[API_PATH_MAX], struct err *err)
{
	size_t n;

	if (api_path(path, err, "/v1/sandboxes/%s/processes/%s/output", follow->sandbox,
		     follow->process) < 0)
		return -1;
	n = strlen(path);
	if (n + strlen(follow->query) + 80 > API_PATH_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "the name is too long");
	n += (size_t)snprintf(path + n, API_PATH_MAX - n, "?follow=%s",
			      follow->live ? "true" : "false");
	if (follow->known)
		(void)snprintf(path + n, API_PATH_MAX - n, "&cursor=%llu:%llu",
			       (unsigned long long)follow->out_cursor,
			       (unsigned long long)follow->err_cursor);
	else if (follow->query[0] != '\0')
		(void)snprintf(path + n, API_PATH_MAX - n, "&%s", follow->query);
	return 0;
}

/* 0: complete. 1: the connection was lost. -1: err. */
static int stream_once(struct follow *follow, const char *path, struct err *err)
{
	int r;

	follow->err = err;
	event_reset(&follow->events);
	if (cli_connect(follow->cli, err) == 0)
		http_client_set_timeout(follow->cli->http, 5000, SILENCE_MS);
	r = api_stream(follow->cli, "GET", path, NULL, on_piece, follow, err);
	if (follow->end != NULL)
		return 0;
	if (follow->output_error < 0)
		return err_set_errno(err, ERR_INTERNAL, -follow->output_error,
				     "cannot write the output");
	if (follow->failed)
		return -1;
	if (r == -EPROTO)
		return err_set(err, ERR_INTERNAL, "the daemon sent a malformed stream");
	if (r == 0 && !follow->live)
		return 0;
	/* A stream that ends before the process was interrupted, even if it ended properly. */
	return r == 0 || follow->cli->lost ? 1 : -1;
}

int follow_run(struct follow *follow, struct err *err)
{
	bool first = follow->retry.until_ms == 0;
	char path[API_PATH_MAX];
	int r;

	for (;;) {
		if (output_path(follow, path, err) < 0)
			return -1;
		r = stream_once(follow, path, err);
		if (r <= 0)
			return r;
		/* The daemon was not running from the start: this is not a restart. */
		if (first && follow->cli->lost_error == -ECONNREFUSED)
			return -1;
		first = false;
		if (!retry_wait(&follow->retry, follow->cli))
			return err->message[0] != '\0'
				       ? -1
				       : err_set(err, ERR_UNAVAILABLE,
						 "the daemon did not restart in time");
	}
}
