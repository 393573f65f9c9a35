/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: templates and their builds. */
#ifndef CAY_SERVICE_TEMPLATE_TEMPLATE_PRIVATE_H
#define CAY_SERVICE_TEMPLATE_TEMPLATE_PRIVATE_H

#include "service/service_private.h"
#include "service/template/template.h"

struct template *template_by_hash(struct service *service, const char *name, const char *hash_hex,
				  struct err *err);
void template_done(struct service *service);
bool template_removing(struct service *service, struct str name);
void template_set_removing(struct service *service, struct str name, bool removing);
void build_done_all(struct service *service);

#endif
