/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preview face: requests to "PORT-ID.<domain>", or with Cay-Sandbox-Id and Cay-Sandbox-Port,
 * are forwarded to the server on that port inside that sandbox. Our tokens, keys and headers are
 * removed, and forged ones of the client are replaced.
 */
#ifndef CAY_FACE_PREVIEW_PREVIEW_H
#define CAY_FACE_PREVIEW_PREVIEW_H

#include "base/macro.h"

struct http_req;
struct http_server;
struct loop;
struct preview_face;
struct service;

struct preview_config {
	struct loop *loop;
	struct service *service;
	const char *domain; /* "cay.localhost", lower case; a Host below it is ours */
	const char *scheme; /* "http", or "https" if a proxy in front terminates TLS */
	const char *suffix; /* after "PORT-ID" in an address: ".cay.localhost:7070" */
	/* for requests routed by header, in addition to loopback names */
	const char *allowed_hosts;
};

int preview_new(const struct preview_config *config, struct preview_face **ret) _must_check_;
/* ends active requests; call before the service closes */
void preview_free(struct preview_face *face);
void preview_set_server(struct preview_face *face, struct http_server *server);
/* For the dispatcher. */
bool preview_takes(void *face, const struct http_req *req);
void preview_handle(void *face, struct http_req *req);

#endif
