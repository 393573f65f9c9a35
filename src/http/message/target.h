/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict parser of absolute URLs: a URL that two parsers could interpret differently is rejected.
 */
#ifndef CAY_HTTP_MESSAGE_TARGET_H
#define CAY_HTTP_MESSAGE_TARGET_H

#include "base/str.h"

#define HTTP_TARGET_HOST_MAX 253
#define HTTP_TARGET_URL_MAX 2048

struct http_target {
	bool secure;
	uint16_t port;
	char host[HTTP_TARGET_HOST_MAX + 1]; /* a name or an address, without brackets */
	struct str authority;		     /* for the Host header; a view */
	struct str path;		     /* with its query; empty: "/". A view */
};
/* http://HOST[:PORT][/PATH][?QUERY] or https://; no user, no fragment, visible ASCII only. 0 or
 * -EINVAL.
 */
int http_target_parse(struct str url, struct http_target *ret) _must_check_;

#endif
