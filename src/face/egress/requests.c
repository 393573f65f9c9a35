/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/requests.h"

#include <string.h>

#define HEADERS_MAX 100

/* What follows is again requests with names, for the same server: HTTP/2 and TLS. */
static bool asks_for_names(const struct http_head *head)
{
	for (size_t i = 0; i < head->header_count; i++) {
		struct str rest = head->headers[i].value, one;

		if (!str_eq_nocase(head->headers[i].name, "upgrade"))
			continue;
		while (rest.n) {
			struct str next = { NULL, 0 };

			if (!str_cut(rest, ',', &one, &next))
				one = rest;
			one = str_trim(one, " \t");
			if ((one.n >= 2 && str_eq_nocase((struct str){ one.p, 2 }, "h2")) ||
			    (one.n >= 4 && str_eq_nocase((struct str){ one.p, 4 }, "TLS/")) ||
			    (one.n >= 5 && str_eq_nocase((struct str){ one.p, 5 }, "HTTP/")))
				return true;
			rest = next;
		}
	}
	return false;
}

static void enter_body(struct requests *r, const struct http_head *head)
{
	r->left = head->content_length > 0 ? (uint64_t)head->content_length : 0;
	if (head->upgrade) {
		r->state = REQUESTS_ASKED;
		r->names_follow = asks_for_names(head);
	} else if (head->chunked) {
		r->state = REQUESTS_CHUNKED;
		http_chunked_init(&r->chunks);
	} else {
		r->state = r->left ? REQUESTS_BODY : REQUESTS_HEAD;
	}
}

static enum requests_next next_head(struct requests *r, const char *p, size_t n, size_t *ret_n,
				    struct sniff *ret)
{
	struct http_header headers[HEADERS_MAX];
	struct http_head head = { .headers = headers, .header_max = HEADERS_MAX };
	enum http_verdict v;

	/* Empty lines before a request belong to none; servers skip them. */
	if (p[0] == '\r' && (n == 1 || p[1] == '\n')) {
		*ret_n = 2;
		return n == 1 ? REQUESTS_MORE : REQUESTS_PASS;
	}
	v = http_head_scan(&r->scan, true, p, n, SNIFF_MAX, ret_n);
	if (v == HTTP_MORE)
		return REQUESTS_MORE;
	r->scan = (struct http_scan){ 0 };
	if (v != HTTP_OK || http_head_parse_request(&head, p, *ret_n) != HTTP_OK)
		return REQUESTS_BAD;
	/*
	 * Only for the first request is it known which reply announces the switch, and no client
	 * sends a body before it.
	 */
	if (head.upgrade && (r->count || head.chunked || head.content_length > 0))
		return REQUESTS_BAD;
	*ret = (struct sniff){ .protocol = EGRESS_HTTP };
	sniff_host(head.host, ret);
	r->count++;
	enter_body(r, &head);
	return REQUESTS_NEW;
}

static enum requests_next next_chunks(struct requests *r, const char *p, size_t n, size_t *ret_n)
{
	struct str data;
	size_t used;

	for (*ret_n = 0; *ret_n < n && r->state == REQUESTS_CHUNKED; *ret_n += used) {
		int end = http_chunked_next(&r->chunks, p + *ret_n, n - *ret_n, &used, &data);

		if (end < 0)
			return REQUESTS_BAD;
		if (end == 1)
			r->state = REQUESTS_HEAD;
		else if (used == 0)
			break;
	}
	return *ret_n ? REQUESTS_PASS : REQUESTS_MORE;
}

enum requests_next requests_next(struct requests *r, const char *p, size_t n, size_t *ret_n,
				 struct sniff *ret)
{
	switch (r->state) {
	case REQUESTS_HEAD:
		return next_head(r, p, n, ret_n, ret);
	case REQUESTS_BODY:
		*ret_n = (size_t)MIN((uint64_t)n, r->left);
		r->left -= *ret_n;
		if (r->left == 0)
			r->state = REQUESTS_HEAD;
		return REQUESTS_PASS;
	case REQUESTS_CHUNKED:
		return next_chunks(r, p, n, ret_n);
	case REQUESTS_ASKED:
		return REQUESTS_WAIT;
	case REQUESTS_OPEN:
		break;
	}
	*ret_n = n;
	return REQUESTS_PASS;
}

void requests_answer(struct requests *r, const char *p, size_t n)
{
	bool http, switched;

	if (r->state != REQUESTS_ASKED)
		return;
	n = MIN(n, sizeof(r->status) - r->status_n);
	memcpy(r->status + r->status_n, p, n);
	r->status_n += n;
	if (r->status_n < sizeof(r->status))
		return;
	http = memcmp(r->status, "HTTP/1.1 ", 9) == 0 || memcmp(r->status, "HTTP/1.0 ", 9) == 0;
	switched = http && memcmp(r->status + 9, "101", 3) == 0;
	/* Kept in HEAD, the other protocol ends the connection: it cannot be read as a request. */
	r->state = switched && !r->names_follow ? REQUESTS_OPEN : REQUESTS_HEAD;
}
