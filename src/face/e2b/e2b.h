/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The E2B face: the interface of clients written for E2B, on the same service. It has a control
 * plane (paths without /v1, the key in X-API-KEY) and, per sandbox, the interface called envd
 * (files, processes, watches; the sandbox is named by headers or by the host, with an access token
 * instead of a key). The daemon's wiring owns it.
 */
#ifndef CAY_FACE_E2B_E2B_H
#define CAY_FACE_E2B_E2B_H

#include "base/macro.h"

/* Ports of every sandbox, at its preview host or selected by headers. */
#define E2B_ENVD_PORT 49983
#define E2B_CODE_PORT 49999 /* the code interpreter */

struct e2b;
struct http_req;
struct http_server;
struct route_table;
struct service;

struct e2b_config {
	struct service *service;
	const char *allowed_hosts; /* as for the REST face */
	uint16_t port;
	/* What getHost(port) appends to "PORT-ID.": NULL if previews have no domain. */
	const char *domain;
	const char *preview_domain; /* other ports of a host under it do not belong to this face */
};

int e2b_new(const struct e2b_config *config, struct e2b **ret) _must_check_;
/* After the server has been freed and the service closed. */
void e2b_free(struct e2b *e2b);
/* Replies to calls in progress use this server; NULL before it is freed. */
void e2b_set_server(struct e2b *e2b, struct http_server *server);
/*
 * For the dispatcher of faces: whether a request is for one of this face's ports of a sandbox, by
 * host or headers; and whether it is for the rest of this face, by its path.
 */
bool e2b_takes_port(void *face, const struct http_req *req);
bool e2b_takes(void *face, const struct http_req *req);
void e2b_handle(void *face, struct http_req *req);

/* The control plane; envd's procedures and plain paths; the code interpreter. */
extern const struct route_table e2b_control_table, e2b_procedure_table, e2b_plain_table,
	e2b_code_table;
extern const struct route_table *const e2b_route_tables[]; /* all tables, followed by NULL */

#endif
