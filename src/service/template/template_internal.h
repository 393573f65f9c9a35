/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: templates and their builds. */
#ifndef CAY_SERVICE_TEMPLATE_TEMPLATE_INTERNAL_H
#define CAY_SERVICE_TEMPLATE_TEMPLATE_INTERNAL_H

#include "service/service_internal.h"
#include "service/template/template.h"

/* The reference by which engines know this version. */
void template_image(const struct template *tpl, struct engine_image_ref *ret);
/* Finds a version by its hash alone; its name comes from its description. */
struct template *template_by_content(struct service *service, const char *hash_hex,
				     struct err *err);
struct template *template_by_hash(struct service *service, const char *name, const char *hash_hex,
				  struct err *err);
bool template_removing(struct service *service, struct str name);
void template_set_removing(struct service *service, struct str name, bool removing);

/* template.c: called by service.c, in this order. NULL: no memory. */
struct templates *templates_new(void);
void templates_close(struct service *service);

#endif
