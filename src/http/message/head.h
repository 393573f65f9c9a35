/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP/1.1 requests and responses, parsed strictly and without I/O. What two readers could
 * understand differently is refused, because a proxy in front or behind might be the other reader.
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
	HTTP_OTHER, /* syntactically fine, not one of ours */
};

struct http_header {
	struct str name;  /* as sent; compare with str_eq_nocase() */
	struct str value; /* trimmed */
};

#define HTTP_TARGET_MAX 8192 /* bytes; a longer one is answered 414 */
#define HTTP_METHOD_MAX 32   /* bytes; a longer one is answered 501 */
#define HTTP_HOST_MAX 255

/* Refusals are the status to answer with. */
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

/* Where the search for the end of a head stands, so that trickling bytes are looked at once. */
struct http_scan {
	size_t line; /* start of the current line */
	size_t seen; /* everything before it has been searched */
	bool first_ok;
};

/*
 * Finds the empty line that ends a head. Refuses as early as it can: a first byte that no method
 * starts with, a line end without CR, a request line that cannot be right. Start with a zeroed scan
 * and pass the same bytes, longer each time. ret_len counts the empty line.
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
	bool upgrade; /* asked for by both Upgrade and Connection */
	/* requests */
	enum http_method method;
	struct str method_name;
	struct str target;
	struct str path; /* starts with '/', or is "*" for OPTIONS */
	struct str query;
	struct str host; /* with its port, as sent; empty in an HTTP/1.0 request without one */
	bool expect_continue;
	/* responses */
	int status;
	const char *why; /* after a refusal: what was wrong, for people */
};

/* p, n: exactly what http_head_scan() measured. The caller sets headers and header_max before. */
enum http_verdict http_head_parse_request(struct http_head *head, const char *p,
					  size_t n) _must_check_;
enum http_verdict http_head_parse_response(struct http_head *head, const char *p,
					   size_t n) _must_check_;

/* "NAME[:PORT]" of a Host header without the port ("[v6]" keeps its brackets); false when it is
 * none. */
bool http_host_split(struct str value, struct str *ret_host);
bool http_is_token(struct str s);
bool http_is_field_value(struct str s); /* visible bytes, space, tab; no CR, LF, NUL */
/* "name: value" and the line's end. -EINVAL: one of them would not be parsed as such. */
int http_field_put(struct buf *out, struct str name, struct str value) _must_check_;

#endif
