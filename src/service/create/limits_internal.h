/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: checks sizes and times against the operator's limits. */
#ifndef CAY_SERVICE_SANDBOX_LIMITS_INTERNAL_H
#define CAY_SERVICE_SANDBOX_LIMITS_INTERNAL_H

#include "service/service_internal.h"

/* 0, or invalid_request with the field and its range. */
int limits_check(const struct service *service, const struct sandbox_spec *spec,
		 struct err *err) _must_check_;
int limits_check_name(struct str name, struct err *err) _must_check_;
int limits_check_time(const struct service *service, const char *name, int64_t sec,
		      struct err *err) _must_check_;

#endif
