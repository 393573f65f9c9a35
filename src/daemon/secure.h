/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS of the front: the certificate in force, its replacement while connections live on, and the
 * way from http:// to https://.
 */
#ifndef CAY_DAEMON_SECURE_H
#define CAY_DAEMON_SECURE_H

#include "base/err.h"
#include "daemon/config.h"
#include "http/server/server.h"

struct secure;

/* *ret is NULL when no certificate is configured. port: where https:// is served. */
int secure_new(const struct config *config, struct loop *loop, uint16_t port, struct secure **ret,
	       struct err *err) _must_check_;
/* Begins to serve TLS there. */
int secure_start(struct secure *secure, struct http_server *server, struct err *err) _must_check_;
/* After the server's end. NULL is fine. */
void secure_free(struct secure *secure);

/* A face: takes what came in plain from elsewhere, and sends it to https://. */
bool secure_redirects(void *secure, const struct http_req *req);
void secure_redirect(void *secure, struct http_req *req);

#endif
