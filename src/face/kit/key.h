/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the API key of a request. Every face that takes one calls this, so that all of them accept
 * and reject the same requests.
 */
#ifndef CAY_FACE_KIT_KEY_H
#define CAY_FACE_KIT_KEY_H

#include "base/macro.h"
#include "base/str.h"

struct http_req;

/* Which header counts when both are there. */
enum face_key_order {
	FACE_KEY_BEARER_FIRST,	  /* an Authorization header of any kind hides X-API-Key */
	FACE_KEY_X_API_KEY_FIRST, /* clients of E2B send another credential in Authorization */
};

/*
 * The key in "Authorization: Bearer KEY" or "X-API-Key: KEY". 0, with p NULL when there is none, or
 * -EINVAL when either header is repeated: a proxy in front may have checked the other value.
 */
int face_key_read(const struct http_req *req, enum face_key_order order,
		  struct str *ret) _must_check_;

#endif
