/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every request must pass before a handler sees it: host, key, scope, origin, media type. A
 * face says in a struct guard what is special about it; the checks are the same for all of them.
 * Each returns 0 (or the key), or -1 (NULL) with err set.
 */
#ifndef CAY_FACE_KIT_GUARD_H
#define CAY_FACE_KIT_GUARD_H

#include "face/kit/cors.h"
#include "face/kit/hosts.h"
#include "face/kit/key.h"
#include "face/kit/route.h"

struct service;

/* Messages that clients of a face compare or know from elsewhere. */
struct guard_texts {
	const char *key_repeated, *key_missing, *key_invalid;
	const char *scope;  /* NULL: the message names the scope */
	const char *origin; /* NULL: the message names the origin */
};

struct guard_config {
	const char *allowed_hosts; /* NULL: only our own */
	uint16_t port;
	const char *cors_origins; /* pages that may use the face; NULL: none */
	bool own_pages;		  /* pages that this host serves may use it, too */
	enum face_key_order key_order;
	const struct guard_texts *texts; /* static; NULL: the kit's */
};

/* Owner: its face. */
struct guard {
	struct face_hosts hosts;
	struct cors cors;
	bool own_pages;
	enum face_key_order key_order;
	const struct guard_texts *texts;
};

/* -EINVAL: one of cors_origins is not an origin. guard_done() follows in any case. */
int guard_init(struct guard *guard, const struct guard_config *config) _must_check_;
void guard_done(struct guard *guard);

int guard_host(const struct guard *guard, const struct http_req *req, struct err *err) _must_check_;
struct key *guard_key(const struct guard *guard, struct service *service,
		      const struct http_req *req, struct err *err);
/* Looks up the key of a call again, because it may have been deleted since the first check. */
struct key *guard_again(struct service *service, const char *key_id, struct err *err);
int guard_scope(const struct guard *guard, const struct key *key, const struct route *route,
		struct err *err) _must_check_;
int guard_origin(const struct guard *guard, const struct http_req *req, const struct route *route,
		 struct err *err) _must_check_;
/* *ret_raw: the body is not JSON, and the route takes it as it is. */
int guard_media_type(const struct http_req *req, const struct route *route, bool *ret_raw,
		     struct err *err) _must_check_;

#endif
