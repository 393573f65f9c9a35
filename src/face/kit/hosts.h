/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that a Host header may contain; used by every face without hosts of its own, against
 * DNS rebinding.
 */
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

/* allowed: names separated by spaces or commas; NULL: only our own. 0 or -ENOMEM. */
int face_hosts_init(struct face_hosts *hosts, const char *allowed, uint16_t port) _must_check_;
void face_hosts_done(struct face_hosts *hosts);
/*
 * 0, or -1 with err set. A page of another site whose name resolves to this host sends that name.
 */
int face_hosts_check(const struct face_hosts *hosts, const struct http_req *req,
		     struct err *err) _must_check_;

/* Whether host is LABEL.domain, with or without a trailing dot; the label may contain dots. */
bool face_host_below(struct str host, const char *domain, struct str *ret_label);

#endif
