/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking HTTP/1.1 client with keep-alive over one TCP or Unix socket connection. The CLI uses
 * it to reach the daemon, and engines to reach a local API. It parses replies strictly. The caller
 * owns the client and every response.
 */
#ifndef CAY_HTTP_CLIENT_CLIENT_H
#define CAY_HTTP_CLIENT_CLIENT_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

struct http_client;

/*
 * url: http://HOST:PORT (name or address), https://HOST:PORT or unix:/path. Connects on the first
 * request. https:// trusts the system's store, or the file that SSL_CERT_FILE names
 * (-EKEYREJECTED).
 */
int http_client_new(const char *url, struct http_client **ret) _must_check_;
void http_client_free(struct http_client *client);
void http_client_set_header(struct http_client *client, const char *name,
			    const char *value); /* sent with every request */
void http_client_set_timeout(struct http_client *client, int connect_ms,
			     int idle_ms); /* idle 0: no limit */

/*
 * While a call waits for the server, it also waits for fd and calls fn when fd is readable. A
 * negative result of fn ends the call with that result. fd -1: none.
 */
void http_client_set_wake(struct http_client *client, int fd, int (*fn)(void *arg), void *arg);

struct http_response {
	int status;
	struct buf head;  /* raw header block */
	char trailer[64]; /* the first trailer after a chunked body, "Name: value"; or "" */
	struct buf body;
};
void http_response_init(struct http_response *res, size_t body_limit_bytes);
void http_response_done(struct http_response *res);
/* Value of a response header; empty if absent. */
struct str http_response_header(const struct http_response *res, const char *name);

/*
 * Sends one request and reads the whole reply. 0 or -errno (-ECONNREFUSED, -ETIMEDOUT, -EPROTO,
 * -EFBIG).
 */
int http_client_call(struct http_client *client, const char *method, const char *path,
		     struct str content_type, struct str body,
		     struct http_response *res) _must_check_;
/*
 * The same, but passes every piece of the body to the sink as it arrives. data returns non-zero to
 * stop: a negative value is returned, a positive one is not an error. The body of a reply with
 * status 400 or above is collected in res instead, because it is an error document.
 */
typedef int (*http_client_data_fn)(void *arg, const char *p, size_t n);
struct http_client_sink {
	http_client_data_fn data;
	void *arg;
};
int http_client_stream(struct http_client *client, const char *method, const char *path,
		       struct str content_type, struct str body, struct http_response *res,
		       const struct http_client_sink *sink) _must_check_;

/*
 * A body of any size. read returns the number of bytes, 0 at the end, or -errno, which ends the
 * call with that error and closes the connection. length -1: not known in advance.
 */
struct http_client_source {
	int64_t length;
	ssize_t (*read)(void *arg, char *p, size_t n);
	void *arg;
};
int http_client_upload(struct http_client *client, const char *method, const char *path,
		       const struct http_client_source *source,
		       struct http_response *res) _must_check_;

/*
 * Requests another protocol over a separate connection, with additional header lines (each with its
 * CR LF). 0: switched; the caller now owns the connection, which is non-blocking, and the bytes
 * after the head. 1: the server replied otherwise, see res. Or -errno.
 */
int http_client_upgrade(struct http_client *client, const char *path, struct str lines,
			struct http_response *res, int *ret_fd,
			struct buf *ret_unread) _must_check_;

#endif
