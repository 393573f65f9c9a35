/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages of other origins may use the API from a browser: docs/guides/browsers.md. */
#ifndef CAY_FACE_KIT_CORS_H
#define CAY_FACE_KIT_CORS_H

#include "base/err.h"
#include "base/str.h"

struct http_req;

/* Owner: its face. */
struct cors {
	char **origins;
	size_t count;
};

/*
 * list: "https://app.example http://localhost:3000", separated by spaces or commas. -EINVAL: an
 * invalid origin (also '*').
 */
int cors_init(struct cors *cors, const char *list) _must_check_;
void cors_done(struct cors *cors);
bool cors_allows(const struct cors *cors, struct str origin);
/* Adds to the reply, whatever it will be, which page may read it. */
void cors_mark(const struct cors *cors, struct http_req *req);
/* A browser's preflight request: true if it was one, and was answered. */
bool cors_preflight(const struct cors *cors, struct http_req *req);

#endif
