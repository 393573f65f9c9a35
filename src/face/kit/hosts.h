/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a Host header may carry; the same for every face that has no hosts of its own. */
#ifndef CAY_FACE_KIT_HOSTS_H
#define CAY_FACE_KIT_HOSTS_H

#include "base/err.h"
#include "base/macro.h"
#include "base/str.h"

struct http_req;

/* Owner: its face. */
struct face_hosts {
	char **names;
	size_t count;
	uint16_t port; /* a Host header's port must be this one; 0: any */
};

/* allowed: names with blanks or commas between them; NULL: none but our own. 0 or -ENOMEM. */
int face_hosts_init(struct face_hosts *hosts, const char *allowed, uint16_t port) _must_check_;
void face_hosts_done(struct face_hosts *hosts);
/* 0, or -1 with err set: a page of another site whose name was made to point here sends its own. */
int face_hosts_check(const struct face_hosts *hosts, const struct http_req *req,
		     struct err *err) _must_check_;

/* Whether host is LABEL.domain, with or without the root's own dot; the label may have dots too. */
bool face_host_below(struct str host, const char *domain, struct str *ret_label);

#endif
