/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parser of multipart/form-data (RFC 7578) that accepts pieces of any size and never holds a
 * part.
 */
#ifndef CAY_FACE_E2B_ENVD_MULTIPART_H
#define CAY_FACE_E2B_ENVD_MULTIPART_H

#include "base/str.h"

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEAD_MAX 16384 /* bytes of one part's headers; more is rejected */
#define MULTIPART_NAME_MAX 8192	 /* of a file */

enum multipart_event {
	MULTIPART_MORE,	 /* more bytes are needed */
	MULTIPART_BEGIN, /* a part: name, filename */
	MULTIPART_DATA,	 /* some of its content: data, a view of what was passed in */
	MULTIPART_PART_END,
	MULTIPART_END, /* the last boundary; bytes after it are ignored */
};

struct multipart {
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
	size_t n;
	int state;
	struct str data;
	/* truncated if longer: it is only compared with one word */
	char name[64];
	char filename[MULTIPART_NAME_MAX + 1]; /* "": there was none */
};

/* The boundary of a Content-Type. 0 or -EINVAL. */
int multipart_init(struct multipart *m, struct str content_type) _must_check_;
/* The next event of bytes; *ret_used of them are consumed. An event, or -EINVAL. */
int multipart_next(struct multipart *m, struct str bytes, size_t *ret_used) _must_check_;

#endif
