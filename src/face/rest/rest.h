/* SPDX-License-Identifier: Apache-2.0 */
/* The REST face: HTTP and JSON outside, the service inside. The daemon's wiring owns it. */
#ifndef CAY_FACE_REST_REST_H
#define CAY_FACE_REST_REST_H

#include "base/macro.h"

struct rest;
struct http_req;
struct http_server;
struct route_table;
struct service;

struct rest_config {
	struct service *service;
	/*
	 * Names that a Host header may contain besides localhost, 127.0.0.1 and [::1], separated by
	 * spaces or commas.
	 */
	const char *allowed_hosts;
	/* origins whose pages may use the API; NULL or "": only our own */
	const char *cors_origins;
	uint16_t port;	       /* a Host header's port must be this one; 0: any */
	int heartbeat_ms;      /* between heartbeats of event streams; 0: 15 s */
	uint32_t open_per_min; /* calls of one client that need no key; 0: ATTEMPTS_OPEN */
	/* POST /v1/admin/shutdown was answered: the program may end. */
	void (*on_shutdown)(void *arg);
	void *arg;
};

int rest_new(const struct rest_config *config, struct rest **ret) _must_check_;
/* After the server has been freed and the service closed. */
void rest_free(struct rest *rest);
/* Replies to calls in progress use this server; NULL before it is freed. */
void rest_set_server(struct rest *rest, struct http_server *server);
extern const struct route_table rest_route_table;
/* An http_handler_fn; ctx is the struct rest. */
void rest_handle(void *ctx, struct http_req *req);

#endif
