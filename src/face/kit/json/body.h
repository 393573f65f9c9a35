/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a request that http_req_read_body() has read: its errors, and the JSON object in it.
 */
#ifndef CAY_FACE_KIT_JSON_BODY_H
#define CAY_FACE_KIT_JSON_BODY_H

#include "base/err.h"
#include "base/json.h"

/* status: what the callback of http_req_read_body() received; limit: the largest body, in bytes.
 * 0, or -1 with err set. */
int body_check(int status, size_t limit, struct err *err) _must_check_;
/* An empty body stands for {}. The caller frees the result. NULL with err set: not an object. */
struct json *body_object(struct str body, struct err *err) _must_check_;

#endif
