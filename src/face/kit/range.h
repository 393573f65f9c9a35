/* SPDX-License-Identifier: Apache-2.0 */
/* Range headers, for every face that serves files. */
#ifndef CAY_FACE_KIT_RANGE_H
#define CAY_FACE_KIT_RANGE_H

#include "base/err.h"

struct files_spec;
struct http_req;

/* "bytes=0-99", "bytes=100-", "bytes=-5". Other units are ignored. */
int face_range_read(const struct http_req *req, struct files_spec *spec,
		    struct err *err) _must_check_;

#endif
