/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS of the daemon's server: the current certificate, its replacement while connections continue,
 * and redirects from http:// to https://.
 */
#ifndef CAY_DAEMON_SECURE_H
#define CAY_DAEMON_SECURE_H

#include "base/err.h"
#include "daemon/config.h"
#include "http/server/server.h"

struct secure;

/* *ret is NULL if no certificate is configured. port: the port of https://. */
int secure_new(const struct config *config, struct loop *loop, uint16_t port, struct secure **ret,
	       struct err *err) _must_check_;
/* Starts to serve TLS. */
int secure_start(struct secure *secure, struct http_server *server, struct err *err) _must_check_;
/* Call after the server was freed. NULL is allowed. */
void secure_free(struct secure *secure);

/* A face: accepts plain requests from other hosts and redirects them to https://. */
bool secure_redirects(void *secure, const struct http_req *req);
void secure_redirect(void *secure, struct http_req *req);

#endif
