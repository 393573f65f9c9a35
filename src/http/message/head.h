/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict parsers of the heads of HTTP/1.1 requests and responses, without I/O. A head that two
 * parsers could interpret differently is rejected, because a proxy before or after us may be the
 * other parser. Used by the server, the client and the proxy; all results are views of the input.
 */
#ifndef CAY_HTTP_MESSAGE_HEAD_H
#define CAY_HTTP_MESSAGE_HEAD_H

#include "base/buf.h"
#include "base/str.h"

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_OPTIONS,
	HTTP_OTHER, /* valid syntax, but not a method that we support */
};

struct http_header {
	struct str name;  /* as sent; compare with str_eq_nocase() */
	struct str value; /* trimmed */
};

#define HTTP_TARGET_MAX 8192 /* bytes; a longer one is rejected with 414 */
#define HTTP_METHOD_MAX 32   /* bytes; a longer one is rejected with 501 */
#define HTTP_HOST_MAX 255

/* Rejections are the status to reply with. */
enum http_verdict {
	HTTP_OK = 0,
	HTTP_MORE = 1,
	HTTP_BAD = 400,
	HTTP_TARGET_TOO_LONG = 414,
	HTTP_EXPECT_UNKNOWN = 417,
	HTTP_HEAD_TOO_LARGE = 431,
	HTTP_METHOD_UNKNOWN = 501,
	HTTP_VERSION_UNKNOWN = 505,
};

/* Progress of the search for the end of a head, so that every byte is inspected once. */
struct http_scan {
	size_t line; /* start of the current line */
	size_t seen; /* everything before it was searched */
	bool first_ok;
};

/*
 * Finds the empty line that ends a head. Rejects as early as possible: a first byte that no method
 * starts with, a line end without CR, an invalid request line. Start with a zeroed scan and pass
 * the same bytes again with more appended. ret_len includes the empty line.
 */
enum http_verdict http_head_scan(struct http_scan *scan, bool request, const char *p, size_t n,
				 size_t limit_bytes, size_t *ret_len) _must_check_;

/* Views into the parsed bytes. */
struct http_head {
	struct http_header *headers; /* the caller's array */
	size_t header_max;
	size_t header_count;
	int minor;		/* HTTP/1.minor, 0 or 1 */
	int64_t content_length; /* -1 when absent */
	bool chunked;
	bool keep_alive;
	bool upgrade; /* requested by both Upgrade and Connection */
	/* requests */
	enum http_method method;
	struct str method_name;
	struct str target;
	struct str path; /* starts with '/', or is "*" for OPTIONS */
	struct str query;
	struct str host; /* with its port, as sent; empty if an HTTP/1.0 request has none */
	bool expect_continue;
	/* responses */
	int status;
	const char *why; /* after a rejection: the reason, for people */
};

/* p, n: exactly what http_head_scan() measured. The caller sets headers and header_max first. */
enum http_verdict http_head_parse_request(struct http_head *head, const char *p,
					  size_t n) _must_check_;
enum http_verdict http_head_parse_response(struct http_head *head, const char *p,
					   size_t n) _must_check_;

/*
 * Removes the port from "NAME[:PORT]" of a Host header ("[v6]" keeps its brackets); false if it is
 * malformed.
 */
bool http_host_split(struct str value, struct str *ret_host);
bool http_is_token(struct str s);
bool http_is_field_value(struct str s); /* visible bytes, space, tab; no CR, LF, NUL */
/* Appends "name: value" and the line end. -EINVAL: one of them is not valid. */
int http_field_put(struct buf *out, struct str name, struct str value) _must_check_;

#endif
