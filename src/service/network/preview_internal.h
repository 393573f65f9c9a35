/* SPDX-License-Identifier: Apache-2.0 */
/* Between preview.c, which keeps them, and preview_access.c, which says who gets through. */
#ifndef CAY_SERVICE_NETWORK_PREVIEW_INTERNAL_H
#define CAY_SERVICE_NETWORK_PREVIEW_INTERNAL_H

#include "engine/link.h"
#include "service/network/preview.h"
#include "service/service_internal.h"

/* Remote shells and screens are not web servers: nobody opens them by mistake. */
bool preview_is_reserved(int64_t port);
struct preview *preview_by_id(const struct sandbox *sandbox, struct str id);
/* port 0: the one of all ports. */
struct preview *preview_of_port(const struct sandbox *sandbox, uint16_t port);
int preview_add_token(struct preview *preview, const uint8_t hash[32],
		      int64_t expires_ms) _must_check_;

/* port.c, preview.c */
void port_stop_all(struct service *service);
void port_told(struct sandbox *sandbox, const struct link_port *port, bool opened);
int preview_load(struct service *service, struct err *err) _must_check_;
void preview_free_all(struct sandbox *sandbox);
void preview_forget_all(struct sandbox *sandbox); /* on disk too: it has ended */
void preview_tick(struct service *service);

#endif
