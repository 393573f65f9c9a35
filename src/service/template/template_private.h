/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/template: the state of the theme. */
#ifndef CAY_SERVICE_TEMPLATE_TEMPLATE_PRIVATE_H
#define CAY_SERVICE_TEMPLATE_TEMPLATE_PRIVATE_H

#include "service/service_internal.h"

#define BUILDS_MAX 64 /* remembered builds; the oldest finished one is dropped */

/* Owner: the service. */
struct templates {
	struct template *first;
	struct map refs; /* name -> struct template_ref */
	struct build *builds[BUILDS_MAX];
};

void build_done_all(struct service *service);

#endif
