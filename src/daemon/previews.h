/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the setting preview_domain. */
#ifndef CAY_DAEMON_PREVIEWS_H
#define CAY_DAEMON_PREVIEWS_H

#include "base/err.h"

struct preview_address {
	const char *scheme; /* "http" or "https" */
	char domain[256];   /* lower case */
	char suffix[272];   /* after "PORT-ID": ".domain[:port]" */
};

/*
 * "NAME", "NAME:PORT", "http://NAME[:PORT]" or "https://NAME[:PORT]". Without a scheme and a port,
 * the port is listen_port.
 */
int previews_address(struct preview_address *address, const char *setting, uint16_t listen_port,
		     struct err *err) _must_check_;

#endif
