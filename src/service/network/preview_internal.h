/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by preview.c, which has the table, and preview_access.c, which decides about access. */
#ifndef CAY_SERVICE_NETWORK_PREVIEW_INTERNAL_H
#define CAY_SERVICE_NETWORK_PREVIEW_INTERNAL_H

#include "engine/link.h"
#include "service/network/preview.h"
#include "service/service_internal.h"

/* Remote shells and screens are not web servers, and must not be opened by mistake. */
bool preview_is_reserved(int64_t port);
struct preview *preview_by_id(const struct sandbox *sandbox, struct str id);
/* port 0: the preview of every port. */
struct preview *preview_of_port(const struct sandbox *sandbox, uint16_t port);
int preview_add_token(struct preview *preview, const uint8_t hash[32],
		      int64_t expires_ms) _must_check_;

/* port.c, preview.c */
void port_stop_all(struct service *service);
void port_told(struct sandbox *sandbox, const struct link_port *port, bool opened);
int preview_load(struct service *service, struct err *err) _must_check_;
void preview_free_all(struct sandbox *sandbox);
void preview_forget_all(struct sandbox *sandbox); /* also on disk: the sandbox has ended */
void preview_tick(struct service *service);

#endif
