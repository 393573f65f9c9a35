/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the intended host in the first bytes of a connection. No I/O. */
#ifndef CAY_FACE_EGRESS_SNIFF_H
#define CAY_FACE_EGRESS_SNIFF_H

#include "service/network/egress.h"

#define SNIFF_MAX 8192 /* bytes inspected; a ClientHello with post-quantum keys has under 2 KiB */

struct sniff {
	enum egress_protocol protocol; /* TLS, HTTP or TCP */
	bool odd; /* it says a name that is none, or says it in a way others may read otherwise */
	bool broken; /* begins like TLS, but is no ClientHello; odd is set, too */
	char name[EGRESS_NAME_MAX + 1]; /* lower case; "": it says none */
};

/* false: more bytes are needed to tell; ret then holds the best guess so far. all: there will be
 * none. */
bool sniff(const void *bytes, size_t size, bool all, struct sniff *ret);
/* The value of a Host header; the rest of ret stays as it is. */
void sniff_host(struct str value, struct sniff *ret);

#endif
